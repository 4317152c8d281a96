//! The decoder against the standard: the web platform tests' `eventsource` cases, and every split of a body that
//! exercises every rule.

use super::*;

/// Exercises every rule once, in one body.
const EVERY_RULE: &[u8] = b"\xEF\xBB\xBFdata: one\n\n\
    : a comment\ndata: two\r\ndata:2\r\n\r\n\
    data:cr\r\rid: 7\revent: tick\rdata\r\r\
    event: dropped\nid: kept\n\ndata:  two spaces\nunknown: x\nno colon\n\n\
    id: a\0b\nretry: 1500\nretry: 15s\ndata: gr\xC3\xBC\xC3\x9Fe \xF0\x9F\x98\x80\n\n\
    event\ndata: bad \xFF\xE2\x82 \xF0\x9F\n\n\
    data:\xEF\xBB\xBFno bom\n\n\
    id\ndata: {\"a\":[1,2]}\nevent: last";

#[test]
fn follows_every_rule_at_every_split() {
    let reading = assert_every_split_agrees(SseLimits::default(), EVERY_RULE);
    let frame =
        |data: &str, event: Option<&str>, id: Option<&str>| (data.into(), event.map(Into::into), id.map(Into::into));
    assert_eq!(
        reading.frames,
        [
            frame("one", None, None),
            frame("two\n2", None, None),
            frame("cr", None, None),
            frame("", Some("tick"), Some("7")),
            frame(" two spaces", None, Some("kept")),
            frame("grüße 😀", None, None),
            frame("bad \u{FFFD}\u{FFFD} \u{FFFD}", None, None),
            frame("\u{FEFF}no bom", None, None),
            frame("{\"a\":[1,2]}", Some("last"), Some("")),
        ]
    );
    assert_eq!(reading.retry, Some(Duration::from_millis(1500)));
    assert_eq!(reading.fault, None);
}

#[test]
fn decodes_short_bodies_alike_at_every_two_splits() {
    for body in [
        &b"\xEF\xBB\xBFdata:a\r\n\r\ndata:\xE2\x82\xAC\r\rid:1\n\n:c\n\ndata"[..],
        b"\xEF\xBBdata:x\n\ndata:y\r\r\n\r\ndata:z",
        b"\r\n\rdata:a\n\rdata:b\r\n\n:\rdata\r",
    ] {
        assert_every_two_splits_agree(SseLimits::default(), body);
        let tight = SseLimits { line: 7, frame: 2 };
        assert_every_two_splits_agree(tight, body);
    }
}

#[test]
fn accepts_mixed_line_endings() {
    let ends = ["\n", "\r\n", "\r"];
    for first in ends {
        for second in ends {
            for third in ends {
                let body = format!("data:a{first}data:b{second}{third}data:c{first}");
                let reading = assert_every_split_agrees(SseLimits::default(), body.as_bytes());
                let frames: Vec<_> = reading.frames.iter().map(|f| f.0.as_str()).collect();
                // A CR followed by an LF is one line end, so no blank line remains.
                let expected: &[&str] = match (second, third) {
                    ("\r", "\n") => &["a\nb\nc"],
                    _ => &["a\nb", "c"],
                };
                assert_eq!(frames, expected, "{body:?}");
            }
        }
    }
}

#[test]
fn dispatches_on_a_blank_line_ended_by_cr_without_waiting() {
    let mut decoder = SseDecoder::default();
    let mut input: &[u8] = b"data:a\r\r";
    assert!(matches!(decoder.next(&mut input), SseStep::Frame(f) if f.data == "a"));
    let mut input: &[u8] = b"\ndata:b\r\n\r";
    assert!(matches!(decoder.next(&mut input), SseStep::Frame(f) if f.data == "b"));
    let mut input: &[u8] = b"\n";
    assert_eq!(decoder.next(&mut input), SseStep::More);
    assert_eq!(decoder.finish(), SseStep::More);
}

/// The rules that the web platform tests check under `eventsource/format-*`, by test name. The `format-mime-*` cases
/// concern the response header, which is not read here. An unfinished event at the end of a case is dropped there and
/// dispatched here.
#[test]
fn passes_the_web_platform_eventsource_cases() {
    let long = "x".repeat(2048);
    let comments = format!("data:1\r:\0\n:\r\ndata:2\n:{long}\rdata:3\n:data:no\r:{long}\ndata:4\n\n");
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("bom", b"\xEF\xBB\xBFdata:1\n\n\xEF\xBB\xBFdata:2\n\ndata:3\n\n", &["1", "3"]),
        ("bom-2", b"\xEF\xBB\xBF\xEF\xBB\xBFdata:1\n\ndata:2\n\ndata:3\n\n", &["2", "3"]),
        ("comments", comments.as_bytes(), &["1\n2\n3\n4"]),
        ("field-data", b"data:\n\ndata\ndata\n\ndata:end\n\n", &["", "\n", "end"]),
        (
            "field-parsing",
            b"data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
            &["\0\n 2\n1\n3\n\n4"],
        ),
        (
            "field-unknown",
            b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:a comment\ndata:test\n\n",
            &["test\n\ntest"],
        ),
        ("leading-space", b"data:\ttest\rdata: \ndata:test\n\n", &["\ttest\n\ntest"]),
        ("newlines", b"data:test\r\ndata\ndata:test\r\n\r", &["test\n\ntest"]),
        ("null-character", b"data:\0\n\n\n\n", &["\0"]),
        ("utf-8", b"data:ok\xE2\x80\xA6\n\n", &["ok\u{2026}"]),
        (
            "data-before-final-empty-line",
            b"retry:1000\ndata:test1\n\nid:test\ndata:test2",
            &["test1", "test2"],
        ),
    ];
    for (name, body, expected) in cases {
        assert_eq!(read_data(body), *expected, "format-{name}");
        assert_every_split_agrees(SseLimits::default(), body);
    }
}

#[test]
fn reads_event_names_and_ids() {
    // Frames that arrive whole behind another are read another way than the first of a body.
    let name = |body: &str| {
        let first = read_whole(body.as_bytes()).frames.remove(0).1;
        assert_eq!(read_whole(format!("data:0\n\n{body}").as_bytes()).frames.remove(1).1, first, "{body:?}");
        first
    };
    assert_eq!(name("event:test\ndata:x\n\n").as_deref(), Some("test"));
    assert_eq!(name("event:a\nevent:b\ndata:x\n\n").as_deref(), Some("b"));
    // format-field-event-empty
    assert_eq!(name("event: \ndata:x\n\n"), None);
    assert_eq!(name("event:a\nevent\ndata:x\n\n"), None);
    // An event without data discards its name.
    assert_eq!(name("event:a\n\ndata:x\n\n"), None);

    let id = |body: &str| read_whole(body.as_bytes()).frames.pop().unwrap().2;
    // format-field-id, -id-2, -id-3
    assert_eq!(id("id: \u{2026}\ndata:1\n\n").as_deref(), Some("\u{2026}"));
    assert_eq!(id("id:1\nid:2\ndata:1\n\n").as_deref(), Some("2"));
    assert_eq!(id("id:1\ndata:1\n\nid\ndata:2\n\n").as_deref(), Some(""));
    // An id is reported once, with its own frame or the next one.
    assert_eq!(id("id:1\ndata:1\n\ndata:2\n\n"), None);
    assert_eq!(id("id:1\n\ndata:2\n\n").as_deref(), Some("1"));
    // format-field-id-null
    assert_eq!(id("id:\0\ndata:1\n\n"), None);
    assert_eq!(id("id:1\nid:x\0y\ndata:1\n\n").as_deref(), Some("1"));
}

#[test]
fn accepts_only_digits_in_retry() {
    let retry = |body: &str| read_whole(body.as_bytes()).retry.map(|time| time.as_millis());
    // format-field-retry, -retry-bogus, -retry-empty
    assert_eq!(retry("retry:03000\ndata:x\n\n"), Some(3000));
    assert_eq!(retry("retry:3000\nretry:1000x\ndata:x\n\n"), Some(3000));
    assert_eq!(retry("retry:3000\nretry\ndata:x\n\n"), Some(3000));
    assert_eq!(retry("retry: 20\n"), Some(20));
    assert_eq!(retry("retry:  20\n"), None);
    assert_eq!(retry("retry:-1\nretry:+1\nretry:1.5\nretry:\u{663}\n"), None);
    assert_eq!(retry("retry:99999999999999999999999\n"), Some(u128::from(u64::MAX)));
}

#[test]
fn finish_yields_an_event_without_its_blank_line() {
    assert_eq!(read_data("data:a"), ["a"]);
    assert_eq!(read_data("data:a\n"), ["a"]);
    assert_eq!(read_data("data:a\r"), ["a"]);
    assert_eq!(read_data("data:a\ndata"), ["a\n"]);
    assert_eq!(read_data("data:a\n:comment"), ["a"]);
    assert_eq!(read_data(b"data:a\xE2\x82"), ["a\u{FFFD}"]);
    for nothing in ["", "\n", "id:1", "event:x\n", ":comment", "dat", "\u{FEFF}"] {
        assert_eq!(read_data(nothing), [""; 0], "{nothing:?}");
    }
    assert_eq!(read_data(b"\xEF\xBB"), [""; 0]);
}

#[test]
fn decodes_another_body_after_finish() {
    let mut decoder = SseDecoder::default();
    for _ in 0..2 {
        let mut input: &[u8] = b"\xEF\xBB\xBFdata:a";
        assert_eq!(decoder.next(&mut input), SseStep::More);
        assert!(matches!(decoder.finish(), SseStep::Frame(f) if f.data == "a"));
        assert_eq!(decoder.finish(), SseStep::More);
    }
}

#[test]
fn borrows_frames_that_arrive_whole() {
    let body = b"\xEF\xBB\xBFdata: {\"a\":1}\n\n: hi\r\n\r\nid: 5\r\nevent: e\r\ndata:x\r\n\r\n";
    let mut decoder = SseDecoder::default();
    let mut input: &[u8] = body;
    let bounds = body.as_ptr_range();
    let inside = |text: &Cow<'_, str>| match text {
        Cow::Borrowed(text) => bounds.contains(&text.as_ptr()),
        Cow::Owned(_) => false,
    };
    let SseStep::Frame(first) = decoder.next(&mut input) else { panic!("a frame was complete") };
    let SseStep::Frame(second) = decoder.next(&mut input) else { panic!("a frame was complete") };
    assert_eq!((&*first.data, &*second.data), ("{\"a\":1}", "x"));
    assert!(inside(&first.data) && inside(&second.data));
    assert!(second.event.is_some_and(|event| inside(&event)));
    assert!(second.id.is_some_and(|id| inside(&id)));
    assert_eq!(decoder.next(&mut input), SseStep::More);
    assert_eq!(decoder.heap_size(), 0);
}
