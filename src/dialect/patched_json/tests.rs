//! Tests of patches, most of them from the appendix of RFC 6902.

use super::*;

/// The document, the patch, and the result (`None` if the client has to apply it).
type Row<'r> = (&'r str, &'r str, Option<&'r str>);

#[test]
fn applies_patches_by_rfc_6902() {
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        // RFC 6902, appendix A.1 to A.7, A.10, A.16
        (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz","value":"qux"}]"#, Some(r#"{"foo":"bar","baz":"qux"}"#)),
        (r#"{"foo":["bar","baz"]}"#, r#"[{"op":"add","path":"/foo/1","value":"qux"}]"#, Some(r#"{"foo":["bar","qux","baz"]}"#)),
        (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"remove","path":"/baz"}]"#, Some(r#"{"foo":"bar"}"#)),
        (r#"{"foo":["bar","qux","baz"]}"#, r#"[{"op":"remove","path":"/foo/1"}]"#, Some(r#"{"foo":["bar","baz"]}"#)),
        (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"replace","path":"/baz","value":"boo"}]"#, Some(r#"{"baz":"boo","foo":"bar"}"#)),
        (r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#, r#"[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]"#,
            Some(r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#)),
        (r#"{"foo":["all","grass","cows","eat"]}"#, r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#, Some(r#"{"foo":["all","cows","eat","grass"]}"#)),
        (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/child","value":{"grandchild":{}}}]"#, Some(r#"{"foo":"bar","child":{"grandchild":{}}}"#)),
        (r#"{"foo":["bar"]}"#, r#"[{"op":"add","path":"/foo/-","value":["abc","def"]}]"#, Some(r#"{"foo":["bar",["abc","def"]]}"#)),
        // A.12: "Adding to a Nonexistent Target"
        (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz/bat","value":"qux"}]"#, None),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, Some(r#"{"a":1,"b":1}"#)),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":[1.10]}]"#, Some("[1.10]")),
        (r#"{"a/b":{"~":1}}"#, r#"[{"op":"replace","path":"/a~1b/~0","value":2}]"#, Some(r#"{"a/b":{"~":2}}"#)),
        // Untouched values keep their text.
        (r#"{"n":1.10,"big":12345678901234567890,"s":"\ud800","x":0}"#, r#"[{"op":"replace","path":"/x","value":1e400}]"#,
            Some(r#"{"n":1.10,"big":12345678901234567890,"s":"\ud800","x":1e400}"#)),
        (r#"{"a":1,"a":2}"#, r#"[{"op":"add","path":"/b","value":3}]"#, Some(r#"{"a":2,"b":3}"#)),
        // All or nothing.
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2},{"op":"remove","path":"/b"}]"#, None),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/2","value":2}]"#, None),
        (r#"{"a":[1]}"#, r#"[{"op":"replace","path":"/a/1","value":2}]"#, None),
        (r#"{"a":[1]}"#, r#"[{"op":"remove","path":"/a/01"}]"#, None),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a","path":"/a/b"}]"#, None),
        (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b/c"}]"#, None),
        // A.8, A.9, A.14, A.15: "Testing a Value", and 4.6 on numbers and objects
        (r#"{"baz":"qux","foo":["a",2,"c"]}"#, r#"[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]"#,
            Some(r#"{"baz":"qux","foo":["a",2,"c"]}"#)),
        (r#"{"baz":"qux"}"#, r#"[{"op":"test","path":"/baz","value":"bar"}]"#, None),
        (r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":10}]"#, Some(r#"{"/":9,"~1":10}"#)),
        (r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":"10"}]"#, None),
        (r#"{"a":{"b":1,"c":[null]}}"#, r#"[{"op":"test","path":"/a","value":{"c":[null],"b":1.0}}]"#, Some(r#"{"a":{"b":1,"c":[null]}}"#)),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"test","path":"/a","value":{"b":1,"c":2}}]"#, None),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2},{"op":"test","path":"/a","value":2}]"#, Some(r#"{"a":2}"#)),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/__proto__","value":1}]"#, None),
        (r#"{"a":1}"#, r#"[{"op":"remove","path":""}]"#, None),
        (r#"7"#, r#"[{"op":"add","path":"/a","value":1}]"#, None),
    ];
    for (document, patch, expected) in rows {
        let mut tree = PatchedJson::new(&Json::from_trusted(*document));
        let applied = tree.apply(&Json::from_trusted(*patch));
        assert_eq!(applied.is_ok(), expected.is_some(), "{document} {patch}");
        assert_eq!(tree.to_json().as_str(), expected.unwrap_or(document), "{patch}");
    }
}

fn apply_often(document: &str, patch: &str, times: usize) -> (PatchedJson, usize) {
    let mut tree = PatchedJson::new(&Json::from_trusted(document));
    let applied = (0..times).take_while(|_| tree.apply(&Json::from_trusted(patch)).is_ok()).count();
    (tree, applied)
}

/// Thirty operations of forty bytes would copy a gigabyte.
#[test]
fn leaves_copies_to_the_client_that_grow_without_end() {
    let patch = r#"[{"op":"copy","from":"","path":"/a"}]"#;
    let (tree, applied) = apply_often(r#"{"b":1}"#, patch, 30);
    assert!((1..30).contains(&applied) && tree.heap_size() < 30 * patch.len() * CREDIT_PER_BYTE, "{applied}");
    // A copy of what was sent does not grow.
    let (_, applied) = apply_often(r#"{"b":1}"#, r#"[{"op":"copy","from":"/b","path":"/a"}]"#, 1000);
    assert_eq!(applied, 1000);
}

/// Each element takes 2 bytes of text, and 64 when the array is opened.
#[test]
fn leaves_values_to_the_client_that_take_much_when_opened() {
    let replace = r#"[{"op":"replace","path":"/l/0","value":1}]"#;
    for (elements, expected) in [(10_000, 1), (100_000, 0)] {
        let document = format!("{{\"l\":[{}0]}}", "0,".repeat(elements));
        let (tree, applied) = apply_often(&document, replace, 1);
        assert_eq!(applied, expected);
        assert!(tree.heap_size() < document.len() + OPENING_CREDIT, "{}", tree.heap_size());
    }
    let document = format!("{{{}}}", (0..20_000).map(|name| format!("\"{name}\":0")).collect::<Vec<_>>().join(","));
    assert_eq!(apply_often(&document, r#"[{"op":"replace","path":"/0","value":1}]"#, 1).1, 0);
    // Opens values that agents send anew each time, unless they take more than eight times their text.
    for (element, opens_all) in [("0.123456789,", true), ("0,", false)] {
        let list = format!("[{}0]", element.repeat(100));
        let renew = format!(r#"[{{"op":"replace","path":"/l","value":{list}}},{{"op":"remove","path":"/l/0"}}]"#);
        assert_eq!(apply_often(r#"{"l":[]}"#, &renew, 2000).1 == 2000, opens_all);
    }
}

#[test]
fn moves_and_prepends_as_often_as_agents_want() {
    let list = format!("{{\"l\":[{}0]}}", "0,".repeat(10_000));
    for patch in [
        r#"[{"op":"move","from":"/l","path":"/k"},{"op":"move","from":"/k","path":"/l"}]"#,
        r#"[{"op":"add","path":"/l/0","value":1}]"#,
        r#"[{"op":"add","path":"/l/5000","value":1}]"#,
    ] {
        assert_eq!(apply_often(&list, patch, 5000).1, 5000, "{patch}");
    }
}

#[test]
fn undoes_moves_of_patches_that_fail_later() {
    let document = r#"{"a":{"b":1},"l":[1,2],"c":3}"#;
    for (operations, expected) in [
        (r#"{"op":"move","from":"/l/0","path":"/l/-"}"#, document),
        (r#"{"op":"move","from":"/a/b","path":"/c"}"#, document),
        (r#"{"op":"move","from":"/c","path":""}"#, document),
        // A member that comes back is the last one.
        (r#"{"op":"move","from":"/a","path":"/l/0"}"#, r#"{"l":[1,2],"c":3,"a":{"b":1}}"#),
        (r#"{"op":"move","from":"/a","path":"/d/e"}"#, r#"{"l":[1,2],"c":3,"a":{"b":1}}"#),
    ] {
        let mut tree = PatchedJson::new(&Json::from_trusted(document));
        let patch = format!("[{operations},{{\"op\":\"remove\",\"path\":\"/none\"}}]");
        assert!(tree.apply(&Json::from_trusted(patch)).is_err());
        assert_eq!(tree.to_json().as_str(), expected, "{operations}");
    }
}
