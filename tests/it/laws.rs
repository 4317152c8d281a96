//! The laws of losslessness (`translation.md` §2), over generated streams.
//!
//! - **L1** canonical → D → canonical gives the same stream. Two differences are accepted: a text message without a
//!   role gets the role of the assistant, and `protocolVersion` is that of the writer.
//! - **L2** D → canonical → D gives the same stream in D's normal form: members may be added, none may be removed or
//!   changed.
//! - The order of members means nothing: `member_order` shows it over the corpus.
//!
//! A failure prints the seed of its stream; the generator is deterministic, so the seed reproduces it.

mod ag_ui;
mod ag_ui_0;
mod ag_ui_snake;
mod cancellation;
mod cloudbase;
pub mod dice;
mod hai;
mod member_order;
mod old_client;
pub mod recap;
pub mod reducer;
mod social_app;

use super::exact_json::{canonical, members, object};
use super::golden::{side, translate_stream};
use diglot::codec::Framing;
use diglot::codec::sse::SseLimits;
use diglot::dialect::{AG_UI, ALL, DialectOverrides, MemberCase, PeerDialect, TextFormat};
use diglot::event::{EventLoss, EventType, Field};
use diglot::translate::roundtrip::RoundTrip;
use diglot::translate::{RunIds, Stream, request};

/// Streams per law and option.
const STREAMS: u64 = 500;

/// HAI with all its options.
const HAI: [&str; 4] = ["hai", "hai.string", "hai.snake", "hai.string.snake"];

/// Options that change what a dialect can say.
const WITH_OPTIONS: [&str; 7] = [
    "hai.string",
    "hai.snake",
    "hai.string.snake",
    "ag-ui-0.pin=0-0-42",
    "ag-ui-0.pin=0-0-45",
    "ag-ui-0.pin=0-0-59",
    "ag-ui-snake.timestamp=s",
];

/// A generator of a dialect's streams, and the dialect's normal form.
struct DialectLaw {
    /// the dialect, or each of its forms
    sides: &'static [&'static str],
    stream: fn(u64, PeerDialect) -> Vec<String>,
    /// brings events that came back (the second argument) into the form of the original ones
    normalize: fn(&[String], Vec<String>) -> Vec<String>,
}

/// One row for each dialect but AG-UI, which needs no laws of its own.
static DIALECT_LAWS: &[DialectLaw] = &[
    DialectLaw {
        sides: &HAI,
        stream: |seed, peer| {
            hai::stream(seed, peer.text_format != TextFormat::String, peer.member_case == MemberCase::Snake)
        },
        normalize: normalize_hai,
    },
    // Nothing is added: AG-UI 0.x has all that canonical AG-UI needs, and thinking loses its ids again.
    DialectLaw {
        sides: &PINS,
        stream: |seed, peer| ag_ui_0::stream(seed, peer.peer_version),
        normalize: |events, back| remove_added(events, &back, |_, _| false),
    },
    // A result without a message id gets the id that the client received.
    DialectLaw {
        sides: &UNITS,
        stream: |seed, peer| ag_ui_snake::stream(seed, peer.timestamp_unit),
        normalize: |events, back| {
            remove_added(events, &back, |kind, name| kind == EventType::ToolCallResult.wire() && name == "message_id")
        },
    },
    DialectLaw {
        sides: &["cloudbase"],
        stream: |seed, _| cloudbase::stream(seed),
        normalize: |events, back| CLOUDBASE.match_originals(events, &back),
    },
    DialectLaw {
        sides: &["social-app"],
        stream: |seed, _| social_app::stream(seed),
        normalize: |events, back| SOCIAL_APP.match_originals(events, &back),
    },
];

/// Returns the stream of this seed of an agent of the dialect.
pub fn agent_stream(dialect: &str, seed: u64) -> Vec<String> {
    let law = DIALECT_LAWS.iter().find(|law| law.sides.contains(&dialect));
    law.map_or_else(|| ag_ui::stream(seed), |law| (law.stream)(seed, side(dialect)))
}

fn sides_with_laws() -> impl Iterator<Item = (&'static DialectLaw, &'static str)> {
    DIALECT_LAWS.iter().flat_map(|law| law.sides.iter().map(move |dialect| (law, *dialect)))
}

#[test]
fn every_dialect_has_a_law() {
    let named: Vec<_> = sides_with_laws().map(|(_, name)| side(name).dialect.name).collect();
    let missing = ALL.iter().filter(|dialect| **dialect != &AG_UI && !named.contains(&dialect.name));
    assert_eq!(missing.map(|dialect| dialect.name).collect::<Vec<_>>(), [""; 0]);
}

/// Every built-in dialect, with the options that change what it can say.
fn all_sides() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|dialect| dialect.name).chain(WITH_OPTIONS)
}

/// One event per frame, as text, through one translation.
fn translate_events(events: &[String], from: &str, to: &str) -> Vec<String> {
    translate_between_sides(events, side(from), side(to))
}

fn translate_between_sides(events: &[String], from: PeerDialect, to: PeerDialect) -> Vec<String> {
    let wire: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (output, _) = translate_stream(from, to, [wire.as_bytes()]);
    output.split("\n\n").filter(|frame| !frame.is_empty()).map(frame_data).collect()
}

/// Returns the data of a frame; an `event:` line, if present, must repeat the type.
fn frame_data(frame: &str) -> String {
    let (head, data) = frame.split_at(frame.find("data: ").unwrap_or_else(|| panic!("no data in {frame}")));
    let data = &data["data: ".len()..];
    if let Some(kind) = head.strip_prefix("event: ") {
        assert_eq!(format!("\"{}\"", kind.trim_end()), members(data)["type"], "{frame}");
    }
    data.to_owned()
}

/// Fails with the first event that differs from `expected`, the intermediate stream, and the seed.
fn assert_same_events(law: &str, seed: u64, expected: &[String], middle: &[String], back: &[String]) {
    let at = (0..expected.len().max(back.len())).find(|&at| expected.get(at) != back.get(at));
    if let Some(at) = at {
        let way = middle[at.saturating_sub(6).min(middle.len())..middle.len().min(at + 6)].join("\n  ");
        let [expected, back] = [expected, back].map(|list| list.get(at).map_or("nothing", String::as_str));
        panic!(
            "{law}, seed {seed}, event {at}\nexpected {expected}\ngot      {back}\nby way of, about there\n  {way}\n"
        );
    }
}

/// A canonical event, without what L1 lets differ.
fn normalize_event(event: &str) -> String {
    let mut all = members(event);
    match all["type"].as_str() {
        "\"TEXT_MESSAGE_START\"" => drop(all.entry("role".to_owned()).or_insert_with(|| "\"assistant\"".to_owned())),
        "\"RUN_STARTED\"" => drop(all.remove("protocolVersion")),
        _ => {}
    }
    object(&all)
}

/// Groups events by message and call. A dialect with whole messages sends text and arguments at their end, so events between
/// their pieces come before them: each message and each call is compared by itself, and all other events in their
/// order.
fn group_by_message(events: Vec<String>) -> Vec<String> {
    let group = |event: &String| {
        let all = members(event);
        let kind = all["type"].trim_matches('"').to_owned();
        let id = match kind.split('_').next() {
            Some("TEXT") => all.get("messageId"),
            Some("TOOL") if kind.ends_with("ARGS") || kind.ends_with("CHUNK") => all.get("toolCallId"),
            _ => None,
        };
        let chunk = kind.ends_with("CHUNK") && id.is_none();
        id.cloned().unwrap_or_else(|| if chunk { "~".to_owned() } else { String::new() })
    };
    let mut events = events;
    events.sort_by_cached_key(group);
    events
}

#[test]
fn l1_canonical_survives_every_dialect() {
    for dialect in all_sides() {
        for seed in 0..STREAMS {
            let events = ag_ui::stream(seed);
            let middle = translate_events(&events, "ag-ui", dialect);
            let back = translate_events(&middle, dialect, "ag-ui");
            let [expected, back] = [events, back].map(|all| {
                let all = all.iter().map(|event| normalize_event(event)).collect::<Vec<_>>();
                if side(dialect).dialect.has_whole_messages() { group_by_message(all) } else { all }
            });
            assert_same_events(&format!("L1 over {dialect}"), seed, &expected, &middle, &back);
        }
    }
}

/// A dialect of the operator's own is no exception, whichever it extends.
#[test]
fn l1_canonical_survives_a_dialect_with_other_names() {
    let canonical = PeerDialect::new(&AG_UI);
    for base in ALL {
        let text = |text: &str| text.to_owned();
        let first = base
            .row_for_kind(EventType::RunFinished, PeerDialect::new(base).peer_version)
            .expect("every dialect ends runs")
            .1
            .wire;
        let own = DialectOverrides {
            name: text("acme"),
            base,
            events: vec![(text(first), text("DONE"))],
            fields: vec![(Field::ThreadId, text("session")), (Field::Delta, text("words"))],
            values: vec![(Field::Role, text("assistant"), text("bot"))],
            strip: Vec::new(),
        };
        let own = PeerDialect::new(own.into_dialect());
        for seed in 0..STREAMS / 5 {
            let events = ag_ui::stream(seed);
            let middle = translate_between_sides(&events, canonical, own);
            assert!(!middle.iter().any(|event| event.contains("\"type\":\"RUN_FINISHED\"")), "{middle:?}");
            let back = translate_between_sides(&middle, own, canonical);
            let [expected, back] = [events, back].map(|all| {
                let all = all.iter().map(|event| normalize_event(event)).collect::<Vec<_>>();
                if base.has_whole_messages() { group_by_message(all) } else { all }
            });
            assert_same_events(
                &format!("L1 over a dialect that extends {}", base.name),
                seed,
                &expected,
                &middle,
                &back,
            );
        }
    }
}

/// The same law for the other framing of the canonical dialect: content that protobuf cannot express is carried.
#[test]
fn l1_canonical_survives_protobuf() {
    for seed in 0..STREAMS {
        let events = translate_events(&ag_ui::stream(seed), "ag-ui", "ag-ui");
        let wire: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let over = |input: &[u8], read: Framing, write: Framing| {
            let mut stream = Stream::new(side("ag-ui"), side("ag-ui"), None, SseLimits::default());
            stream.read_as(read);
            stream.write_as(write);
            let mut out = Vec::new();
            stream.push(input, 0, &mut out).expect("no limit is near");
            out
        };
        let frames = over(wire.as_bytes(), Framing::Sse, Framing::Proto);
        let back = String::from_utf8(over(&frames, Framing::Proto, Framing::Sse)).expect("UTF-8");
        let back = back.split("\n\n").filter(|frame| !frame.is_empty()).map(|frame| frame.replacen("data: ", "", 1));
        let back: Vec<_> = back.map(|event| canonical(&event)).collect();
        let expected: Vec<_> = events.iter().map(|event| canonical(event)).collect();
        assert_same_events("L1 over protobuf", seed, &expected, &events, &back);
    }
}

/// The canonical stream of an agent of any dialect stays the same after another hop through its dialect.
#[test]
fn l1_holds_for_the_streams_of_agents() {
    for (law, dialect) in sides_with_laws() {
        for seed in 0..STREAMS {
            let events = translate_events(&(law.stream)(seed, side(dialect)), dialect, "ag-ui");
            let middle = translate_events(&events, "ag-ui", dialect);
            let back = translate_events(&middle, dialect, "ag-ui");
            let [expected, back] =
                [events, back].map(|all| all.iter().map(|event| normalize_event(event)).collect::<Vec<_>>());
            assert_same_events(&format!("L1 of {dialect} over {dialect}"), seed, &expected, &middle, &back);
        }
    }
}

#[test]
fn l2_dialects_survive_canonical() {
    for (law, dialect) in sides_with_laws() {
        for seed in 0..STREAMS {
            let events = (law.stream)(seed, side(dialect));
            let middle = translate_events(&events, dialect, "ag-ui");
            let back = (law.normalize)(&events, translate_events(&middle, "ag-ui", dialect));
            let expected: Vec<_> = events.iter().map(|event| canonical(event)).collect();
            assert_same_events(&format!("L2 of {dialect}"), seed, &expected, &middle, &back);
        }
    }
}

/// Members that HAI's normal form adds where an event lacks them.
const ADDED: [&str; 7] = ["threadId", "runId", "messageId", "role", "message", "code", "parentMessageId"];

/// `event` without what its normal form added to `original`; the name of an added member counts in both spellings.
fn strip_added_members(original: &str, event: &str) -> String {
    let (before, mut after) = (members(original), members(event));
    let snake = |name: &str| ADDED.iter().any(|own| own.to_lowercase() == name.replace('_', ""));
    after.retain(|name, _| before.contains_key(name) || !(ADDED.contains(&name.as_str()) || snake(name)));
    if let Some(extra) = after.remove("extra") {
        let mut own = if extra.starts_with('{') { members(&extra) } else { Default::default() };
        let ours = own.remove("ag-ui");
        match (ours, own.is_empty()) {
            (None, _) => drop(after.insert("extra".to_owned(), extra)),
            (Some(ours), true) => {
                // An original `extra` that is not an object is kept in addition to the added one.
                after.extend(members(&ours).remove("$extra").map(|own| ("extra".to_owned(), own)));
            }
            (Some(_), false) => drop(after.insert("extra".to_owned(), object(&own))),
        }
    }
    object(&after)
}

/// HAI's normal form: an empty message has an empty block without meaning.
fn normalize_hai(events: &[String], back: Vec<String>) -> Vec<String> {
    let back = back.into_iter().filter(|event| !event.contains(r#""ag-ui":{"type":""}"#)).enumerate();
    back.map(|(at, event)| {
        events.get(at).map_or_else(|| event.clone(), |original| strip_added_members(original, &event))
    })
    .collect()
}

/// Versions of AG-UI that take different things.
const PINS: [&str; 10] = [
    "ag-ui-0",
    "ag-ui-0.pin=0-1",
    "ag-ui-0.pin=0-0-35",
    "ag-ui-0.pin=0-0-39",
    "ag-ui-0.pin=0-0-42",
    "ag-ui-0.pin=0-0-45",
    "ag-ui-0.pin=0-0-47",
    "ag-ui-0.pin=0-0-53",
    "ag-ui-0.pin=0-0-57",
    "ag-ui-0.pin=0-0-59",
];

const UNITS: [&str; 3] = ["ag-ui-snake", "ag-ui-snake.timestamp=ms", "ag-ui-snake.timestamp=s"];

/// Removes members that an original event lacks and that `added` permits, by type and name.
fn remove_added(events: &[String], back: &[String], added: fn(&str, &str) -> bool) -> Vec<String> {
    let normal = |(at, event): (usize, &String)| {
        let mut after = members(event);
        let before = events.get(at).map(|original| members(original)).unwrap_or_default();
        let kind = after.get("type").cloned().unwrap_or_default();
        after.retain(|name, _| before.contains_key(name) || !added(kind.trim_matches('"'), name));
        object(&after)
    };
    back.iter().enumerate().map(normal).collect()
}

/// A request through canonical AG-UI and back, as it leaves for an agent of the dialect. In one step, because the notes
/// that restore the dialect's own words do not leave the gateway.
fn round_trip_request(body: &str, dialect: &str) -> String {
    let ids = RunIds::new("t-new", "r-new");
    let back = request::translate_request(body.as_bytes(), side(dialect), side(dialect), &ids);
    back.unwrap_or_else(|refused| panic!("{dialect}: {refused} in {body}")).body
}

/// Members that AG-UI requires and older versions may omit are added.
#[test]
fn l2_ag_ui_requests_survive_canonical() {
    for (dialect, make) in [("ag-ui-0", ag_ui_0::request as fn(u64) -> String), ("ag-ui-snake", ag_ui_snake::request)] {
        for seed in 0..STREAMS {
            let body = make(seed);
            let (before, mut after) = (members(&body), members(&round_trip_request(&body, dialect)));
            after.retain(|name, _| before.contains_key(name) || !["state", "forwardedProps"].contains(&name.as_str()));
            assert_eq!(object(&before), object(&after), "L2 of a request of {dialect}, seed {seed}");
        }
    }
}

/// For any stream of a 1.0 agent, a client accepts the output for its version; and a client of any version since 0.0.42
/// accepts the output without a version.
#[test]
fn old_clients_accept_what_is_written_for_them() {
    for dialect in PINS {
        for seed in 0..STREAMS {
            let sent = ag_ui::stream(seed);
            let received = translate_events(&sent, "ag-ui", dialect);
            if let Some(why) = old_client::rejection_reason(side(dialect).peer_version, &received) {
                panic!("{dialect}, seed {seed}, {why}\n  {}", received.join("\n  "));
            }
        }
    }
}

/// Members that the normal form of a dialect adds.
struct NormalForm {
    /// members, where an event or a message lacks them
    members: &'static [&'static str],
    /// whole events that only name their owner
    events: &'static [&'static str],
}

/// `cloudbase`: ids of a run, which its boundaries may omit; `error` and `message` if an error has neither; the id of a
/// result's message. The seed's own stream has no RUN_STARTED, and its calls have no end.
const CLOUDBASE: NormalForm = NormalForm {
    members: &["threadId", "runId", "error", "message", "messageId"],
    events: &["RUN_STARTED", "TEXT_MESSAGE_END", "TOOL_CALL_END", "STEP_FINISHED"],
};

/// `social-app`: members of every event (§4); members of a call's start that its events repeat, and the result of a
/// call (§3.3); members of results and answers that are always present (§3.3, §3.4).
const SOCIAL_APP: NormalForm = NormalForm {
    members: &[
        "threadId",
        "runId",
        "messageId",
        "toolCallName",
        "stage",
        "role",
        "tool_name",
        "tool_call_args",
        "status",
        "error",
        "answer",
        "key_points",
        "result_type",
        "suggested_actions",
        "ui_schema",
    ],
    events: &["TOOL_CALL_END"],
};

impl NormalForm {
    /// `after` without what was added to `before`, and without what only AG-UI has, which rides in `metadata`.
    fn strip_additions(&self, before: &str, after: &str) -> String {
        let (before, mut after) = (members(before), members(after));
        after.retain(|name, _| before.contains_key(name) || !self.members.contains(&name.as_str()));
        if let Some(metadata) = after.remove("metadata") {
            let mut own = members(&metadata);
            own.remove("diglot.ag-ui");
            if !own.is_empty() {
                after.insert("metadata".to_owned(), object(&own));
            }
        }
        // An error that has no text gets one.
        let errors = before
            .get("error")
            .zip(after.get("error"))
            .filter(|pair| pair.0.starts_with('{') && pair.1.starts_with('{'));
        if let Some((known, mut error)) = errors.map(|(before, after)| (members(before), members(after))) {
            error.retain(|name, _| known.contains_key(name) || name != "message");
            after.insert("error".to_owned(), object(&error));
        }
        // An empty home is as good as none.
        if before.get("metadata").is_some_and(|metadata| metadata == "{}") {
            after.entry("metadata".to_owned()).or_insert_with(|| "{}".to_owned());
        }
        object(&after)
    }

    /// The events of `back` that are those of `events`, in their form.
    fn match_originals(&self, events: &[String], back: &[String]) -> Vec<String> {
        let mut matched: Vec<String> = Vec::new();
        for event in back {
            let Some(original) = events.get(matched.len()) else {
                matched.push(event.clone());
                continue;
            };
            let (kind, expected) = (members(event)["type"].clone(), members(original)["type"].clone());
            if kind == expected || !self.events.contains(&kind.trim_matches('"')) {
                matched.push(self.strip_additions(original, event));
            }
        }
        matched
    }
}

/// Seed 004 prints no request, so both dialects use those of 003.
#[test]
fn l2_requests_survive_canonical() {
    // The members of AG-UI's own form that 003 does not need, and the id of the tool message that it prints without one.
    let normal = NormalForm {
        members: &["threadId", "runId", "state", "tools", "context", "forwardedProps", "id"],
        events: &[],
    };
    let ids = RunIds::new("t-new", "r-new");
    let hop = |body: &str, from: &str, to: &str| {
        let translated = request::translate_request(body.as_bytes(), side(from), side(to), &ids);
        translated.unwrap_or_else(|refused| panic!("{refused}: {body}")).body
    };
    let messages = |body: &str| -> Vec<String> {
        let body = members(body);
        let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(&body["messages"]).expect("a list");
        list.iter().map(|message| message.get().to_owned()).collect()
    };
    for dialect in ["cloudbase", "social-app"] {
        for seed in 0..STREAMS {
            let body = cloudbase::request(seed);
            let middle = hop(&body, dialect, "ag-ui");
            let back = hop(&middle, "ag-ui", dialect);
            let (before, after) = (messages(&body), messages(&back));
            let after: Vec<_> =
                before.iter().zip(&after).map(|(before, after)| normal.strip_additions(before, after)).collect();
            let before: Vec<_> = before.iter().map(|message| canonical(message)).collect();
            assert_same_events(
                &format!("L2 of a request of {dialect}"),
                seed,
                &before,
                std::slice::from_ref(&middle),
                &after,
            );
            let top = |body: &str| {
                let mut all = members(body);
                all.remove("messages");
                object(&all)
            };
            let [before, after] = [top(&body), normal.strip_additions(&top(&body), &top(&back))];
            assert_same_events(&format!("L2 of a request of {dialect}"), seed, &[before], &[middle], &[after]);
        }
    }
}

/// `diglot translate --roundtrip` compares by the laws above.
#[test]
fn command_line_round_trip_finds_no_difference() {
    for dialect in HAI {
        for seed in 0..STREAMS / 5 {
            let sent = hai::stream(seed, side(dialect).text_format != TextFormat::String, dialect.ends_with("snake"));
            for (from, to, events) in [(dialect, "ag-ui", sent), ("ag-ui", dialect, ag_ui::stream(seed))] {
                let mut trip = RoundTrip::new(side(from), side(to), Some(RunIds::new("t1", "r1")));
                events.iter().for_each(|event| trip.push_event(event));
                let outcome = trip.finish();
                let found = outcome.differences.first().map(|one| (&events[one.event], one));
                // A snapshot may lack what is open, and have media.
                let is_removal = |(event, loss): &(usize, EventLoss)| {
                    use EventLoss::{EventNotShown, PartNotShown, ReasoningNotShown, TextNotShown};
                    events[*event].contains("MESSAGES_SNAPSHOT")
                        && matches!(loss, EventNotShown | PartNotShown | ReasoningNotShown | TextNotShown)
                };
                let losses: Vec<_> = outcome.losses.iter().filter(|loss| !is_removal(loss)).collect();
                assert!(found.is_none() && losses.is_empty(), "{from} to {to}, seed {seed}: {found:#?} {losses:?}");
            }
        }
    }
}
