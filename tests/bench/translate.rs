//! Measures the translation per event, in process: `cargo bench`.
//!
//! Each row pushes one kind of event through a [`Stream`] in pieces of 32 frames, as a fast agent sends them, and prints
//! nanoseconds per event: the median of many rounds. The first rows measure only finding frames and members, the lower bound
//! for any translation that looks at every member. The last table is without the shortcut for repeated frames.
//!
//! `cargo bench --bench translate -- --count` runs each row a fixed number of times, for a tool that counts instructions.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use diglot::codec::json;
use diglot::codec::sse::{SseDecoder, SseLimits, SseStep};
use diglot::dialect::{self, PeerDialect, TextFormat};
use diglot::translate::{RunIds, Stream};
use std::hint::black_box;
use std::time::Instant;

const FRAMES: usize = 32;
const ROUNDS: usize = 2_000;

/// Rounds of a row with `--count`.
const COUNTED_ROUNDS: usize = 50;

/// Runs the rounds of one row, and returns its figure.
type MeasureRounds = fn(&mut dyn FnMut()) -> f64;

fn side(name: &str, content: TextFormat) -> PeerDialect {
    PeerDialect { text_format: content, ..PeerDialect::new(dialect::find_by_name(name).expect("a dialect")) }
}

/// Returns the median nanoseconds per event over the rounds.
fn measure(round: &mut dyn FnMut()) -> f64 {
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

/// Runs a fixed number of rounds between two marks, after one round in which buffers grow.
fn count(round: &mut dyn FnMut()) -> f64 {
    round();
    mark_rounds(0);
    (0..COUNTED_ROUNDS).for_each(|_| round());
    mark_rounds(COUNTED_ROUNDS);
    0.0
}

/// `tests/bench/check.py` knows this name: callgrind writes the instructions up to each call.
#[inline(never)]
fn mark_rounds(number: usize) {
    black_box(number);
}

/// Returns frames with an event whose text and time change from frame to frame.
fn wire(line: &str, event: &str) -> Vec<u8> {
    let frame = |at: usize| event.replace("支持", &format!("支持{at}")).replace("1500", &(1500 + at).to_string());
    (0..FRAMES).map(|at| format!("{line}data: {}\n\n", frame(at))).collect::<String>().into_bytes()
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

/// One translation of a sample.
struct TranslationCase {
    from: PeerDialect,
    to: PeerDialect,
    /// the line before the data of each frame
    line: &'static str,
    start: &'static str,
    event: &'static str,
    has_shortcut: bool,
}

fn translate(case: TranslationCase, measure: MeasureRounds) -> f64 {
    let TranslationCase { from, to, line, start, event, has_shortcut } = case;
    // If the client's dialect sends complete messages, one message contains the text of all rounds.
    let limits = SseLimits { frame: 1 << 30, ..SseLimits::default() };
    let mut stream = Stream::new(from, to, Some(RunIds::new("t", "r")), limits);
    if !has_shortcut {
        stream = stream.without_shortcut();
    }
    let mut out = Vec::new();
    stream.push(format!("{line}data: {start}\n\n").as_bytes(), 0, &mut out).expect("a start");
    let bytes = wire(line, event);
    measure(&mut || {
        out.clear();
        stream.push(black_box(&bytes), 0, &mut out).expect("events");
        black_box(&out);
    })
}

/// A text delta of each dialect that ships as a file, as printed in the documents of its API.
#[cfg(feature = "server")]
const FILE_SAMPLES: [(&str, &str); 3] = [
    (
        "openai-chat",
        r#"{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":"Agent与前端交互协议，支持实时流式交互。"},"logprobs":null,"finish_reason":null}]}"#,
    ),
    (
        "dify-chat",
        r#"{"event":"message","message_id":"5ad4cb98-f0c7-4085-b384-88c403be6290","conversation_id":"45701982-8118-4bc5-8e9b-64562b4555f2","answer":"Agent与前端交互协议，支持实时流式交互。","created_at":1679586595}"#,
    ),
    (
        "coze-chat",
        r#"{"id":"7382159494123470858","conversation_id":"7381473525342978089","bot_id":"7379462189365198898","role":"assistant","type":"answer","content":"Agent与前端交互协议，支持实时流式交互。","content_type":"text","chat_id":"7382159487131697202"}"#,
    ),
];

/// Returns the dialect that ships as a file of this name.
#[cfg(feature = "server")]
fn file_side(name: &str) -> PeerDialect {
    let text = format!(
        "dialect_files: [config/dialects/{name}.yaml]\nroutes: [{{path: /a, client: ag-ui, agent: {name}, upstream: \"http://h/\"}}]\n"
    );
    diglot::config::load::from_str("bench.yaml", &text).expect("a valid configuration").routes[0].agent
}

/// Returns the names of the file dialects, each with its translation to a sample's dialect.
#[cfg(feature = "server")]
fn file_cases(to: usize, has_shortcut: bool) -> Vec<(&'static str, TranslationCase)> {
    let file_case = |(name, event): (&'static str, &'static str)| {
        let line = if name == "coze-chat" { "event: conversation.message.delta\n" } else { "" };
        (name, TranslationCase { from: file_side(name), line, start: event, event, ..case(0, to, has_shortcut) })
    };
    FILE_SAMPLES.into_iter().map(file_case).collect()
}

/// Without the server there are no file dialects.
#[cfg(not(feature = "server"))]
fn file_cases(_: usize, _: bool) -> Vec<(&'static str, TranslationCase)> {
    Vec::new()
}

fn main() {
    let has_sample = |dialect: &&dialect::Dialect| SAMPLES.iter().any(|(name, ..)| *name == dialect.name);
    assert!(dialect::ALL.iter().all(has_sample), "a dialect has no sample");
    if std::env::args().any(|argument| argument == "--count") {
        return count_all();
    }
    let (_, _, _, event) = SAMPLES[2];
    println!("{:8.0} ns  frames alone ({} bytes)", frame_cost(measure), event.len());
    println!("{:8.0} ns  members alone ({} bytes)", member_cost(measure), event.len());
    print_table("ns per text delta, agent down, client across", true);
    print_table("in full, without the shortcut for repeated frames", false);
}

fn frame_cost(measure: MeasureRounds) -> f64 {
    let bytes = wire("", SAMPLES[2].3);
    let mut frames = SseDecoder::default();
    measure(&mut || {
        let mut rest = black_box(bytes.as_slice());
        while let SseStep::Frame(frame) = frames.next(&mut rest) {
            black_box(&frame);
        }
    })
}

fn member_cost(measure: MeasureRounds) -> f64 {
    let event = SAMPLES[2].3;
    measure(&mut || (0..FRAMES).for_each(|_| drop(black_box(json::parse_object(black_box(event))))))
}

fn sample_name(at: usize) -> &'static str {
    let (name, content, ..) = SAMPLES[at];
    if content == TextFormat::Blocks { "hai:blocks" } else { name }
}

/// Returns the translation from one sample's dialect to another's, by their numbers.
fn case(from: usize, to: usize, has_shortcut: bool) -> TranslationCase {
    let (agent, content, start, event) = SAMPLES[from];
    let (client, wanted, ..) = SAMPLES[to];
    TranslationCase { from: side(agent, content), to: side(client, wanted), line: "", start, event, has_shortcut }
}

/// Runs every row a fixed number of times and prints its name and its events, in this order.
fn count_all() {
    let print = |name: &str| println!("{}\t{name}", COUNTED_ROUNDS * FRAMES);
    frame_cost(count);
    print("frames alone");
    member_cost(count);
    print("members alone");
    for has_shortcut in [true, false] {
        let way = if has_shortcut { "" } else { ", in full" };
        for to in 0..SAMPLES.len() {
            let built_in = (0..SAMPLES.len()).map(|from| (sample_name(from), case(from, to, has_shortcut)));
            for (from, case) in built_in.chain(file_cases(to, has_shortcut)) {
                translate(case, count);
                print(&format!("{from} -> {}{way}", sample_name(to)));
            }
        }
    }
}

fn print_table(title: &str, has_shortcut: bool) {
    println!("\n{title}:");
    print!("{:>12}", "");
    (0..SAMPLES.len()).for_each(|to| print!("{:>12}", sample_name(to)));
    println!();
    for from in 0..SAMPLES.len() {
        print!("{:>12}", sample_name(from));
        for to in 0..SAMPLES.len() {
            print!("{:12.0}", translate(case(from, to, has_shortcut), measure));
        }
        println!();
    }
    for (at, (name, _)) in file_cases(0, has_shortcut).into_iter().enumerate() {
        print!("{name:>12}");
        for to in 0..SAMPLES.len() {
            print!("{:12.0}", translate(file_cases(to, has_shortcut).swap_remove(at).1, measure));
        }
        println!();
    }
}
