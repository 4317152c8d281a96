//! The encoder's text, and that the decoder reads back what it wrote.

use super::*;

const NASTY: &[&str] = &[
    "",
    " ",
    "  leading",
    ":",
    "data: x",
    "\u{FEFF}bom",
    "\0",
    "grüße 😀 \u{2028}\u{2029}\u{85}",
    "{\"a\":\"\\n\\r\"}",
    "a\nb",
    "a\rb",
    "a\r\nb",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\n\r",
    "\r\r\n\n",
    "x\n\nevent: smuggled\ndata: y\n\n",
    "x\r\rid: smuggled\r\rdata: y",
    "trailing\n",
    ": not a comment\n: nor this",
];

#[test]
fn what_is_written_is_read_back() {
    let mut out = Vec::new();
    let mut expected = Vec::new();
    for text in NASTY {
        frame(&mut out, text);
        expected.push((with_lf(text), None, None));
        comment(&mut out, text);
        for other in NASTY {
            let length = out.len();
            match frame_with(&mut out, Some(other), Some(other), text) {
                Ok(()) => {
                    let name = Some((*other).to_owned());
                    expected.push((with_lf(text), name.clone().filter(|n| !n.is_empty()), name));
                }
                Err(BadField::Id) => assert_eq!(out.len(), length, "nothing was written"),
                Err(BadField::Event) => panic!("the id is looked at first"),
            }
        }
    }
    assert!(!out.contains(&b'\r'), "line ends are LF");
    assert_eq!(whole(&out).frames, expected);
    assert_eq!(read(Limits::default(), out.chunks(1)).frames, expected);
}

#[test]
fn frames_are_written_like_this() {
    let mut out = Vec::new();
    frame(&mut out, "{}");
    frame_with(&mut out, Some("7"), Some("tick"), "a\r\nb").unwrap();
    comment(&mut out, "still\nhere");
    let open = begin(&mut out);
    out.extend_from_slice(b"[1]");
    end(&mut out, open);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "data: {}\n\nid: 7\nevent: tick\ndata: a\ndata: b\n\n: still\n: here\n\ndata: [1]\n\n"
    );
}

#[test]
fn line_ends_and_nul_are_refused_in_id_and_event() {
    let mut out = Vec::new();
    for bad in ["a\nb", "a\r", "\0"] {
        assert_eq!(frame_with(&mut out, Some(bad), None, "x"), Err(BadField::Id));
        assert_eq!(frame_with(&mut out, Some("1"), Some(bad), "x"), Err(BadField::Event));
        assert_eq!(head(&mut out, None, Some(bad)), Err(BadField::Event));
    }
    assert!(out.is_empty());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "holds a line end")]
fn an_open_frame_with_a_line_end_is_caught() {
    let mut out = Vec::new();
    let open = begin(&mut out);
    out.extend_from_slice(b"a\nb");
    end(&mut out, open);
}
