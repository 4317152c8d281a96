//! Detects the dialect of a stream or request by the signs in the dialect tables and the form of the request.
//!
//! A stream counts as AG-UI until it shows a sign of another dialect: until then both read the same, so no event has to
//! wait.

use crate::codec::json;
use crate::dialect::{
    AG_UI, ALL, DETECTION_RULES, DetectionRule, Dialect, EventPattern, MemberCase, PeerDialect, PeerVersion,
    REQUEST_RULES, UNDETECTED_DIALECT,
};
use crate::event::input::{ASSISTANT, TOOL};
use crate::event::{Field, Json, JsonType, MemberKey, get};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectedDialect {
    pub(crate) peer: PeerDialect,
    pub(crate) evidence: &'static str,
}

/// Number of events whose members are compared; types are compared until a dialect is detected.
const MAX_INSPECTED_EVENTS: u32 = 16;

/// Maximum total size of buffered events in bytes. The first event is buffered regardless of its size.
const MAX_KEPT_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct DialectDetector {
    events: u32,
    is_settled: bool,
    kept_events: Vec<String>,
    kept_bytes: usize,
}

impl DialectDetector {
    /// Returns the first sign of a dialect, and the events buffered before it.
    pub(crate) fn inspect(&mut self, data: &str) -> Option<(&'static DetectionRule, Vec<String>)> {
        if self.is_settled {
            return None;
        }
        self.events += 1;
        // Later, only the type is evidence, and an event without these words need not be parsed.
        let by_type =
            |sign: &DetectionRule| matches!(sign.pattern, EventPattern::TypePrefix(start) if data.contains(start));
        if self.events > MAX_INSPECTED_EVENTS && !DETECTION_RULES.iter().any(by_type) {
            return None;
        }
        let found = matching_signs(data, self.events == 1)
            .next()
            .filter(|sign| self.events <= MAX_INSPECTED_EVENTS || matches!(sign.pattern, EventPattern::TypePrefix(_)));
        self.is_settled = found.is_some();
        if found.is_none()
            && self.events <= MAX_INSPECTED_EVENTS
            && (self.events == 1 || self.kept_bytes + data.len() <= MAX_KEPT_BYTES)
        {
            self.kept_bytes += data.len();
            self.kept_events.push(data.to_owned());
        }
        found.map(|sign| (sign, std::mem::take(&mut self.kept_events)))
    }
}

/// Returns the signs in an event, the decisive one first.
pub(crate) fn matching_signs(data: &str, first: bool) -> impl Iterator<Item = &'static DetectionRule> {
    let members = json::parse_open_object(data).ok();
    let wire = members.as_ref().and_then(|object| Some(object.kind.as_ref()?.text()?.into_owned()));
    let names: Vec<String> =
        members.into_iter().flat_map(|object| object.members).map(|(key, _)| key.name().to_owned()).collect();
    DETECTION_RULES.iter().filter(move |sign| {
        let has = |name: &str| names.iter().any(|own| own == name);
        wire.as_ref().is_some_and(|wire| sign.pattern.matches(wire, &has, first))
    })
}

/// Returns the dialect of an event that has the type `wire`: the one that its signs indicate, or the first with this type.
pub(crate) fn dialect_of_event(wire: &str, data: &str) -> Option<&'static Dialect> {
    let by_sign = matching_signs(data, false).next().map(|sign| sign.dialect);
    let mut candidates = by_sign.into_iter().chain(ALL.iter().copied());
    candidates.find(|dialect| dialect.has_event(wire))
}

/// Detects the dialect of a captured stream: the one with the most signs, or the first seen if several tie.
pub(crate) fn detect_stream<'e>(
    events: impl Iterator<Item = &'e str>,
) -> (DetectedDialect, Vec<(usize, &'static DetectionRule)>) {
    let mut seen: Vec<(usize, &'static DetectionRule)> = Vec::new();
    let events: Vec<&str> = events.collect();
    for (at, data) in events.iter().enumerate() {
        let sign = matching_signs(data, at == 0)
            .next()
            .filter(|sign| seen.iter().all(|(_, other)| other.pattern != sign.pattern));
        seen.extend(sign.map(|sign| (at, sign)));
    }
    let count = |dialect: &Dialect| seen.iter().filter(|(_, sign)| std::ptr::eq(sign.dialect, dialect)).count();
    let best = seen.iter().rev().max_by_key(|(_, sign)| count(sign.dialect));
    let found = match best {
        Some((_, sign)) => DetectedDialect {
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
    let messages = get(&members, Field::Messages).and_then(json::parse_elements).unwrap_or_default();
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
