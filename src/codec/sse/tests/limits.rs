//! Tests the exact limits, the behaviour of a failed decoder, and a stream's memory use.

use super::*;

#[test]
fn accepts_lines_up_to_the_limit() {
    let limits = SseLimits { line: 10, frame: 100 };
    let fault = Some(SseError::LineTooLong { limit: 10 });
    let first = ("ok".to_owned(), None, None);
    for (fits, line) in [
        (true, "data:12345"),
        (false, "data:123456"),
        (true, ":123456789"),
        (false, ":1234567890"),
        (true, "unknown:90"),
        (false, "unknown:901"),
        (true, "id:4567890"),
        (false, "id:45678901"),
    ] {
        for end in ["", "\n", "\r", "\r\n", "\n\n"] {
            let body = format!("\u{FEFF}data:ok\n\n{line}{end}");
            let reading = assert_every_split_agrees(limits, body.as_bytes());
            assert_eq!(reading.fault, if fits { None } else { fault }, "{body:?}");
            assert_eq!(reading.frames[0], first, "what came before is not lost");
        }
    }
    for (fits, lines) in
        [(true, "event:7890\ndata:67890"), (false, "event:78901\ndata:1"), (false, "event:7\ndata:678901")]
    {
        let reading = assert_every_split_agrees(limits, format!("data:ok\n\n{lines}\n\n").as_bytes());
        assert_eq!(reading.fault, if fits { None } else { fault }, "{lines:?}");
    }
}

#[test]
fn accepts_frame_data_up_to_the_limit() {
    let limits = SseLimits { line: 100, frame: 5 };
    let fault = Some(SseError::FrameTooLarge { limit: 5 });
    for (fits, body) in [
        (true, "data: 12345\n\ndata:12345\n\n"),
        (false, "data: 123456\n\n"),
        (false, "data: 123456"),
        (true, "data:12\ndata:45\n\n"),
        (false, "data:12\ndata:456\n\n"),
        (true, "data\ndata\ndata\ndata\ndata\ndata\n\n"),
        (false, "data\ndata\ndata\ndata\ndata\ndata\ndata\n\n"),
        (true, "event: e\ndata: 12345\n\n"),
        (false, "event: e\ndata: 123456\n\n"),
        (true, "id:123456\nevent:123456\n:123456\ndata:12345\n\n"),
    ] {
        let reading = assert_every_split_agrees(limits, body.as_bytes());
        assert_eq!(reading.fault, if fits { None } else { fault }, "{body:?}");
    }
}

#[test]
fn a_broken_decoder_stays_broken() {
    let mut decoder = SseDecoder::new(SseLimits { line: 8, frame: 8 });
    let mut input: &[u8] = b"data:a\ndata:12345";
    let SseStep::Failed(fault) = decoder.next(&mut input) else { panic!("the line is too long") };
    assert_eq!(fault.to_string(), "a line of the event stream is longer than 8 bytes");
    let mut input: &[u8] = b"\n\ndata:b\n\n";
    for _ in 0..3 {
        assert_eq!(decoder.next(&mut input), SseStep::Failed(fault));
        assert_eq!(decoder.finish(), SseStep::Failed(fault));
    }
    assert_eq!(decoder.heap_size(), 0);
    let large = SseError::FrameTooLarge { limit: 8 };
    assert_eq!(large.to_string(), "an event of the stream is larger than 8 bytes");
}

#[test]
fn bounds_its_memory_and_releases_it() {
    let limits = SseLimits { line: 1 << 16, frame: 1 << 16 };
    let mut decoder = SseDecoder::new(limits);
    let mut most = 0;
    for push in [&b"data: "[..], &[b'x'; 50_000], b"\n", b"\n"] {
        let mut input = push;
        while let SseStep::Frame(frame) = decoder.next(&mut input) {
            assert_eq!(frame.data.len(), 50_000);
        }
        most = most.max(decoder.heap_size());
    }
    assert!((50_000..=1 << 16).contains(&most));
    assert_eq!(decoder.heap_size(), 0, "a frame takes its buffer along");

    let mut comment: &[u8] = &[b':'; 1 << 16];
    assert_eq!(decoder.next(&mut comment), SseStep::More);
    assert_eq!(decoder.heap_size(), 0, "a comment is not kept");
    assert!(matches!(decoder.next(&mut &b":"[..]), SseStep::Failed(_)));
}

#[test]
fn the_default_limits_are_ten_mebibytes() {
    assert_eq!(SseLimits::default(), SseLimits { line: 10 << 20, frame: 10 << 20 });
}
