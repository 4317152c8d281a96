//! Measures the translation per event, in process: `cargo bench`.
//!
//! Each row pushes one kind of event through a [`Stream`] in pieces of 32 frames, as a fast agent sends them, and prints
//! nanoseconds per event: the median of many rounds. The first rows measure only finding frames and members, the lower bound
//! for any translation.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use diglot::codec::json;
use diglot::codec::sse::{SseDecoder, SseLimits, SseStep};
use diglot::dialect::{self, PeerDialect, TextFormat};
use diglot::translate::{RunIds, Stream};
use std::hint::black_box;
use std::time::Instant;

const FRAMES: usize = 32;
const ROUNDS: usize = 2_000;

fn side(name: &str, content: TextFormat) -> PeerDialect {
    PeerDialect { text_format: content, ..PeerDialect::new(dialect::find_by_name(name).expect("a dialect")) }
}

/// Returns the median nanoseconds per event over the rounds.
fn measure(mut round: impl FnMut()) -> f64 {
    let mut times: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            round();
            began.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2] as f64 / FRAMES as f64
}

fn wire(event: &str) -> Vec<u8> {
    format!("data: {event}\n\n").repeat(FRAMES).into_bytes()
}

/// A text delta of 135 to 180 bytes in each dialect, and the event that opens its message, as printed in their documents.
const SAMPLES: [(&str, TextFormat, &str, &str); 7] = [
    (
        "ag-ui",
        TextFormat::String,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-0001-2222","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#,
    ),
    (
        "ag-ui-0",
        TextFormat::String,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-0001-2222","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#,
    ),
    (
        "hai",
        TextFormat::String,
        r#"{"type":"BUSINESS_DATA_START","messageId":"msg-0001-2222","role":"assistant"}"#,
        r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#,
    ),
    (
        "hai",
        TextFormat::Blocks,
        r#"{"type":"BUSINESS_DATA_START","messageId":"msg-0001-2222","role":"assistant"}"#,
        r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"msg-0001-2222","delta":{"output":{"type":"text","content":"Agent与前端交互协议，支持"}},"timestamp":1620000001500}"#,
    ),
    (
        "ag-ui-snake",
        TextFormat::String,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-0001-2222","role":"助手"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#,
    ),
    (
        "cloudbase",
        TextFormat::String,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-0001-2222"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#,
    ),
    // Its text is sent complete, so each event is one message.
    (
        "social-app",
        TextFormat::String,
        r#"{"type":"STEP_STARTED","threadId":"t","runId":"r","stepName":"worker"}"#,
        r#"{"type":"TEXT_MESSAGE_END","threadId":"t","runId":"r","messageId":"msg-0001-2222","role":"assistant","answer":"Agent与前端交互协议，支持实时流式交互。"}"#,
    ),
];

fn translate(from: PeerDialect, to: PeerDialect, start: &str, event: &str) -> f64 {
    // If the client's dialect sends complete messages, one message contains the text of all rounds.
    let limits = SseLimits { frame: 1 << 30, ..SseLimits::default() };
    let mut stream = Stream::new(from, to, Some(RunIds::new("t", "r")), limits);
    let mut out = Vec::new();
    stream.push(format!("data: {start}\n\n").as_bytes(), 0, &mut out).expect("a start");
    let bytes = wire(event);
    measure(|| {
        out.clear();
        stream.push(black_box(&bytes), 0, &mut out).expect("events");
        black_box(&out);
    })
}

fn main() {
    let has_sample = |dialect: &&dialect::Dialect| SAMPLES.iter().any(|(name, ..)| *name == dialect.name);
    assert!(dialect::ALL.iter().all(has_sample), "a dialect has no sample");
    let (_, _, _, event) = SAMPLES[2];
    let bytes = wire(event);
    let mut frames = SseDecoder::default();
    let framing = measure(|| {
        let mut rest = black_box(bytes.as_slice());
        while let SseStep::Frame(frame) = frames.next(&mut rest) {
            black_box(&frame);
        }
    });
    println!("{framing:8.0} ns  frames alone ({} bytes)", event.len());
    let members = measure(|| (0..FRAMES).for_each(|_| drop(black_box(json::parse_object(black_box(event))))));
    println!("{members:8.0} ns  members alone ({} bytes)", event.len());
    println!("\nns per text delta, agent down, client across:");
    let names = SAMPLES.map(|(name, content, ..)| if content == TextFormat::Blocks { "hai:blocks" } else { name });
    print!("{:>12}", "");
    names.iter().for_each(|name| print!("{name:>12}"));
    println!();
    for ((from, content, start, event), name) in SAMPLES.into_iter().zip(names) {
        print!("{name:>12}");
        for (to, wanted, ..) in SAMPLES {
            print!("{:12.0}", translate(side(from, content), side(to, wanted), start, event));
        }
        println!();
    }
}
