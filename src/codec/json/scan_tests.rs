//! Compares the scanner with serde_json, over generated text and changes to it.

use super::*;

/// Pieces of JSON, right and wrong, from which the generated texts are made.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\t\r",
    "\u{a0}",
    "\"",
    "\\",
    "\"a\"",
    "\"type\"",
    "\"runId\"",
    "\"run_id\"",
    "\"\"",
    "\"\\n\\u4f60\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"\\u12g4\"",
    "\"\\x\"",
    "\"\u{1}\"",
    "\"\u{7f}\"",
    "\"你好，世界\"",
    "\"1234567\"",
    "\"12345678\\\"\"",
    "\"\\u\"",
    "null",
    "true",
    "false",
    "nul",
    "True",
    "NaN",
    "0",
    "-",
    "-0",
    "01",
    "1.",
    "1.5",
    ".5",
    "1e",
    "1e+",
    "1E-7",
    "-12.50e+10",
    "1e400",
    "9007199254740993",
    "/",
    "\u{feff}",
    "{\"a\":1}",
    "[1,2]",
    "{}",
    "[]",
    "\"k\":\"v\"",
    ",\"k\":",
];

/// Numbers that look random and are the same in each run.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn number_below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    fn text(&mut self) -> String {
        let count = 1 + self.number_below(12);
        (0..count).map(|_| PIECES[self.number_below(PIECES.len())]).collect()
    }

    /// Returns a value that is mostly right.
    fn value(&mut self, depth: usize) -> String {
        match self.number_below(if depth == 0 { 5 } else { 9 }) {
            0..5 => PIECES[12 + self.number_below(PIECES.len() - 12)].to_owned(),
            5 | 6 => {
                let count = self.number_below(4);
                let members: Vec<_> = (0..count)
                    .map(|_| format!("{}:{}", PIECES[12 + self.number_below(6)], self.value(depth - 1)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            _ => {
                let elements: Vec<_> = (0..self.number_below(4)).map(|_| self.value(depth - 1)).collect();
                format!("[{} ]", elements.join(" , "))
            }
        }
    }
}

/// Checks that all three ways of scanning agree with serde_json about the text.
fn check(text: &str) {
    for names in [NameMatching::BothSpellings, NameMatching::Verbatim] {
        let reference = read_object(text, names);
        match (scan_object(text, names), reference) {
            (Ok(scanned), Ok(reference)) => {
                let show = |object: JsonObject<'_>| format!("{object:?}");
                assert_eq!(show(scanned), show(reference), "{text}");
            }
            (Err(ScanFailure), Err(_)) => {}
            (scanned, reference) => panic!("{text}: {scanned:?}, {reference:?}"),
        }
    }
    let value = Json::from_trusted(text);
    if value.json_type() == JsonType::Array {
        let show = |found: Option<(Vec<Json<'_>>, usize)>| format!("{found:?}");
        assert_eq!(show(parse_first_elements(&value, 2)), show(read_array(text, 2)), "{text}");
        let is_scanned = ValueScanner::new(text, DEPTH_LIMIT).take_array(|_| {}).is_ok();
        assert_eq!(is_scanned, read_array(text, 2).is_some(), "{text}");
    }
    let mut scanner = ValueScanner::new(text, DEPTH_LIMIT);
    let scanned = scanner.take_value().and_then(|value| scanner.finish().map(|()| value)).ok();
    assert_eq!(scanned, serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get), "{text}");
}

#[test]
fn scanner_agrees_with_serde_json() {
    let mut random = PseudoRandom(1);
    let mut accepted = 0;
    for round in 0..60_000 {
        let mut text = if round % 3 == 0 { random.text() } else { random.value(3) };
        if round % 3 == 2 {
            let at = random.number_below(text.len() + 1);
            let piece = PIECES[random.number_below(PIECES.len())];
            if text.is_char_boundary(at) {
                text.insert_str(at, piece);
            }
        }
        accepted += usize::from(parse_value(&text).is_some());
        check(&text);
        check(&format!("{{\"k\":{text}}}"));
    }
    assert!((10_000..50_000).contains(&accepted), "{accepted} of 60,000");
}

#[test]
fn scanner_agrees_with_serde_json_at_every_cut_and_byte() {
    let text = r#" {"type":"X" ,"a\n":[1,{"b":"\u4f60\ud800 \"12345678"},-0.5e+3],"delta":"你好, longer than eight bytes","n":null}"#;
    for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
        check(&text[..at]);
        for byte in ['\0', '\u{1f}', ' ', '"', '\\', ',', '}', '0', '\u{7f}', 'ÿ'] {
            check(&format!("{}{byte}{}", &text[..at], &text[at..]));
            let next = text[at..].chars().next().map_or(0, char::len_utf8);
            check(&format!("{}{byte}{}", &text[..at], &text[at + next..]));
        }
    }
}

#[test]
fn scanner_gives_up_where_the_nesting_ends() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [DEPTH_LIMIT - 1, DEPTH_LIMIT, DEPTH_LIMIT + 1, 100_000] {
        let is_scanned = ValueScanner::new(&nested(depth), DEPTH_LIMIT).take_value().is_ok();
        assert_eq!(is_scanned, depth <= DEPTH_LIMIT);
        let object = format!("{{\"a\":{}}}", nested(depth));
        assert_eq!(scan_object(&object, NameMatching::Verbatim).is_ok(), depth < DEPTH_LIMIT);
    }
    let deep = nested(1000);
    assert_eq!(parse_first_elements(&Json::from_trusted(deep.as_str()), 1).map(|(_, count)| count), Some(1));
}

#[test]
fn limits_nesting_depth_without_recursion() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(parse_object(&nested(DEPTH_LIMIT)).is_ok());
    assert!(parse_object(&nested(DEPTH_LIMIT + 1)).is_err());
    assert!(parse_object(&nested(100_000)).is_err());
    let flat = format!("{{\"a\":\"{}\"}}", "[".repeat(10_000));
    assert!(parse_object(&flat).is_ok(), "brackets inside a string are text");
}
