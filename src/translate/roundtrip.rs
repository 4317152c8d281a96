//! There and back again: whether a recorded stream or request survives a translation (`translation.md` §2, law L2).
//!
//! Dialect A → B → A gives what there was, up to the normal form of A: members may be added, none may go or change; the order
//! of keys does not count, and every digit does. Events may be added where a dialect supplies them (a start, what opens, what
//! closes, an error at the end). What is left out on purpose is told apart from what is missing.

use super::report::{Loss, Repair, Report};
use super::request::{self, Refused};
use super::{Ids, Stream, carry};
use crate::codec::json;
use crate::codec::sse::{Decoder, Limits, Step};
use crate::dialect::{Dialect, Home, Side};
use crate::event::run::{Item, Move};
use crate::event::{Field, Json, Key, Kind, Members, Type};

/// Most added events that are looked over for the one that an event became.
const LOOKAHEAD: usize = 256;

/// Most differences that are gathered.
const DIFFERENCES_LIMIT: usize = 1_000;

/// A stream on its way there and back.
#[derive(Debug)]
pub struct Roundtrip {
    dialect: &'static Dialect,
    there: Stream,
    back: Stream,
    said: Vec<Said>,
    heard: Vec<String>,
}

/// One event that went out, and what became of it on the way there.
#[derive(Debug)]
struct Said {
    data: String,
    repairs: Vec<Repair>,
    losses: Vec<Loss>,
    /// how many events had come back when it had gone the whole way
    until: usize,
}

/// What came of a round trip.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// events that went out
    pub events: usize,
    /// types of the events that were added
    pub added: Vec<String>,
    /// events that were left out on purpose: their position from 0 on, and why
    pub losses: Vec<(usize, Loss)>,
    /// what went or changed
    pub differences: Vec<Difference>,
}

/// One member that went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// position of the event, from 0 on
    pub event: usize,
    /// JSON Pointer to the member; empty for the event as a whole
    pub path: String,
    /// what it was, JSON
    pub before: String,
    /// what it is, JSON; `None` when it is gone
    pub after: Option<String>,
    /// what was mended on the event, and may be the reason
    pub repairs: Vec<Repair>,
}

impl Roundtrip {
    /// A round trip from the dialect of `from` through that of `to`.
    #[must_use]
    pub fn new(from: Side, to: Side, ids: Option<Ids>) -> Self {
        Roundtrip {
            dialect: from.dialect,
            there: Stream::new(from, to, ids, Limits::default()),
            back: Stream::new(to, from, None, Limits::default()),
            said: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// The next event.
    pub fn event(&mut self, data: &str) {
        let (before, over) = (self.there.report().clone(), self.there.ending().is_some());
        let mut out = Vec::new();
        // Nothing is strict here.
        let _ = self.there.push_event(data, 0, &mut out);
        let (repairs, mut losses) = since(&before, self.there.report());
        // One that is held is counted later.
        if over && losses.is_empty() {
            losses.push(Loss::AfterTerminal);
        }
        self.return_home(&out);
        self.said.push(Said { data: data.to_owned(), repairs, losses, until: self.heard.len() });
    }

    /// Ends both ways and compares.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let mut out = Vec::new();
        // A recording that breaks off is compared as far as it goes.
        let _ = self.there.finish(0, &mut out);
        self.return_home(&out);
        let mut out = Vec::new();
        let _ = self.back.finish(0, &mut out);
        self.heard.extend(frames(&out));
        self.compare()
    }

    fn return_home(&mut self, frames_of_b: &[u8]) {
        for frame in frames(frames_of_b) {
            let mut out = Vec::new();
            let _ = self.back.push_event(&frame, 0, &mut out);
            self.heard.extend(frames(&out));
        }
    }

    fn compare(self) -> Outcome {
        let mut outcome = Outcome { events: self.said.len(), ..Outcome::default() };
        let mut heard = 0;
        for (event, said) in self.said.iter().enumerate() {
            outcome.losses.extend(said.losses.iter().map(|loss| (event, *loss)));
            // Members that must not leave are left out of an event that does.
            if said.losses.iter().any(|loss| *loss != Loss::Stripped) {
                continue;
            }
            let note = |(path, before, after)| Difference { event, path, before, after, repairs: said.repairs.clone() };
            let rest: Vec<&str> = self.heard[heard..].iter().take(LOOKAHEAD).map(String::as_str).collect();
            let own = said.until.saturating_sub(heard);
            match self.find(&said.data, &rest) {
                Some((skipped, differences)) => {
                    outcome.differences.extend(differences.into_iter().map(note));
                    outcome.added.extend(rest[..skipped].iter().map(|event| type_of(event)));
                    heard += skipped + 1;
                }
                // What came back in its place is something else.
                None => {
                    let instead = rest.first().filter(|_| own > 0).map(|event| (*event).to_owned());
                    outcome.differences.push(note((String::new(), shown(&said.data), instead)));
                    heard += own;
                }
            }
            outcome.differences.truncate(DIFFERENCES_LIMIT);
        }
        outcome.added.extend(self.heard[heard..].iter().map(|event| type_of(event)));
        outcome
    }

    /// The event among `heard` that `said` became: the first that says all of it, else the first of its type, before which
    /// nothing stands but what a dialect supplies.
    fn find(&self, said: &str, heard: &[&str]) -> Option<(usize, Vec<Change>)> {
        let open = heard.iter().take_while(|event| self.is_supplied(event)).count();
        let reach = &heard[..heard.len().min(open + 1)];
        let mut alike = None;
        for (at, event) in reach.iter().enumerate() {
            if type_of(said) != type_of(event) {
                continue;
            }
            let mut changes = compare(said, event, self.dialect.home);
            changes.retain(|(path, _, after)| after.is_some() || !self.is_stripped(path));
            if changes.is_empty() {
                return Some((at, changes));
            }
            alike = alike.or(Some((at, changes)));
        }
        alike
    }

    /// Whether a member is one that must not leave the gateway.
    fn is_stripped(&self, path: &str) -> bool {
        path.rsplit('/').next().is_some_and(|name| self.dialect.strip.contains(&name))
    }

    /// Whether an event is one that a dialect supplies where it is missing.
    fn is_supplied(&self, event: &str) -> bool {
        let wire = type_of(event);
        let row = self.dialect.row(&wire).map(|(_, row)| row.kind);
        row.or_else(|| Kind::from_wire(&wire)).is_some_and(|kind| {
            matches!(kind, Kind::RunStarted | Kind::RunError)
                || matches!(Item::touched_by(kind), Some((_, Move::Open | Move::Close, _)))
        })
    }
}

/// Sends a request there and back.
///
/// # Errors
/// When it is no request, or not even what became of it is.
pub fn request(body: &[u8], from: Side, to: Side, fresh: &Ids) -> Result<Outcome, Refused> {
    let there = request::translate(body, from, to, fresh)?;
    let back = request::translate(there.body.as_bytes(), to, from, fresh)?;
    let before = String::from_utf8_lossy(body);
    let changes = compare(before.trim(), &back.body, from.dialect.home).into_iter();
    let note = |(path, before, after)| Difference { event: 0, path, before, after, repairs: Vec::new() };
    // "Whole nulls say nothing; the real client drops them too before it sends."
    let said = changes.filter(|(_, before, after)| before != Json::NULL.as_str() || after.is_some());
    Ok(Outcome { events: 1, differences: said.map(note).take(DIFFERENCES_LIMIT).collect(), ..Outcome::default() })
}

fn since(before: &Report, after: &Report) -> (Vec<Repair>, Vec<Loss>) {
    let repairs = Repair::ALL.iter().filter(|one| after.repairs[**one as usize] > before.repairs[**one as usize]);
    let losses = Loss::ALL.iter().filter(|one| after.losses[**one as usize] > before.losses[**one as usize]);
    (repairs.copied().collect(), losses.copied().collect())
}

fn frames(bytes: &[u8]) -> Vec<String> {
    let (mut decoder, mut rest, mut found) = (Decoder::default(), bytes, Vec::new());
    while let Step::Frame(frame) = decoder.next(&mut rest) {
        found.push(frame.data.into_owned());
    }
    found
}

/// A frame as JSON.
fn shown(frame: &str) -> String {
    json::value(frame).map_or_else(|| Json::string(frame), Json::into_owned).as_str().to_owned()
}

fn type_of(data: &str) -> String {
    let kind = json::object(data).ok().and_then(|object| object.kind);
    kind.as_ref().and_then(Json::text).unwrap_or_default().into_owned()
}

/// A path, what stood there, and what stands there now.
type Change = (String, String, Option<String>);

/// Whether an object may have more members than it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// metadata, and what it holds for a dialect
    Metadata,
    /// values of applications
    None,
}

/// What of `before` is not in `after`. Both are events or both are requests.
fn compare(before: &str, after: &str, home: Home) -> Vec<Change> {
    let mut changes = Vec::new();
    object(&mut String::new(), &Json::trusted(before), &Json::trusted(after), home, &mut changes);
    changes
}

fn object(path: &mut String, before: &Json<'_>, after: &Json<'_>, home: Home, out: &mut Vec<Change>) {
    let (Some(said), Some(heard)) = (json::message(before), json::message(after)) else {
        return value(path, before, Some(after), Room::None, out);
    };
    for (key, old) in &said {
        let new = heard.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        inside(path, name(key), |path| match key {
            // Said by whoever writes.
            Key::Known(Field::ProtocolVersion) => {}
            Key::Known(Field::Messages) => list(path, old, new, home, out),
            key => {
                let room = if *key == Key::Known(Field::Metadata) { Room::Metadata } else { Room::None };
                // What is ours in the home of carried material was added.
                if home.place().is_none_or(|(name, _)| !carry::is_named(key, name)) {
                    return value(path, old, new, room, out);
                }
                let before = carry::unwrap(old, home);
                if before.own.as_ref() != Some(old) {
                    // An earlier hop left it there.
                    return value(path, old, new, Room::Metadata, out);
                }
                let own = new.and_then(|new| carry::unwrap(new, home).own);
                value(path, old, own.as_ref(), room, out);
            }
        });
    }
}

fn list(path: &mut String, before: &Json<'_>, after: Option<&Json<'_>>, home: Home, out: &mut Vec<Change>) {
    let lists = json::elements(before).zip(after.and_then(json::elements));
    match lists.filter(|(before, after)| before.len() == after.len()) {
        Some((before, after)) => {
            for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                inside(path, &at.to_string(), |path| object(path, before, after, home, out));
            }
        }
        None => value(path, before, after, Room::None, out),
    }
}

fn value(path: &mut String, before: &Json<'_>, after: Option<&Json<'_>>, room: Room, out: &mut Vec<Change>) {
    let Some(after) = after else {
        return out.push((path.clone(), before.as_str().to_owned(), None));
    };
    if before.same(after) {
        return;
    }
    match (before.shape(), after.shape()) {
        (Type::Object, Type::Object) => {
            if let (Some(old), Some(new)) = (json::members(before), json::members(after)) {
                return members(path, &old, &new, room, out);
            }
        }
        (Type::Array, Type::Array) => {
            let lists = json::elements(before).zip(json::elements(after));
            if let Some((old, new)) = lists.filter(|(old, new)| old.len() == new.len()) {
                for (at, (old, new)) in old.iter().zip(&new).enumerate() {
                    inside(path, &at.to_string(), |path| value(path, old, Some(new), Room::None, out));
                }
                return;
            }
        }
        _ => {}
    }
    out.push((path.clone(), before.as_str().to_owned(), Some(after.as_str().to_owned())));
}

fn members(path: &mut String, old: &Members<'_>, new: &Members<'_>, room: Room, out: &mut Vec<Change>) {
    let added = new.iter().any(|(key, _)| old.iter().all(|(own, _)| own != key));
    if added && room == Room::None {
        let [before, after] = [old, new].map(|all| json::to_object(all).as_str().to_owned());
        return out.push((path.clone(), before, Some(after)));
    }
    for (key, value_before) in old {
        let value_after = new.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        inside(path, name(key), |path| value(path, value_before, value_after, room, out));
    }
}

fn name<'k>(key: &'k Key<'_>) -> &'k str {
    match key {
        Key::Known(field) => field.camel(),
        Key::Other(name) => name,
    }
}

/// Does something one step deeper; a step is escaped as in RFC 6901.
fn inside(path: &mut String, step: &str, then: impl FnOnce(&mut String)) {
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
    fn what_may_differ_and_what_may_not() {
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
            let changes = compare(before, after, Home::Extra);
            let changes: Vec<_> = changes.iter().map(|(path, _, after)| (path.as_str(), after.as_deref())).collect();
            assert_eq!(changes, *expected, "{before} {after}");
        }
    }

    #[test]
    fn a_stream_is_followed_through_what_was_added_and_left_out() {
        let mut trip = Roundtrip::new(Side::new(&HAI), Side::new(&AG_UI), None);
        for event in [
            r#"{"type":"STEP_STARTED","stepName":"a","x":1.0}"#,
            r#"{"type":"STEP_FINISHED","stepName":"b"}"#,
            "[DONE]",
            r#"{"type":"CUSTOM","name":"n","value":[1.10],"timestamp":"soon"}"#,
            r#"{"type":"RUN_FINISHED","messageId":"m","role":"assistant"}"#,
        ] {
            trip.event(event);
        }
        let Outcome { events, added, losses, differences } = trip.finish();
        assert_eq!((events, added), (5, vec!["RUN_STARTED".to_owned(), "STEP_FINISHED".to_owned()]));
        assert_eq!(losses, [(1, Loss::StrayBoundary), (2, Loss::DoneMarker)]);
        let found: Vec<_> = differences.iter().map(|one| (one.event, one.path.as_str(), one.before.as_str())).collect();
        assert_eq!(found, [(3, "/timestamp", "\"soon\"")], "{differences:?}");
    }
}
