//! Time per event of the translation alone, in process: `cargo bench`.
//!
//! Each row pushes one kind of event through a [`Stream`] in pieces of 32 frames, as an agent that is fast sends them, and
//! prints nanoseconds per event: the median of many rounds. The first rows are the cost of finding frames and members
//! alone, which nothing that looks at an event can be cheaper than.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use diglot::codec::json;
use diglot::codec::sse::{Decoder, Limits, Step};
use diglot::dialect::{self, Content, Side};
use diglot::translate::{Ids, Stream};
use std::hint::black_box;
use std::time::Instant;

const FRAMES: usize = 32;
const ROUNDS: usize = 2_000;

fn side(name: &str, content: Content) -> Side {
    Side { content, ..Side::new(dialect::by_name(name).expect("a dialect")) }
}

/// Median nanoseconds per event over the rounds.
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

fn translate(name: &str, from: Side, to: Side, start: &str, event: &str) {
    let mut stream = Stream::new(from, to, Some(Ids::new("t", "r")), Limits::default());
    let mut out = Vec::new();
    stream.push(format!("data: {start}\n\n").as_bytes(), 0, &mut out).expect("a start");
    let bytes = wire(event);
    let nanos = measure(|| {
        out.clear();
        stream.push(black_box(&bytes), 0, &mut out).expect("events");
        black_box(&out);
    });
    println!("{nanos:8.0} ns  {name} ({} bytes)", event.len());
}

fn main() {
    let hai_string = r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#;
    let hai_block = r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"msg-0001-2222","delta":{"output":{"type":"text","content":"Agent与前端交互协议，支持"}},"timestamp":1620000001500}"#;
    let ag_ui = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0001-2222","delta":"Agent与前端交互协议，支持实时流式交互。","timestamp":1620000001500}"#;
    let hai_start = r#"{"type":"BUSINESS_DATA_START","messageId":"msg-0001-2222","role":"assistant"}"#;
    let ag_ui_start = r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-0001-2222","role":"assistant"}"#;

    let bytes = wire(hai_string);
    let mut frames = Decoder::default();
    let framing = measure(|| {
        let mut rest = black_box(bytes.as_slice());
        while let Step::Frame(frame) = frames.next(&mut rest) {
            black_box(&frame);
        }
    });
    println!("{framing:8.0} ns  frames alone ({} bytes)", hai_string.len());
    let members = measure(|| (0..FRAMES).for_each(|_| drop(black_box(json::object(black_box(hai_string))))));
    println!("{members:8.0} ns  members alone ({} bytes)", hai_string.len());

    let (hai, blocks) = (side("hai", Content::String), side("hai", Content::Blocks));
    let canonical = side("ag-ui", Content::String);
    translate("hai -> ag-ui, string", hai, canonical, hai_start, hai_string);
    translate("hai -> ag-ui, block", blocks, canonical, hai_start, hai_block);
    translate("ag-ui -> hai, string", canonical, hai, ag_ui_start, ag_ui);
    translate("ag-ui -> hai, block", canonical, blocks, ag_ui_start, ag_ui);
    translate("ag-ui -> ag-ui", canonical, canonical, ag_ui_start, ag_ui);
    translate("hai -> hai, string", hai, hai, hai_start, hai_string);
}
