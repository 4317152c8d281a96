//! The shortcut for repeated frames, compared with the full way: the same bytes and the same counts.

use super::golden::{NOW, cases, side};
use super::laws;
use super::laws::dice::Dice;
use diglot::codec::sse::SseLimits;
use diglot::dialect::{self, PeerDialect};
use diglot::translate::{RunIds, Stream, TranslationReport};

/// Streams per pair.
const STREAMS: u64 = 40;

/// Sides with options that change how a text delta is written.
const SIDES: [&str; 13] = [
    "ag-ui",
    "ag-ui-0",
    "ag-ui-0.pin=0-0-35",
    "ag-ui-0.pin=0-0-45",
    "hai",
    "hai.string",
    "hai.blocks",
    "hai.blocks.snake",
    "ag-ui-snake",
    "ag-ui-snake.timestamp=s",
    "ag-ui-snake.timestamp=ms",
    "cloudbase",
    "social-app",
];

fn translate(mut stream: Stream, pieces: &[&[u8]], budget_end: Option<usize>) -> (String, TranslationReport) {
    let mut out = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        // The clock goes on while the stream does.
        let _ = stream.push(piece, NOW + 7 * at as i64, &mut out);
        if budget_end == Some(at) {
            stream.cancel(NOW, &mut out);
        }
    }
    let _ = stream.finish(NOW, &mut out);
    stream.fail("upstream_truncated", "ended early", NOW, &mut out);
    (String::from_utf8(out).expect("UTF-8"), stream.report().clone())
}

/// Compares both ways for one stream, in these pieces, with and without ids of frames.
fn assert_same(from: PeerDialect, to: PeerDialect, what: &str, pieces: &[&[u8]], cancel_at: Option<usize>) {
    for has_ids in [false, true] {
        let stream = || {
            let stream = Stream::new(from, to, Some(RunIds::new("t1", "r1")), SseLimits::default());
            if has_ids { stream.with_frame_ids("token") } else { stream }
        };
        let (short, short_report) = translate(stream(), pieces, cancel_at);
        let (full, full_report) = translate(stream().without_shortcut(), pieces, cancel_at);
        let first = short.split("\n\n").zip(full.split("\n\n")).find(|(short, full)| short != full);
        assert_eq!(short, full, "{what}: first difference {first:#?}");
        let counts = |report: TranslationReport| {
            let events = [&report.events_read, &report.events_written].map(|events| events.to_vec());
            (report.repairs, report.losses, events, report.broken_rule)
        };
        assert_eq!(counts(short_report), counts(full_report), "{what}");
    }
}

#[test]
fn translates_the_corpus_as_the_full_way_does() {
    for case in cases("stream") {
        let input = case.read("input.sse");
        let frames: Vec<_> = input.split_inclusive("\n\n").map(str::as_bytes).collect();
        let what = case.folder.display().to_string();
        assert_same(case.from, case.to, &what, &[input.as_bytes()], None);
        assert_same(case.from, case.to, &what, &frames, None);
        // Each frame twice: what repeats is what the shortcut is for.
        let twice: Vec<_> = frames.iter().flat_map(|frame| [*frame, *frame]).collect();
        for to in SIDES {
            assert_same(case.from, side(to), &format!("{what}, each frame twice, to {to}"), &twice, None);
        }
    }
}

#[test]
fn translates_generated_streams_as_the_full_way_does() {
    for from in dialect::ALL {
        for to in SIDES {
            for seed in 0..STREAMS {
                let events = laws::agent_stream(from.name, seed);
                let mut dice = Dice::new(seed);
                // Repeats each event some times, so that frames follow frames of their form.
                let text: Vec<String> =
                    events.iter().flat_map(|event| vec![format!("data: {event}\n\n"); 1 + dice.below(4)]).collect();
                let pieces: Vec<_> = text.iter().map(String::as_bytes).collect();
                let what = format!("{} to {to}, seed {seed}", from.name);
                assert_same(PeerDialect::new(from), side(to), &what, &pieces, None);
            }
        }
    }
}

/// Values of a delta that something may look into, or that JSON writes in its own way.
const TEXTS: [&str; 36] = [
    "",
    " ",
    "Hello",
    " world",
    "你好，世界",
    "😀",
    r"a\nb",
    r"\n",
    r"\n\n## T",
    r#"\"q\""#,
    r"\\",
    r"\u4f60",
    r"\ud83d\ude00",
    r"\ud800",
    r"\u0000",
    "[DONE]",
    "1",
    "12",
    "-3.5e2",
    "true",
    "false",
    "null",
    "nullable",
    "{",
    "{}",
    r#"{\"a\":1}"#,
    "[",
    r#"[{\"output\":{\"type\":\"text\",\"content\":\"x\"}}]"#,
    r#"{\"output\":{\"type\":\"text\",\"content\":\"x\"}}"#,
    "}",
    "]",
    "2024 年",
    "t",
    "\u{feff}x",
    "\u{2028}",
    "<think>",
];

/// Frames of one dialect that repeat one another.
struct RepeatedForm {
    side: &'static str,
    before: &'static [&'static str],
    /// with `$text` and `$time`
    repeated: &'static [&'static str],
    after: &'static [&'static str],
}

const FORMS: [RepeatedForm; 12] = [
    RepeatedForm {
        side: "ag-ui",
        before: &[r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "ag-ui",
        before: &[r#"{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}"#],
        repeated: &[r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"REASONING_MESSAGE_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "ag-ui",
        before: &[r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}"#],
        repeated: &[r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"$text"}"#],
        after: &[r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#],
    },
    RepeatedForm {
        side: "ag-ui-0",
        before: &[r#"{"type":"THINKING_START"}"#, r#"{"type":"THINKING_TEXT_MESSAGE_START"}"#],
        repeated: &[r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"THINKING_TEXT_MESSAGE_END"}"#, r#"{"type":"THINKING_END"}"#],
    },
    RepeatedForm {
        side: "ag-ui-0",
        before: &[r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"$text","timestamp":$time,"future":1}"#],
        after: &[r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "hai",
        before: &[r#"{"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}"#],
        repeated: &[r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"BUSINESS_DATA_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "hai",
        before: &[r#"{"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}"#],
        repeated: &[
            r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":{"output":{"type":"thinking","data":{"content":"$text","elapsed":$time,"thinking":true}}},"timestamp":$time}"#,
            r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":{"output":{"type":"text","content":"$text"}},"timestamp":$time}"#,
        ],
        after: &[r#"{"type":"BUSINESS_DATA_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "hai",
        before: &[r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}"#],
        repeated: &[
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"$text"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":{"a":"$text"}}"#,
        ],
        after: &[r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#],
    },
    RepeatedForm {
        side: "ag-ui-snake",
        before: &[r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"助手"}"#],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "ag-ui-snake.timestamp=s",
        before: &[r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"助手"}"#],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"$text","timestamp":$time}"#],
        after: &[r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#],
    },
    RepeatedForm {
        side: "cloudbase",
        before: &[r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}"#],
        repeated: &[
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"$text","timestamp":$time}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":{"a":"$text"}}"#,
        ],
        after: &[r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#],
    },
    RepeatedForm {
        side: "social-app",
        before: &[r#"{"type":"STEP_STARTED","threadId":"t","runId":"r","stepName":"s"}"#],
        repeated: &[
            r#"{"type":"TEXT_MESSAGE_END","threadId":"t","runId":"r","messageId":"m","role":"assistant","answer":"$text"}"#,
        ],
        after: &[r#"{"type":"STEP_FINISHED","threadId":"t","runId":"r","stepName":"s"}"#],
    },
];

/// Returns frames of one form with changing values: mostly the same form in a row, sometimes another, another id, another
/// order or other spaces.
fn deltas(dice: &mut Dice, forms: &[&str]) -> Vec<String> {
    let mut time = 1_620_000_000_000_u64;
    let mut form = forms[0];
    let mut all = Vec::new();
    for _ in 0..30 {
        time += [0, 0, 1, 20, 1_500, 86_400_000][dice.below(6)];
        if dice.one_in(6) {
            form = forms[dice.below(forms.len())];
        }
        let text = if dice.one_in(3) { TEXTS[dice.below(TEXTS.len())] } else { [" word", "字", "x y"][dice.below(3)] };
        let shown_time = if dice.one_in(12) {
            ["0", "-1", "1.5", "17000000000000", "null"][dice.below(5)].to_owned()
        } else {
            time.to_string()
        };
        let mut frame = form.replace("$text", text).replace("$time", &shown_time);
        match dice.below(20) {
            0 => frame = frame.replace("\"m\"", "\"m9\""),
            1 => frame = frame.replace(',', ", "),
            2 => frame = frame.replacen(r#"{"type""#, r#"{"timestamp":5,"type""#, 1),
            3 => frame = r#"{"type":"CUSTOM","name":"n","value":{"delta":"x"}}"#.to_owned(),
            4 => frame.truncate(frame.len() - 1),
            _ => {}
        }
        all.push(frame);
    }
    all
}

#[test]
fn translates_runs_of_deltas_as_the_full_way_does() {
    for RepeatedForm { side: from, before, repeated: forms, after } in FORMS {
        for to in SIDES {
            for seed in 0..STREAMS {
                let mut dice = Dice::new(seed);
                let start = match from {
                    "social-app" => r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
                    _ => r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","messageId":"r1"}"#,
                };
                let end = start.replace("RUN_STARTED", "RUN_FINISHED");
                let mut events = vec![start.to_owned()];
                events.extend(before.iter().map(|&event| event.to_owned()));
                events.extend(deltas(&mut dice, forms));
                events.extend(after.iter().map(|&event| event.to_owned()));
                events.extend(before.iter().map(|&event| event.to_owned()));
                events.extend(deltas(&mut dice, forms));
                events.push(end);
                let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
                let size = 1 + dice.below(400);
                let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
                let cancel_at = dice.one_in(5).then(|| dice.below(pieces.len()));
                let what = format!("{from} to {to}, seed {seed}\n{text}");
                assert_same(side(from), side(to), &what, &pieces, cancel_at);
            }
        }
    }
}

/// Arguments are kept for a call that starts again, and for a snapshot that lacks it.
#[test]
fn keeps_the_arguments_and_no_other_text_at_every_split() {
    let piece = |text: &str, data: &str| {
        format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{text}","data":"{data}"}}"#)
    };
    let start = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let letters = ["a", "b", "c", "d", "e"];
    let same_delta = letters.map(|letter| piece("1", letter));
    let same_data = letters.map(|letter| piece(letter, "1"));
    for pieces in [same_delta, same_data] {
        let mut events = vec![r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#.to_owned(), start.to_owned()];
        events.extend(pieces.clone());
        events.push(r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#.to_owned());
        events.push(start.to_owned());
        events.extend(pieces);
        events.push(r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#.to_owned());
        events.push(r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#.to_owned());
        let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        for at in 1..text.len() {
            let (head, tail) = text.as_bytes().split_at(at);
            for to in ["ag-ui", "hai"] {
                assert_same(side("ag-ui"), side(to), &format!("to {to}, split at {at}"), &[head, tail], None);
            }
        }
    }
}
