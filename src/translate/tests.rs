//! The work for a run, and for a request, grows no faster than its length, whatever the agent and the client choose.
//!
//! The count is exact and the same on every machine: JSON values that are read, copied or compared
//! (`event/work.rs`). An input four times as long may take four times the steps; a search through all open items, or a
//! copy of all that came before, takes up to sixteen times as many.

use super::recap::{Recap, RecapInput};
use super::verify::Verifier;
use super::{RunIds, Stream, request};
use crate::codec::sse::SseLimits;
use crate::dialect::{ALL, Dialect, PeerDialect, PeerVersion};
use crate::event::work::steps_of;

const SHORT: usize = 40;

/// Quotient of the lengths.
const FACTOR: usize = 4;

/// Maximum steps of the long input, in tenths of those of the short one.
const MOST_TENTHS: u64 = 43;

/// Events of a run: those before, those repeated with `@` as the number, and the same again after all of these.
struct RunShape {
    name: &'static str,
    opening: &'static [&'static str],
    repeated: &'static [&'static str],
    later: &'static [&'static str],
}

const fn shape(name: &'static str, repeated: &'static [&'static str], later: &'static [&'static str]) -> RunShape {
    RunShape { name, opening: &[], repeated, later }
}

const OPEN: &str = r#"{"type":"TEXT_MESSAGE_START","messageId":"m@","role":"assistant"}"#;
const TEXT: &str = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m@","delta":"x"}"#;
const END: &str = r#"{"type":"TEXT_MESSAGE_END","messageId":"m@"}"#;
const CALL: &str = r#"{"type":"TOOL_CALL_START","toolCallId":"c@","toolCallName":"f"}"#;
const ARGS: &str = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c@","delta":"{}"}"#;
const CALL_END: &str = r#"{"type":"TOOL_CALL_END","toolCallId":"c@"}"#;
const RESULT: &str = r#"{"type":"TOOL_CALL_RESULT","messageId":"r@","toolCallId":"c@","content":"1"}"#;
const SPAN: &str = r#"{"type":"REASONING_START","messageId":"t@"}"#;
const THOUGHT: &str = r#"{"type":"REASONING_MESSAGE_START","messageId":"t@","role":"reasoning"}"#;
const THINKING: &str = r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"t@","delta":"x"}"#;
const THOUGHT_END: &str = r#"{"type":"REASONING_MESSAGE_END","messageId":"t@"}"#;
const SPAN_END: &str = r#"{"type":"REASONING_END","messageId":"t@"}"#;
const SUBAGENT: &str = r#"{"type":"SUBAGENT_STARTED","subagentRunId":"s@","name":"sub"}"#;
const SUBAGENT_END: &str = r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"s@"}"#;
const STEP: &str = r#"{"type":"STEP_STARTED","stepName":"p@"}"#;
const STEP_END: &str = r#"{"type":"STEP_FINISHED","stepName":"p@"}"#;
const ACTIVITY: &str = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a@","activityType":"x","content":{}}"#;
const PATCH: &str =
    r#"{"type":"ACTIVITY_DELTA","messageId":"a@","activityType":"x","patch":[{"op":"add","path":"/k","value":1}]}"#;
const SNAPSHOT: &str = r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#;
const STATE: &str =
    r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k@","value":1},{"op":"add","path":"/l/-","value":1}]}"#;

static SHAPES: &[RunShape] = &[
    shape("messages without an end", &[OPEN, TEXT], &[]),
    shape("messages that end one by one", &[OPEN, TEXT, END], &[]),
    shape("messages that are open together", &[OPEN, TEXT], &[TEXT, END]),
    shape("contents without a start", &[TEXT], &[TEXT]),
    shape("thinking", &[SPAN, THOUGHT, THINKING, THOUGHT_END, SPAN_END], &[]),
    shape("thinking without an end", &[SPAN, THOUGHT, THINKING], &[THINKING]),
    shape("calls", &[CALL, ARGS, ARGS, CALL_END, RESULT], &[]),
    shape("calls without a result", &[CALL, ARGS, CALL_END], &[RESULT]),
    shape("calls without an end", &[CALL, ARGS], &[ARGS, CALL_END]),
    shape("steps", &[STEP], &[STEP_END]),
    shape("subagents", &[SUBAGENT], &[SUBAGENT_END]),
    shape("activities", &[ACTIVITY, PATCH], &[PATCH]),
    shape("ids that are opened again", &[OPEN, TEXT, END], &[OPEN, TEXT, END]),
    shape("starts that are repeated", &[OPEN, OPEN], &[OPEN]),
    RunShape {
        name: "state deltas",
        opening: &[r#"{"type":"STATE_SNAPSHOT","snapshot":{"l":[]}}"#],
        repeated: &[STATE],
        later: &[],
    },
    shape("snapshots among activities", &[ACTIVITY, SNAPSHOT], &[SNAPSHOT]),
    shape("snapshots among reasoning", &[THOUGHT, THINKING, THOUGHT_END, SNAPSHOT], &[SNAPSHOT]),
    shape("snapshots among open messages and calls", &[OPEN, TEXT, CALL, ARGS, THOUGHT, SNAPSHOT], &[SNAPSHOT]),
    shape("snapshots of calls that wait", &[CALL, CALL_END, SNAPSHOT], &[SNAPSHOT]),
    RunShape {
        name: "additions at the front",
        opening: &[r#"{"type":"STATE_SNAPSHOT","snapshot":{"l":[]}}"#],
        repeated: &[r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/l/0","value":1}]}"#],
        later: &[],
    },
    RunShape {
        name: "moves of a growing value",
        opening: &[r#"{"type":"STATE_SNAPSHOT","snapshot":{"l":[]}}"#],
        repeated: &[
            r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/l/-","value":1},{"op":"move","from":"/l","path":"/k"},{"op":"move","from":"/k","path":"/l"}]}"#,
        ],
        later: &[],
    },
    RunShape {
        name: "pieces of one message",
        opening: &[r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#],
        later: &[],
    },
    RunShape {
        name: "chunks of one message",
        opening: &[],
        repeated: &[r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"x"}"#],
        later: &[],
    },
    RunShape {
        name: "pieces of one call",
        opening: &[r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#],
        repeated: &[r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":" "}"#],
        later: &[],
    },
    RunShape {
        name: "a message and a call that start again",
        opening: &[],
        repeated: &[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        ],
        later: &[],
    },
    RunShape {
        name: "changes of one activity",
        opening: &[r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"x","content":{"l":[]}}"#],
        repeated: &[
            r#"{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"x","patch":[{"op":"add","path":"/l/-","value":1}]}"#,
        ],
        later: &[],
    },
];

/// Lists whose length is within one event.
static LISTS: &[(&str, &str, &str)] = &[
    (
        "a snapshot of messages",
        r#"{"type":"MESSAGES_SNAPSHOT","messages":[#]}"#,
        r#"{"id":"m@","role":"assistant","content":"x","toolCalls":[{"id":"c@","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"r@","role":"tool","toolCallId":"c@","content":"1"}"#,
    ),
    ("a state with many members", r#"{"type":"STATE_SNAPSHOT","snapshot":{#}}"#, r#""k@":{"a":1}"#),
    ("a long array", r#"{"type":"CUSTOM","name":"n","value":[#]}"#, "[@]"),
    (
        "interrupts",
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[#]}}"#,
        r#"{"id":"i@","reason":"x","toolCallId":"c@"}"#,
    ),
    ("a long patch", r#"{"type":"STATE_DELTA","delta":[#]}"#, r#"{"op":"add","path":"/k@","value":1}"#),
];

fn numbered(text: &str, count: usize) -> impl Iterator<Item = String> + '_ {
    (0..count).map(|at| text.replace('@', &at.to_string()))
}

impl RunShape {
    fn frames(&self, count: usize) -> String {
        let number = |events: &'static [&'static str]| {
            (0..count).flat_map(move |at| events.iter().map(move |event| event.replace('@', &at.to_string())))
        };
        let opening = self.opening.iter().map(|event| (*event).to_owned());
        to_run(opening.chain(number(self.repeated)).chain(number(self.later)))
    }
}

fn to_run(events: impl Iterator<Item = String>) -> String {
    let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#.to_owned();
    let end = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#.to_owned();
    std::iter::once(start).chain(events).chain([end]).map(|event| format!("data: {event}\n\n")).collect()
}

fn runs(count: usize) -> Vec<(&'static str, String)> {
    let lists = LISTS.iter().map(|(name, event, element)| {
        let elements: Vec<_> = numbered(element, count).collect();
        (*name, to_run(std::iter::once(event.replace('#', &elements.join(",")))))
    });
    SHAPES.iter().map(|shape| (shape.name, shape.frames(count))).chain(lists).collect()
}

/// Every dialect, and its oldest version if it has versions.
fn sides() -> Vec<PeerDialect> {
    let oldest =
        |dialect: &&'static Dialect| PeerDialect { peer_version: PeerVersion::V0_0_35, ..PeerDialect::new(dialect) };
    let versioned = ALL.iter().filter(|dialect| dialect.is_versioned()).map(oldest);
    ALL.iter().map(|dialect| PeerDialect::new(dialect)).chain(versioned).collect()
}

fn translate(frames: &[u8], from: PeerDialect, to: PeerDialect) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = Stream::new(from, to, Some(RunIds::new("t", "r")), SseLimits::default());
    let _ = stream.push(frames, 0, &mut out);
    let _ = stream.finish(0, &mut out);
    out
}

/// Fails for every name in `long` with more steps than `short` allows.
fn assert_linear(what: &str, short: &[(String, u64)], long: &[(String, u64)]) {
    let broken: Vec<_> = short
        .iter()
        .zip(long)
        .filter(|((_, short), (_, long))| long * 10 > short * MOST_TENTHS)
        .map(|((name, short), (_, long))| format!("{name}: {short} steps become {long}"))
        .collect();
    assert!(broken.is_empty(), "{what}, {FACTOR} times as long:\n{}", broken.join("\n"));
}

/// Runs of each shape as an agent sends them: what a gateway writes for its dialect.
fn assert_linear_runs(what: &str, peers: &[PeerDialect], mut run: impl FnMut(&[u8], PeerDialect)) {
    let mut count = |length: usize| {
        let mut counts = Vec::new();
        for (name, frames) in runs(length) {
            for peer in peers {
                let sent = translate(frames.as_bytes(), PeerDialect::new(ALL[0]), *peer);
                let steps = steps_of(|| run(&sent, *peer));
                counts.push((format!("{name}, {} {:?}", peer.dialect.name, peer.peer_version), steps));
            }
        }
        counts
    };
    let (short, long) = (count(SHORT), count(SHORT * FACTOR));
    assert_linear(what, &short, &long);
}

#[test]
fn linear_work_of_translation_for_all_pairs_and_shapes() {
    let agents: Vec<_> = ALL.iter().map(|dialect| PeerDialect::new(dialect)).collect();
    for client in sides() {
        let what = format!("to {} {:?}", client.dialect.name, client.peer_version);
        assert_linear_runs(&what, &agents, |sent, agent| drop(translate(sent, agent, client)));
    }
}

#[test]
fn linear_work_of_verification() {
    assert_linear_runs("verified", &sides(), |sent, side| {
        let mut verifier = Verifier::new(side);
        let mut findings = Vec::new();
        verifier.push(sent, &mut findings);
        verifier.finish(&mut findings);
    });
}

#[test]
fn linear_work_of_recaps() {
    assert_linear_runs("recap", &sides(), |sent, side| {
        let mut recap = Recap::new(side, &RunIds::new("t", "r"), RecapInput::default());
        recap.push(sent);
        recap.write(0, None, &mut Vec::new());
    });
}

#[test]
fn linear_work_of_requests() {
    let message = r#"{"id":"m@","role":"assistant","content":"x","toolCalls":[{"id":"interrupt:@","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"q@","role":"user","content":"x"},{"id":"r@","role":"tool","toolCallId":"interrupt:@","content":"1"}"#;
    let answer = r#"{"id":"r@","role":"tool","toolCallId":"interrupt:@","content":"1"}"#;
    let question = r#"{"id":"interrupt:@","role":"assistant","content":"x"}"#;
    let reply = r#"{"id":"u","role":"user","content":"x"}"#;
    let thought =
        r#"{"id":"t@","role":"reasoning","content":"x"},{"id":"a@","role":"activity","activityType":"x","content":{}}"#;
    let tool = r#"{"name":"f@","description":"d","parameters":{}}"#;
    let block = r#"{\"output\":{\"type\":\"thinking\",\"data\":{\"content\":\"x\"}}}"#;
    let blocks = r#"{"id":"m","role":"assistant","content":"^"}"#;
    let body = |messages: &str, rest: &str| {
        format!(
            r#"{{"threadId":"t","runId":"r","state":{{}},"messages":[{messages}],"tools":[{rest}],"context":[],"forwardedProps":{{}}}}"#
        )
    };
    let list = |element: &str, count: usize| numbered(element, count).collect::<Vec<_>>().join(",");
    let bodies = |count: usize| {
        [
            ("messages", body(&list(message, count), "")),
            ("answers", body(&list(answer, count), "")),
            ("questions", body(&format!("{},{reply}", list(question, count)), "")),
            ("reasoning and activities", body(&list(thought, count), "")),
            ("tools", body("", &list(tool, count))),
            ("one message again and again", body(&list(&message.replace('@', "1"), count), "")),
            ("stored blocks", body(&blocks.replace('^', &block.repeat(count)), "")),
            ("repeated keys", body("", &format!("{{{}}}", list(r#""name":"f""#, count)))),
        ]
    };
    let count = |length: usize| {
        let mut counts = Vec::new();
        for (name, body) in bodies(length) {
            for client in sides() {
                for agent in sides() {
                    let fresh = RunIds::new("t", "r");
                    let translated = || {
                        let kept = |_: &crate::event::Json<'_>| Some(Vec::new());
                        drop(request::translate_input(body.as_bytes(), client, agent, &fresh, None, true, &kept));
                    };
                    counts.push((
                        format!("{name}, {} to {}", client.dialect.name, agent.dialect.name),
                        steps_of(translated),
                    ));
                }
            }
        }
        counts
    };
    let (short, long) = (count(SHORT), count(SHORT * FACTOR));
    assert_linear("requests", &short, &long);
}

/// Ids are equal whatever characters they escape, and a sum of sizes must not shrink by more than it grew.
#[test]
fn reads_runs_that_escape_one_id_in_two_ways() {
    for (first, second) in [("é", "\\u00e9"), ("\\u00e9", "é")] {
        let starts = [OPEN, CALL].map(|event| event.replace('@', first));
        let others = [TEXT, ARGS, ACTIVITY, CALL_END, END, RESULT].map(|event| event.replace('@', second));
        let run = to_run(starts.into_iter().chain(others));
        for agent in sides() {
            let sent = translate(run.as_bytes(), PeerDialect::new(ALL[0]), agent);
            sides().into_iter().for_each(|client| drop(translate(&sent, agent, client)));
        }
    }
}
