//! Finds keys that occur twice in an object, at any depth.
//!
//! Most parsers take the last one, some the first, so a value with such a key has two readings.

use std::collections::HashSet;

/// The object or array around the current value: an object with its keys and the last of them, or an array with an
/// index.
enum JsonContainer {
    Object { keys: HashSet<String>, key: String },
    Array(usize),
}

/// Returns the JSON Pointer of the first repeated key in a valid JSON text, in one pass.
pub(crate) fn find_repeated_key(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut open: Vec<JsonContainer> = Vec::new();
    let mut expects_key = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => {
                open.push(JsonContainer::Object { keys: HashSet::new(), key: String::new() });
                expects_key = true;
            }
            b'[' => {
                open.push(JsonContainer::Array(0));
                expects_key = false;
            }
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(JsonContainer::Array(index)) => *index += 1,
                _ => expects_key = true,
            },
            b'"' => {
                let end = find_string_end(bytes, at);
                if let (true, Some(JsonContainer::Object { keys, key })) = (expects_key, open.last_mut()) {
                    expects_key = false;
                    *key = unescape(&text[at..end]);
                    if !keys.insert(key.clone()) {
                        return Some(to_pointer(&open));
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index after the string that begins at `start`.
fn find_string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    bytes.len()
}

/// Resolves escapes; a text with a lone surrogate stays as it is.
fn unescape(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())
}

fn to_pointer(open: &[JsonContainer]) -> String {
    let mut pointer = String::new();
    for container in open {
        let token = match container {
            JsonContainer::Object { key, .. } => key.replace('~', "~0").replace('/', "~1"),
            JsonContainer::Array(index) => index.to_string(),
        };
        pointer.push('/');
        pointer.push_str(&token);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::find_repeated_key;

    #[test]
    fn finds_the_first_repeated_key() {
        let rows = [
            (r#"{"a":1,"b":{"a":2},"c":[{"a":1},{"a":2}]}"#, None),
            (r#"{"a":"a","b":"a,\"a\":{","a ":1}"#, None),
            (r#"{"a":1,"a":2}"#, Some("/a")),
            (r#"{"a":[1,{"b/c":{},"b/c":2}]}"#, Some("/a/1/b~1c")),
            (r#"[[],{"name":"x","n\u0061me":"y"}]"#, Some("/1/name")),
            (r#"[{"x\\":1,"x\\":2}]"#, Some(r"/0/x\")),
            ("7", None),
        ];
        for (text, pointer) in rows {
            assert_eq!(find_repeated_key(text).as_deref(), pointer, "{text}");
        }
        let deep = format!("{}{}", r#"{"a":["#.repeat(100_000), r#"{"b":1,"b":2}"#);
        assert_eq!(find_repeated_key(&deep).map(|pointer| pointer.len()), Some(400_002));
    }
}
