//! Detects the dialect of a stream or request by the signs in the dialect tables and the form of the request.
//!
//! ```text
//!   event ─▶ its strongest sign ─▶ SignTally ─▶ another dialect leads ─▶ what was read so far is read again as that dialect
//!                                            ╰▶ the same one leads
//! ```
//! A stream counts as AG-UI until it shows a sign of another dialect: until then both read the same, so no event has to
//! wait. Each stream is judged by its own events alone.

use crate::codec::json;
use crate::dialect::{
    AG_UI, ALL, DETECTION_RULES, DetectionRule, Dialect, MemberCase, PeerDialect, PeerVersion, REQUEST_RULES,
    RequestSign, SignWeight, UNDETECTED_DIALECT,
};
use crate::event::input::{ASSISTANT, TOOL};
use crate::event::{Field, Json, JsonType, MemberKey, get};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectedDialect {
    pub(crate) peer: PeerDialect,
    pub(crate) evidence: &'static str,
}

/// Maximum number of events that are kept to be read again.
const MAX_KEPT_EVENTS: usize = 1024;

/// Maximum total size of kept events in bytes. The first event is kept regardless of its size.
const MAX_KEPT_BYTES: usize = 256 << 10;

/// Maximum size of an event's members before its piece of text; pieces with more are treated like other events.
const MAX_PIECE_HEAD_BYTES: usize = 1 << 10;

/// Maximum number of messages of a request that are searched for signs: one with more is refused later.
const MAX_SEARCHED_MESSAGES: usize = 10_000;

/// The different signs that a stream has shown.
#[derive(Debug, Default)]
struct SignTally {
    signs: Vec<&'static DetectionRule>,
    leader: Option<&'static Dialect>,
}

impl SignTally {
    /// Adds a sign. Returns true if another dialect leads from now on.
    fn add(&mut self, sign: &'static DetectionRule) -> bool {
        if self.signs.iter().any(|seen| std::ptr::eq(*seen, sign)) {
            return false;
        }
        self.signs.push(sign);
        // Of dialects with equal evidence, the one that was seen first leads.
        let leads = match self.leader {
            Some(leader) if std::ptr::eq(leader, sign.dialect) => false,
            Some(leader) => self.evidence_for(sign.dialect) > self.evidence_for(leader),
            None => true,
        };
        if leads {
            self.leader = Some(sign.dialect);
        }
        leads
    }

    /// Returns the weight of the dialect's strongest signs, and their number: weaker ones do not count beside them.
    fn evidence_for(&self, dialect: &Dialect) -> (Option<SignWeight>, usize) {
        let weights = || self.signs.iter().filter(|sign| std::ptr::eq(sign.dialect, dialect)).map(|sign| sign.weight);
        let strongest = weights().max();
        (strongest, weights().filter(|weight| Some(*weight) == strongest).count())
    }

    /// Returns the weight of the leader's strongest sign.
    fn weight(&self) -> Option<SignWeight> {
        self.leader.and_then(|leader| self.evidence_for(leader).0)
    }

    /// Returns the leader and its first sign of the greatest weight.
    fn result(&self) -> Option<&'static DetectionRule> {
        let leader = self.leader?;
        let weight = self.weight();
        self.signs.iter().copied().find(|sign| std::ptr::eq(sign.dialect, leader) && Some(sign.weight) == weight)
    }
}

/// Detects the dialect of a stream while it arrives, and keeps its events for the readers of other dialects.
#[derive(Debug, Default)]
pub(super) struct DialectDetector {
    tally: SignTally,
    has_begun: bool,
    kept_events: Vec<String>,
    kept_bytes: usize,
    /// the last event up to its piece of text, if it has one
    piece_head: String,
    /// whether an event was not kept that a reader of another variant of AG-UI may need
    is_incomplete: bool,
}

impl DialectDetector {
    /// Returns the sign of an event if it makes another dialect lead.
    pub(crate) fn inspect(&mut self, data: &str) -> Option<&'static DetectionRule> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        // Another piece of the same text has no other members.
        if self.is_next_piece(data) {
            return None;
        }
        let least = if self.is_incomplete { Some(SignWeight::OwnType) } else { self.tally.weight() };
        let sign = matching_signs(data, is_first).next().filter(|sign| Some(sign.weight) >= least)?;
        self.tally.add(sign).then_some(sign)
    }

    /// Keeps an event that was read, until nothing can overrule the leader except an event type of another dialect,
    /// which needs nothing from before.
    pub(crate) fn keep(&mut self, data: &str) {
        if self.is_next_piece(data) {
            return;
        }
        self.piece_head.clear();
        // The first piece that is not empty is kept: it shows that there is text.
        let head = piece_head(data).filter(|head| !data[head.len() + DELTA.len()..].trim_start().starts_with("\"\""));
        self.piece_head.push_str(head.unwrap_or_default());
        if self.is_incomplete || self.tally.weight() >= Some(SignWeight::DeclaredVersion) {
            return;
        }
        let is_within = self.kept_bytes + data.len() <= MAX_KEPT_BYTES && self.kept_events.len() < MAX_KEPT_EVENTS;
        if is_within || self.kept_events.is_empty() {
            self.kept_bytes += data.len();
            self.kept_events.push(data.to_owned());
        } else {
            self.is_incomplete = true;
        }
    }

    /// Returns true if no later sign can change the result.
    pub(crate) fn is_settled(&self) -> bool {
        self.tally.weight() == Some(SignWeight::OwnType)
    }

    /// Returns the events that were read so far, except further pieces of a text.
    pub(crate) fn kept_events(&self) -> &[String] {
        &self.kept_events
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    fn is_next_piece(&self, data: &str) -> bool {
        !self.piece_head.is_empty() && piece_head(data) == Some(&*self.piece_head)
    }
}

const DELTA: &str = r#""delta":"#;

/// Returns an event up to its delta, if that names the item that the delta belongs to.
fn piece_head(data: &str) -> Option<&str> {
    let head = &data[..data.find(DELTA)?];
    let names_item = head.contains("Id\"") || head.contains("_id\"");
    (names_item && head.len() <= MAX_PIECE_HEAD_BYTES).then_some(head)
}

/// Returns the signs in an event, the decisive one first.
pub(crate) fn matching_signs(data: &str, first: bool) -> impl Iterator<Item = &'static DetectionRule> {
    let members = json::parse_open_object(data).ok();
    let wire = members.as_ref().and_then(|object| Some(object.kind.as_ref()?.text()?.into_owned()));
    let members = members.map(|object| object.members).unwrap_or_default();
    DETECTION_RULES.iter().filter(move |sign| {
        let has = |name: &str| members.iter().any(|(key, _)| key.name() == name);
        wire.as_ref().is_some_and(|wire| sign.pattern.matches(wire, &has, first))
    })
}

/// Returns the dialect of an event that has the type `wire`: the one that its signs indicate, or the first with this
/// type.
pub(crate) fn dialect_of_event(wire: &str, data: &str) -> Option<&'static Dialect> {
    let by_sign = matching_signs(data, false).next().map(|sign| sign.dialect);
    let mut candidates = by_sign.into_iter().chain(ALL.iter().copied());
    candidates.find(|dialect| dialect.has_event(wire))
}

/// Returns whether a built-in dialect has the type of an event.
pub(crate) fn has_known_type(data: &str) -> bool {
    let kind = json::parse_object(data).ok().and_then(|object| object.kind);
    let wire = kind.as_ref().and_then(Json::text);
    wire.is_some_and(|wire| ALL.iter().any(|dialect| dialect.has_event(&wire)))
}

/// Detects the dialect of a captured stream: the one with the strongest signs, then the one with the most of them, then
/// the first. Also returns each sign where it first occurs.
pub(crate) fn detect_stream<'e>(
    events: impl Iterator<Item = &'e str>,
) -> (DetectedDialect, Vec<(usize, &'static DetectionRule)>) {
    let events: Vec<&str> = events.collect();
    let mut tally = SignTally::default();
    let mut seen = Vec::new();
    for (at, data) in events.iter().enumerate() {
        let Some(sign) = matching_signs(data, at == 0).next() else { continue };
        let count = tally.signs.len();
        tally.add(sign);
        if tally.signs.len() > count {
            seen.push((at, sign));
        }
    }
    let found = match tally.result() {
        Some(sign) => DetectedDialect {
            peer: detect_options(PeerDialect::new(sign.dialect), events.iter().copied()),
            evidence: sign.description,
        },
        None => DetectedDialect { peer: PeerDialect::new(&AG_UI), evidence: "no event is specific to another dialect" },
    };
    (found, seen)
}

/// Sets a dialect's options from the text format and members of the events.
#[must_use]
pub fn detect_options<'e>(side: PeerDialect, events: impl Iterator<Item = &'e str>) -> PeerDialect {
    let mut side = side;
    let takes = |option: &str| side.dialect.option_names.contains(&option);
    let content = takes("content");
    let fields = takes("fields");
    // A configured version is kept.
    let versioned = side.dialect.is_versioned() && side.peer_version == PeerVersion::Any;
    let mut decided = false;
    for data in events {
        let Ok(object) = json::parse_object(data) else { continue };
        if versioned {
            side.peer_version = side.peer_version.max(min_version(side.dialect, &object));
        }
        let members = object.members;
        // The first text decides; a later one in the other format is noted when it is read.
        let text_format = side.dialect.message_adapter.and_then(|adapter| adapter.detect_text_format(&members));
        if let Some(text_format) = text_format.filter(|_| content && !decided) {
            side.text_format = text_format;
            decided = true;
        }
        if fields && is_snake_case(data) {
            side.member_case = MemberCase::Snake;
        }
    }
    side
}

fn min_version(dialect: &Dialect, object: &json::JsonObject<'_>) -> PeerVersion {
    let wire = object.kind.as_ref().and_then(Json::text).unwrap_or_default();
    let role = get(&object.members, Field::Role).is_some_and(|role| !role.is_str(ASSISTANT) && !role.is_str(TOOL));
    let messages = get(&object.members, Field::Messages).and_then(json::parse_elements).unwrap_or_default();
    let has_parts = |message: &Json<'_>| {
        let message = json::parse_members(message).unwrap_or_default();
        get(&message, Field::Content).is_some_and(|content| content.json_type() == JsonType::Array)
    };
    let by_role = if role { PeerVersion::V0_0_39 } else { PeerVersion::Any };
    let by_parts = if messages.iter().any(has_parts) { PeerVersion::V0_0_42 } else { PeerVersion::Any };
    dialect.first_version_with(&wire).unwrap_or_default().max(by_role).max(by_parts)
}

fn is_snake_case(data: &str) -> bool {
    let members = json::parse_open_object(data).map(|object| object.members).unwrap_or_default();
    members.iter().any(|(key, _)| {
        matches!(key, MemberKey::Other(name) if *name == Field::MessageId.snake() || *name == Field::ToolCallId.snake())
    })
}

/// Detects a client's dialect by the strongest sign in its request.
pub(crate) fn detect_request(body: &str) -> DetectedDialect {
    let members = json::parse_open_object(body).map(json::members_with_type).unwrap_or_default();
    let messages =
        get(&members, Field::Messages).and_then(|list| json::parse_first_elements(list, MAX_SEARCHED_MESSAGES));
    let (messages, _) = messages.unwrap_or_default();
    let messages: Vec<_> = messages.iter().filter_map(json::parse_members).collect();
    match REQUEST_RULES.iter().find(|rule| rule.matches(&members, &messages)) {
        Some(rule) => DetectedDialect {
            peer: PeerDialect { text_format: rule.sign.text_format, ..PeerDialect::new(rule.dialect) },
            evidence: rule.sign.description,
        },
        None => DetectedDialect {
            peer: PeerDialect::new(UNDETECTED_DIALECT),
            evidence: "the request has no protocolVersion, as before AG-UI 1.0",
        },
    }
}

/// Detects a client of AG-UI 1.0 by its declaration on a route for clients of a dialect without one. Other signs may
/// occur in the requests of clients of any dialect. Clients of AG-UI 1.0 can use what those before it get, so a route
/// may have both.
pub(crate) fn detect_undeclared_client(body: &str, client: PeerDialect) -> Option<DetectedDialect> {
    let has_declaration = client.dialect.request_signs.iter().any(RequestSign::is_declared_version);
    if has_declaration || client.dialect.is_versioned() {
        return None;
    }
    let members = json::parse_open_object(body).ok()?.members;
    let rule = REQUEST_RULES.iter().find(|rule| rule.sign.is_declared_version() && rule.matches(&members, &[]))?;
    Some(DetectedDialect { peer: PeerDialect::new(rule.dialect), evidence: rule.sign.description })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::TextFormat;

    #[test]
    fn detects_the_dialect_of_documented_streams() {
        let rows: &[(&[&str], &str)] = &[
            // HAI §4.2 build_run_started, §3.3.1
            (&[r#"{"type":"RUN_STARTED","messageId":"m","role":"assistant","timestamp":1}"#], "hai"),
            (&[r#"{"type":"BUSINESS_DATA_START","messageId":"msg-2","role":"assistant"}"#], "hai"),
            // 002 RUN_STARTED
            (&[r#"{"type":"RUN_STARTED","timestamp":10693854,"thread_id":"1","run_id":"1"}"#], "ag-ui-snake"),
            // 003 响应格式
            (&[r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-1"}"#, r#"{"type":"RUN_FINISHED"}"#], "cloudbase"),
            // 004 §3.2
            (
                &[
                    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
                    r#"{"type":"STEP_STARTED","threadId":"t","runId":"r","stepName":"router"}"#,
                ],
                "social-app",
            ),
            (&[r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#, r#"{"type":"THINKING_START"}"#], "ag-ui-0"),
            // 001 响应示例, identical in AG-UI 1.0
            (
                &[
                    r#"{"type":"RUN_STARTED","threadId":"thread_001","runId":"run_001"}"#,
                    r#"{"type":"TEXT_MESSAGE_START","messageId":"msg_1","role":"assistant"}"#,
                ],
                "ag-ui",
            ),
            (&[r#"{"type":"RUN_ERROR","message":"x"}"#], "ag-ui"),
        ];
        for (events, dialect) in rows {
            let (found, _) = detect_stream(events.iter().copied());
            assert_eq!(found.peer.dialect.name, *dialect, "{events:?}: {}", found.evidence);
        }
    }

    fn run_started(members: &str) -> String {
        format!(r#"{{"type":"RUN_STARTED",{members}}}"#)
    }

    /// The stronger sign overrules the weaker, whichever comes first.
    #[test]
    fn weighs_all_signs_of_a_stream() {
        const BUSINESS_DATA: &str = r#"{"type":"BUSINESS_DATA_START","messageId":"m"}"#;
        const ANSWER: &str = r#"{"type":"TEXT_MESSAGE_END","messageId":"m","answer":"a"}"#;
        const ARGS: &str = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","args":{}}"#;
        const THINKING: &str = r#"{"type":"THINKING_START"}"#;
        const FINISHED: &str = r#"{"type":"RUN_FINISHED","thread_id":"t","run_id":"r"}"#;
        let snake = run_started(r#""thread_id":"t","run_id":"r""#);
        let snake_hai = run_started(r#""thread_id":"t","message_id":"m""#);
        let current = run_started(r#""threadId":"t","runId":"r","protocolVersion":"1.0""#);
        let bare = run_started(r#""timestamp":1"#);
        let rows: &[(&[&str], &str)] = &[
            (&[&snake, BUSINESS_DATA, FINISHED], "hai"),
            (&[&bare, THINKING, BUSINESS_DATA], "hai"),
            (&[&current, BUSINESS_DATA], "hai"),
            (&[&snake, ANSWER, FINISHED], "social-app"),
            (&[&snake, ARGS, FINISHED], "cloudbase"),
            (&[&bare, THINKING, FINISHED], "ag-ui-snake"),
            (&[&current, ARGS], "ag-ui"),
            (&[&current, ANSWER, FINISHED], "ag-ui"),
            (&[&snake, THINKING], "ag-ui-snake"),
            (&[&snake_hai, FINISHED], "hai"),
            (&[&snake_hai, FINISHED, r#"{"type":"TOOL_CALL_RESULT","message_id":"m"}"#], "ag-ui-snake"),
        ];
        for (events, dialect) in rows {
            let (found, _) = detect_stream(events.iter().copied());
            assert_eq!(found.peer.dialect.name, *dialect, "{events:?}: {}", found.evidence);
            let mut detector = DialectDetector::default();
            let mut last = None;
            for data in *events {
                last = detector.inspect(data).or(last);
                detector.keep(data);
            }
            assert_eq!(last.map(|sign| sign.dialect.name), Some(*dialect), "{events:?}, as it arrives");
        }
    }

    #[test]
    fn keeps_few_events_of_a_stream() {
        let piece = |id: usize, text: &str| {
            format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m{id}","delta":"{text}"}}"#)
        };
        let mut detector = DialectDetector::default();
        let mut read = |data: &str| {
            let sign = detector.inspect(data);
            detector.keep(data);
            (sign.map(|sign| sign.dialect.name), detector.kept_events().len(), detector.is_settled())
        };
        assert_eq!(read(&run_started(r#""threadId":"t","runId":"r""#)), (None, 1, false));
        // Further pieces of a text show nothing new.
        (0..10_000).for_each(|_| assert_eq!(read(&piece(1, "x")), (None, 2, false)));
        (2..5_000).for_each(|id| assert!(read(&piece(id, "x")).1 <= MAX_KEPT_EVENTS));
        // An event of another variant of AG-UI would be read without knowing what came before.
        assert_eq!(read(r#"{"type":"TEXT_MESSAGE_END","messageId":"m9","answer":"x"}"#).0, None);
        let own = r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"x"}"#;
        assert_eq!(read(own), (Some("hai"), MAX_KEPT_EVENTS, true));

        let mut detector = DialectDetector::default();
        for id in 0..4 {
            detector.keep(&piece(id, &"x".repeat(MAX_KEPT_BYTES / 2)));
        }
        assert!(detector.kept_bytes() <= MAX_KEPT_BYTES && detector.is_incomplete);
    }

    #[test]
    fn detects_the_options_of_hai() {
        let events =
            [r#"{"type":"BUSINESS_DATA_CONTENT","message_id":"m","delta":{"output":{"type":"text","content":"a"}}}"#];
        let (found, _) = detect_stream(events.into_iter());
        assert_eq!((found.peer.text_format, found.peer.member_case), (TextFormat::Blocks, MemberCase::Snake));
    }

    #[test]
    fn detects_the_dialect_of_requests() {
        let rows = [
            (r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[]}"#, "ag-ui"),
            (
                r#"{"threadId":"t","runId":"r","state":{},"messages":[],"tools":[],"context":[],"forwardedProps":{}}"#,
                "ag-ui-0",
            ),
            // HAI §3.3.1
            (
                r#"{"threadId":"t","runId":"r","messages":[{"id":"msg_1","role":"user","content":"介绍下HAI"}],"context":[],"tools":[],"forwardedProps":{}}"#,
                "hai",
            ),
            (r#"{"messages":[{"id":"1","role":"user","content":"a","extra":{}}]}"#, "hai"),
            (r#"{"messages":[{"id":"1","role":"user","contents":[]}]}"#, "hai"),
            (r#"{"messages":[{"id":"1","role":"用户","content":"a"}]}"#, "ag-ui-snake"),
            (r#"{"thread_id":"t","messages":[]}"#, "ag-ui-snake"),
            ("no JSON", "ag-ui-0"),
        ];
        for (body, dialect) in rows {
            let found = detect_request(body);
            assert_eq!(found.peer.dialect.name, dialect, "{body}: {}", found.evidence);
        }
        let stored = r#"{"messages":[{"id":"1","role":"assistant","content":"{\"output\":{\"type\":\"text\",\"content\":\"a\"}}{\"output\":{\"type\":\"text\",\"content\":\"b\"}}"}]}"#;
        assert_eq!(detect_request(stored).peer.text_format, TextFormat::Blocks);
    }
}
