//! Checks whether a recorded stream or request survives a translation (`translation.md` §2, law L2).
//!
//! Dialect A → B → A restores the original in A's normal form: members may be added, but not removed or changed. Key
//! order does not matter, but every digit does. Events may be added where a dialect requires them (a start, an end, a
//! final error). Deliberate losses are reported separately from missing data.

use super::report::TranslationReport;
use super::request;
use super::request_refusal::RequestRefusal;
use super::{RunIds, Stream, carry};
use crate::codec::json;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::dialect::{CarryLocation, Dialect, PeerDialect};
use crate::event::run::{ItemAction, RunItem};
use crate::event::{EventLoss, EventRepair, EventType, Field, Json, JsonType, MemberKey, Members, find_member};

/// Maximum number of events skipped to find a match.
const LOOKAHEAD: usize = 256;

const DIFFERENCES_LIMIT: usize = 1_000;

/// Returns true for an event that only the dialect needs: reading it back yields no event.
fn is_placeholder(location: CarryLocation, event: &str) -> bool {
    let Some((place, _)) = location.carry_member() else { return false };
    let members = json::parse_open_object(event).map(|object| object.members).unwrap_or_default();
    let held = find_member(&members, place);
    held.is_some_and(|held| carry::unwrap_canonical(held, location).canonical_type.as_deref() == Some(""))
}

/// Translates a stream into another dialect and back.
#[derive(Debug)]
pub struct RoundTrip {
    dialect: &'static Dialect,
    forward: Stream,
    backward: Stream,
    sent: Vec<SentEvent>,
    returned: Vec<String>,
}

#[derive(Debug)]
struct SentEvent {
    data: String,
    repairs: Vec<EventRepair>,
    losses: Vec<EventLoss>,
    /// number of returned events
    returned_count: usize,
}

/// The result of a round trip.
#[derive(Clone, Debug, Default)]
pub struct RoundTripOutcome {
    pub(crate) added: Vec<String>,
    /// events dropped on purpose, by position
    pub losses: Vec<(usize, EventLoss)>,
    /// removed or changed members
    pub differences: Vec<RoundTripDifference>,
}

/// A removed or changed member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTripDifference {
    /// position of the event, from 0
    pub event: usize,
    /// JSON Pointer to the member; empty for the event as a whole
    pub path: String,
    /// original JSON value
    pub before: String,
    /// returned JSON value; `None` if it was removed
    pub after: Option<String>,
    /// repairs of the event, which may explain the difference
    pub repairs: Vec<EventRepair>,
}

impl RoundTrip {
    /// Creates a round trip from the dialect of `from` through that of `to`.
    #[must_use]
    pub fn new(from: PeerDialect, to: PeerDialect, ids: Option<RunIds>) -> Self {
        RoundTrip {
            dialect: from.dialect,
            forward: Stream::new(from, to, ids, SseLimits::UNLIMITED),
            backward: Stream::new(to, from, None, SseLimits::UNLIMITED),
            sent: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// Translates the next event there and back.
    pub fn push_event(&mut self, data: &str) {
        let before = self.forward.report().clone();
        let over = self.forward.ending().is_some();
        let mut out = Vec::new();
        // Strict mode does not apply here.
        let _ = self.forward.push_event(data, 0, &mut out);
        let (repairs, mut losses) = counted_since(&before, self.forward.report());
        // A buffered event is counted later.
        if over && losses.is_empty() {
            losses.push(EventLoss::AfterTerminal);
        }
        self.send_back(&out);
        self.sent.push(SentEvent { data: data.to_owned(), repairs, losses, returned_count: self.returned.len() });
    }

    /// Ends both translations and compares the results.
    #[must_use]
    pub fn finish(mut self) -> RoundTripOutcome {
        let mut out = Vec::new();
        // A truncated recording is compared up to its end.
        let _ = self.forward.finish(0, &mut out);
        self.send_back(&out);
        let mut out = Vec::new();
        let _ = self.backward.finish(0, &mut out);
        self.returned.extend(decode_frames(&out));
        self.compare_events()
    }

    fn send_back(&mut self, frames_of_b: &[u8]) {
        for frame in decode_frames(frames_of_b) {
            let mut out = Vec::new();
            let _ = self.backward.push_event(&frame, 0, &mut out);
            let events =
                decode_frames(&out).into_iter().filter(|event| !is_placeholder(self.dialect.carry_location, event));
            self.returned.extend(events);
        }
    }

    fn compare_events(self) -> RoundTripOutcome {
        let mut outcome = RoundTripOutcome::default();
        let mut matched = 0;
        for (event, sent) in self.sent.iter().enumerate() {
            outcome.losses.extend(sent.losses.iter().map(|loss| (event, *loss)));
            // A placeholder may disappear.
            if is_placeholder(self.dialect.carry_location, &sent.data) {
                continue;
            }
            // Stripping removes members, not the event.
            if sent.losses.iter().any(|loss| *loss != EventLoss::Stripped) {
                continue;
            }
            let note = |(path, before, after)| RoundTripDifference {
                event,
                path,
                before,
                after,
                repairs: sent.repairs.clone(),
            };
            let rest: Vec<&str> = self.returned[matched..].iter().take(LOOKAHEAD).map(String::as_str).collect();
            let own = sent.returned_count.saturating_sub(matched);
            match self.find_match(&sent.data, &rest) {
                Some((skipped, differences)) => {
                    outcome.differences.extend(differences.into_iter().map(note));
                    outcome.added.extend(rest[..skipped].iter().map(|event| event_type(event)));
                    matched += skipped + 1;
                }
                // Another event came back instead.
                None => {
                    let instead = rest.first().filter(|_| own > 0).map(|event| (*event).to_owned());
                    outcome.differences.push(note((String::new(), frame_json(&sent.data), instead)));
                    matched += own;
                }
            }
            outcome.differences.truncate(DIFFERENCES_LIMIT);
        }
        outcome.added.extend(self.returned[matched..].iter().map(|event| event_type(event)));
        outcome
    }

    /// Finds the first returned event that contains all of `sent`, or else the first of its type.
    fn find_match(&self, sent: &str, returned: &[&str]) -> Option<(usize, Vec<ValueChange>)> {
        let open = returned.iter().take_while(|event| self.is_supplied(event)).count();
        let reach = &returned[..returned.len().min(open + 1)];
        let mut alike = None;
        for (at, event) in reach.iter().enumerate() {
            if event_type(sent) != event_type(event) {
                continue;
            }
            let mut changes = compare_json(sent, event, self.dialect.carry_location);
            changes.retain(|(path, _, after)| after.is_some() || !self.is_stripped(path));
            if changes.is_empty() {
                return Some((at, changes));
            }
            alike = alike.or(Some((at, changes)));
        }
        alike
    }

    fn is_stripped(&self, path: &str) -> bool {
        path.rsplit('/').next().is_some_and(|name| self.dialect.strip.contains(&name))
    }

    fn is_supplied(&self, event: &str) -> bool {
        let wire = event_type(event);
        let row = self.dialect.row_for_wire(&wire).map(|(_, row)| row.kind);
        row.or_else(|| EventType::from_wire(&wire)).is_some_and(|kind| {
            matches!(kind, EventType::RunStarted | EventType::RunError)
                || matches!(RunItem::action_for(kind), Some((_, ItemAction::Open | ItemAction::Close, _)))
        })
    }
}

pub(crate) fn roundtrip_request(
    body: &[u8],
    from: PeerDialect,
    to: PeerDialect,
    fresh: &RunIds,
) -> Result<RoundTripOutcome, RequestRefusal> {
    let there = request::translate_with_notes(body, from, to, fresh)?;
    let back = request::translate_with_notes(there.as_bytes(), to, from, fresh)?;
    let before = String::from_utf8_lossy(body);
    let changes = compare_json(before.trim(), &back, from.dialect.carry_location).into_iter();
    let note = |(path, before, after)| RoundTripDifference { event: 0, path, before, after, repairs: Vec::new() };
    // "Whole nulls say nothing; the real client drops them too before it sends."
    let shown = changes.filter(|(_, before, after)| before != Json::NULL.as_str() || after.is_some());
    Ok(RoundTripOutcome {
        differences: shown.map(note).take(DIFFERENCES_LIMIT).collect(),
        ..RoundTripOutcome::default()
    })
}

fn counted_since(before: &TranslationReport, after: &TranslationReport) -> (Vec<EventRepair>, Vec<EventLoss>) {
    let repairs = EventRepair::ALL.iter().filter(|one| after.repairs[**one as usize] > before.repairs[**one as usize]);
    let losses = EventLoss::ALL.iter().filter(|one| after.losses[**one as usize] > before.losses[**one as usize]);
    // Carried content comes back.
    let losses = losses.filter(|one| !one.is_carried());
    (repairs.copied().collect(), losses.copied().collect())
}

fn decode_frames(bytes: &[u8]) -> Vec<String> {
    let mut decoder = SseDecoder::new(SseLimits::UNLIMITED);
    let mut rest = bytes;
    let mut found = Vec::new();
    while let SseStep::Frame(frame) = decoder.next(&mut rest) {
        found.push(frame.data.into_owned());
    }
    found
}

fn frame_json(frame: &str) -> String {
    json::parse_value(frame).map_or_else(|| Json::string(frame), Json::into_owned).as_str().to_owned()
}

fn event_type(data: &str) -> String {
    let kind = json::parse_object(data).ok().and_then(|object| object.kind);
    kind.as_ref().and_then(Json::text).unwrap_or_default().into_owned()
}

/// The path, the original value and the new value.
type ValueChange = (String, String, Option<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtraMembers {
    /// additions are allowed: metadata, and dialect content carried in it
    Allowed,
    /// additions are not allowed: application data
    Forbidden,
}

/// Returns the differences between two events or two requests.
fn compare_json(before: &str, after: &str, location: CarryLocation) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    compare_object(&mut String::new(), &Json::from_trusted(before), &Json::from_trusted(after), location, &mut changes);
    changes
}

fn compare_object(
    path: &mut String,
    before: &Json<'_>,
    after: &Json<'_>,
    location: CarryLocation,
    out: &mut Vec<ValueChange>,
) {
    let (Some(sent), Some(returned)) = (json::parse_message(before), json::parse_message(after)) else {
        return compare_value(path, before, Some(after), ExtraMembers::Forbidden, out);
    };
    for (key, old) in &sent {
        let new = returned.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        at_step(path, key.name(), |path| match key {
            // Each writer declares its own.
            MemberKey::Known(Field::ProtocolVersion) => {}
            MemberKey::Known(Field::Messages) => compare_list(path, old, new, location, out),
            key => {
                let room = if *key == MemberKey::Known(Field::Metadata) {
                    ExtraMembers::Allowed
                } else {
                    ExtraMembers::Forbidden
                };
                // The gateway's own entries in the carried members are additions.
                if location.carry_member().is_none_or(|(name, _)| !carry::is_named(key, name)) {
                    return compare_value(path, old, new, room, out);
                }
                let before = carry::unwrap_canonical(old, location);
                if before.rest.as_ref() != Some(old) {
                    // An earlier hop left this entry.
                    return compare_value(path, old, new, ExtraMembers::Allowed, out);
                }
                let own = new.and_then(|new| carry::unwrap_canonical(new, location).rest);
                compare_value(path, old, own.as_ref(), room, out);
            }
        });
    }
}

fn compare_list(
    path: &mut String,
    before: &Json<'_>,
    after: Option<&Json<'_>>,
    location: CarryLocation,
    out: &mut Vec<ValueChange>,
) {
    let lists = json::parse_elements(before).zip(after.and_then(json::parse_elements));
    match lists.filter(|(before, after)| before.len() == after.len()) {
        Some((before, after)) => {
            for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                at_step(path, &at.to_string(), |path| compare_object(path, before, after, location, out));
            }
        }
        None => compare_value(path, before, after, ExtraMembers::Forbidden, out),
    }
}

fn compare_value(
    path: &mut String,
    before: &Json<'_>,
    after: Option<&Json<'_>>,
    room: ExtraMembers,
    out: &mut Vec<ValueChange>,
) {
    let Some(after) = after else {
        return out.push((path.clone(), before.as_str().to_owned(), None));
    };
    if before.is_same(after) {
        return;
    }
    match (before.json_type(), after.json_type()) {
        (JsonType::Object, JsonType::Object) => {
            if let (Some(old), Some(new)) = (json::parse_members(before), json::parse_members(after)) {
                return compare_members(path, &old, &new, room, out);
            }
        }
        (JsonType::Array, JsonType::Array) => {
            let lists = json::parse_elements(before).zip(json::parse_elements(after));
            if let Some((old, new)) = lists.filter(|(old, new)| old.len() == new.len()) {
                for (at, (old, new)) in old.iter().zip(&new).enumerate() {
                    at_step(path, &at.to_string(), |path| {
                        compare_value(path, old, Some(new), ExtraMembers::Forbidden, out);
                    });
                }
                return;
            }
        }
        _ => {}
    }
    out.push((path.clone(), before.as_str().to_owned(), Some(after.as_str().to_owned())));
}

fn compare_members(
    path: &mut String,
    old: &Members<'_>,
    new: &Members<'_>,
    room: ExtraMembers,
    out: &mut Vec<ValueChange>,
) {
    let added = new.iter().any(|(key, _)| old.iter().all(|(own, _)| own != key));
    if added && room == ExtraMembers::Forbidden {
        let [before, after] = [old, new].map(|all| json::to_object(all).as_str().to_owned());
        return out.push((path.clone(), before, Some(after)));
    }
    for (key, value_before) in old {
        let value_after = new.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        at_step(path, key.name(), |path| compare_value(path, value_before, value_after, room, out));
    }
}

/// Calls `then` with `step` appended to the path, escaped according to RFC 6901.
fn at_step(path: &mut String, step: &str, then: impl FnOnce(&mut String)) {
    let end = path.len();
    path.push('/');
    path.push_str(&step.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};

    #[test]
    fn reports_only_differences_that_matter() {
        type Row<'r> = (&'r str, &'r str, &'r [(&'r str, Option<&'r str>)]);
        let rows: &[Row<'_>] = &[
            (
                r#"{"type":"X","a":{"b":[1,{}],"c":"\u4f60"}}"#,
                r#"{"new":1,"a":{"c":"你","b":[1, {}]},"type":"X"}"#,
                &[],
            ),
            (r#"{"a":1.10}"#, r#"{"a":1.1}"#, &[("/a", Some("1.1"))]),
            (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, &[("/a", Some("9007199254740992"))]),
            (r#"{"a":{"b/c":[1,2]}}"#, r#"{"a":{"b/c":[1,3]}}"#, &[("/a/b~1c/1", Some("3"))]),
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1,"c":2}}"#, &[("/a", Some(r#"{"b":1,"c":2}"#))]),
            (r#"{"a":null,"b":1}"#, r#"{"b":1}"#, &[("/a", None)]),
            (r#"{"run_id":"r"}"#, r#"{"runId":"r"}"#, &[]),
            (r#"{"metadata":{"a":{"b":1}}}"#, r#"{"metadata":{"a":{"b":1,"$note":2},"hai":{}}}"#, &[]),
            (r#"{"extra":{"k":1}}"#, r#"{"extra":{"k":1,"ag-ui":{"metadata":{}}}}"#, &[]),
            (r#"{"extra":"k"}"#, r#"{"extra":{"ag-ui":{"$extra":"k"}}}"#, &[]),
            (
                r#"{"extra":{"ag-ui":{"a":1}}}"#,
                r#"{"extra":{"ag-ui":{"b":2,"a":2}}}"#,
                &[("/extra/ag-ui/a", Some("2"))],
            ),
            (r#"{"extra":{"k":1}}"#, r#"{"extra":{"ag-ui":{}}}"#, &[("/extra", None)]),
            (r#"{"messages":[{"id":"1"}]}"#, r#"{"messages":[{"id":"1","extra":{"ag-ui":{}}}]}"#, &[]),
            (r#"{"messages":[{"id":"1"}]}"#, r#"{"messages":[{"id":"2"}]}"#, &[("/messages/0/id", Some("\"2\""))]),
            (r#"{"protocolVersion":"0.9"}"#, r#"{"protocolVersion":"1.0"}"#, &[]),
        ];
        for (before, after, expected) in rows {
            let changes = compare_json(before, after, CarryLocation::Extra);
            let changes: Vec<_> = changes.iter().map(|(path, _, after)| (path.as_str(), after.as_deref())).collect();
            assert_eq!(changes, *expected, "{before} {after}");
        }
    }

    #[test]
    fn pairs_events_across_added_and_dropped_ones() {
        let mut trip = RoundTrip::new(PeerDialect::new(&HAI), PeerDialect::new(&AG_UI), None);
        for event in [
            r#"{"type":"STEP_STARTED","stepName":"a","x":1.0}"#,
            r#"{"type":"STEP_FINISHED","stepName":"b"}"#,
            "[DONE]",
            r#"{"type":"CUSTOM","name":"n","value":[1.10],"timestamp":"soon"}"#,
            r#"{"type":"RUN_FINISHED","messageId":"m","role":"assistant"}"#,
        ] {
            trip.push_event(event);
        }
        let RoundTripOutcome { added, losses, differences } = trip.finish();
        assert_eq!(added, ["RUN_STARTED", "STEP_FINISHED"]);
        assert_eq!(losses, [(1, EventLoss::StrayBoundary), (2, EventLoss::DoneMarker)]);
        let found: Vec<_> = differences.iter().map(|one| (one.event, one.path.as_str(), one.before.as_str())).collect();
        assert_eq!(found, [(3, "/timestamp", "\"soon\"")], "{differences:?}");
    }
}
