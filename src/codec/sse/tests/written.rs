//! Tests what the encoder writes, and that the decoder reads it back.

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
fn decodes_what_the_encoder_wrote() {
    let mut out = Vec::new();
    let mut expected = Vec::new();
    for text in NASTY {
        write_frame(&mut out, text);
        expected.push((with_lf(text), None, None));
        write_comment(&mut out, text);
        for other in NASTY {
            let length = out.len();
            match write_frame_with(&mut out, Some(other), Some(other), text) {
                Ok(()) => {
                    let name = Some((*other).to_owned());
                    expected.push((with_lf(text), name.clone().filter(|n| !n.is_empty()), name));
                }
                Err(InvalidSseField::Id) => assert_eq!(out.len(), length, "nothing was written"),
                Err(InvalidSseField::Event) => panic!("the id is looked at first"),
            }
        }
    }
    assert!(!out.contains(&b'\r'), "line ends are LF");
    assert_eq!(read_whole(&out).frames, expected);
    assert_eq!(read_pushes(SseLimits::default(), out.chunks(1)).frames, expected);
}

#[test]
fn writes_frames_and_comments_as_sse_text() {
    let mut out = Vec::new();
    write_frame(&mut out, "{}");
    write_frame_with(&mut out, Some("7"), Some("tick"), "a\r\nb").unwrap();
    write_comment(&mut out, "still\nhere");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "data: {}\n\nid: 7\nevent: tick\ndata: a\ndata: b\n\n: still\n: here\n\n"
    );
}

#[test]
fn rejects_line_ends_and_nul_in_id_and_event() {
    let mut out = Vec::new();
    for bad in ["a\nb", "a\r", "\0"] {
        assert_eq!(write_frame_with(&mut out, Some(bad), None, "x"), Err(InvalidSseField::Id));
        assert_eq!(write_frame_with(&mut out, Some("1"), Some(bad), "x"), Err(InvalidSseField::Event));
        assert_eq!(write_fields(&mut out, None, Some(bad)), Err(InvalidSseField::Event));
    }
    assert!(out.is_empty());
}
