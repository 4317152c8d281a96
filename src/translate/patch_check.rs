//! Finds patches that do not fit what a client holds.
//!
//! "STATE_DELTA = RFC 6902 via fast-json-patch, atomic; failure ⇒ console.warn, state unchanged; baseline =
//! input.state" (`specs/ag-ui-1.0.md` §3.4): nobody but the client's developer sees that.
//!
//! The state is known from the request or a snapshot, the content of an activity from its snapshot. Before that, and
//! where a patch costs too much or clients may differ, nothing is known, and nothing is found.

use crate::codec::json;
use crate::dialect::patched_json::{PatchNotApplied, PatchedJson, RefusedOperation};
use crate::event::{Event, EventType, Field, Json, Members, get};
use std::collections::VecDeque;
use std::fmt;

/// Bytes of all documents that are followed. A patch can add eight times its own.
const MAX_DOCUMENTS: usize = 4 << 20;
const GROWTH_PER_BYTE: usize = 9;

/// Activities that are followed, the latest.
const MAX_ACTIVITIES: usize = 16;

/// Characters of the agent's words that a finding quotes.
const SHOWN_CHARACTERS: usize = 100;

/// The role of a message that is an activity.
const ACTIVITY: &str = "activity";

/// A patch that does not fit: its operation, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnfitPatch {
    /// the member that has the patch
    pub(crate) field: Field,
    pub(crate) operation: String,
    /// of what is missing: that of `from`, if nothing is there
    pub(crate) path: String,
}

impl fmt::Display for UnfitPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnfitPatch { field, operation, path } = self;
        match field {
            Field::Delta => write!(f, "`{operation}` of `{path}` does not fit the state that the client holds"),
            _ => write!(f, "`{operation}` of `{path}` does not fit the content of the activity that the client holds"),
        }
    }
}

/// Documents of a client, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatchChecker {
    state: Option<ClientDocument>,
    /// by the ids of their messages
    activities: VecDeque<(String, ClientDocument)>,
}

#[derive(Clone, Debug)]
struct ClientDocument {
    content: PatchedJson,
    /// bytes, at most
    size: usize,
}

impl PatchChecker {
    /// Begins with the state that the client has sent, if that is known.
    pub(crate) fn new(state: Option<&Json<'_>>) -> PatchChecker {
        PatchChecker { state: state.and_then(ClientDocument::new), activities: VecDeque::new() }
    }

    /// Takes the next event for the client. Returns its patch, if that does not fit.
    pub(crate) fn check(&mut self, event: &Event<'_>) -> Option<UnfitPatch> {
        let found = self.apply(event);
        self.bound_size();
        found
    }

    fn apply(&mut self, event: &Event<'_>) -> Option<UnfitPatch> {
        match event.kind {
            EventType::StateSnapshot => self.state = event.get(Field::Snapshot).and_then(ClientDocument::new),
            EventType::StateDelta => {
                return ClientDocument::apply(&mut self.state, Field::Delta, event.get(Field::Delta)?);
            }
            EventType::ActivitySnapshot => {
                let id = event.get(Field::MessageId)?.text()?;
                let is_added = event.get(Field::Replace).is_some_and(|replace| replace.as_str() == "false");
                let known = self.take_activity(&id);
                let content = || event.get(Field::Content).and_then(ClientDocument::new);
                // A client may hold one that is not followed, such as an earlier run's, and keeps that.
                self.keep_activity(&id, if is_added { known } else { content() });
            }
            EventType::ActivityDelta => {
                let id = event.get(Field::MessageId)?.text()?;
                let mut content = self.take_activity(&id);
                let found = ClientDocument::apply(&mut content, Field::Patch, event.get(Field::Patch)?);
                self.keep_activity(&id, content);
                return found;
            }
            EventType::MessagesSnapshot => self.replace_activities(event),
            _ => {}
        }
        None
    }

    /// "Local activity stays unless the snapshot carries any activity" (§3.4).
    fn replace_activities(&mut self, snapshot: &Event<'_>) {
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let messages: Vec<_> = list.iter().filter_map(json::parse_message).collect();
        let is_activity = |message: &&Members<'_>| get(message, Field::Role).is_some_and(|role| role.is_str(ACTIVITY));
        let activities: Vec<_> = messages.iter().filter(is_activity).collect();
        if !activities.is_empty() {
            self.activities.clear();
        }
        for message in activities {
            let Some(id) = get(message, Field::Id).and_then(Json::text) else { continue };
            self.keep_activity(&id, get(message, Field::Content).and_then(ClientDocument::new));
        }
    }

    fn size(&self) -> usize {
        self.state.iter().chain(self.activities.iter().map(|(_, content)| content)).map(|document| document.size).sum()
    }

    /// Forgets documents that are too large together, the oldest activities first.
    fn bound_size(&mut self) {
        if self.size() <= MAX_DOCUMENTS {
            return;
        }
        self.state.iter_mut().for_each(ClientDocument::measure);
        self.activities.iter_mut().for_each(|(_, content)| content.measure());
        while self.size() > MAX_DOCUMENTS / 2 && self.activities.pop_front().is_some() {}
        self.state.take_if(|state| state.size > MAX_DOCUMENTS / 2);
    }

    fn take_activity(&mut self, id: &str) -> Option<ClientDocument> {
        let at = self.activities.iter().position(|(own, _)| own == id)?;
        self.activities.remove(at).map(|(_, content)| content)
    }

    fn keep_activity(&mut self, id: &str, content: Option<ClientDocument>) {
        let Some(content) = content.filter(|_| id.len() <= SHOWN_CHARACTERS) else { return };
        if self.activities.len() == MAX_ACTIVITIES {
            self.activities.pop_front();
        }
        self.activities.push_back((id.to_owned(), content));
    }
}

impl ClientDocument {
    /// Returns `None` for a document that is too large.
    fn new(value: &Json<'_>) -> Option<ClientDocument> {
        let size = value.as_str().len();
        (size <= MAX_DOCUMENTS).then(|| ClientDocument { content: PatchedJson::new(value), size })
    }

    /// Applies a patch to a document that may be known, and forgets it where the client may hold another one then.
    fn apply(document: &mut Option<ClientDocument>, field: Field, patch: &Json<'_>) -> Option<UnfitPatch> {
        let known = document.as_mut()?;
        known.size += patch.as_str().len() * GROWTH_PER_BYTE;
        let applied = known.content.apply(patch);
        let unfit = match applied {
            Err(PatchNotApplied::Refused(refused)) => UnfitPatch::new(field, patch, refused),
            Err(PatchNotApplied::TooCostly) | Ok(()) => None,
        };
        if applied.is_err() && unfit.is_none() {
            *document = None;
        }
        unfit
    }

    fn measure(&mut self) {
        self.size = self.content.heap_size();
    }
}

impl UnfitPatch {
    /// Returns `None` for an operation with which clients differ.
    fn new(field: Field, patch: &Json<'_>, refused: RefusedOperation) -> Option<UnfitPatch> {
        let operations = json::parse_elements(patch)?;
        let operation = operations.get(refused.index)?;
        let member = |name| Some(json::parse_member(operation, name)?.text()?.into_owned());
        let (name, path, from) = (member("op")?, member("path")?, member("from"));
        let has_doubtful_name = |path: &String| path.contains("prototype");
        let is_doubtful = match (name.as_str(), &from) {
            // Some take the second name for one of JavaScript.
            _ if has_doubtful_name(&path) || from.as_ref().is_some_and(has_doubtful_name) => true,
            // Some remove the whole document.
            ("remove", _) => path.is_empty(),
            // To itself, which changes nothing, or into itself, where some move the rest of an array first.
            ("move", Some(from))
                if path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) =>
            {
                true
            }
            ("add" | "copy" | "move" | "test", _) => has_lenient_index(&path),
            _ => false,
        };
        let missing = from.filter(|_| refused.lacks_source).unwrap_or(path);
        let shorten = |text: String| text.chars().take(SHOWN_CHARACTERS).collect();
        (!is_doubtful).then(|| UnfitPatch { field, operation: shorten(name), path: shorten(missing) })
    }
}

/// Returns whether a pointer ends with what `fast-json-patch` alone takes for an index: any digits, and none for 0.
fn has_lenient_index(path: &str) -> bool {
    let Some((_, last)) = path.rsplit_once('/') else { return false };
    last.bytes().all(|byte| byte.is_ascii_digit()) && (last.is_empty() || (last.starts_with('0') && last.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_all(state: Option<&str>, events: &[&str]) -> Vec<String> {
        let mut checker = PatchChecker::new(state.map(Json::from_trusted).as_ref());
        let found = events.iter().map(|text| {
            let object = json::parse_object(text).expect("an event");
            let kind = object.kind.as_ref().and_then(Json::text).and_then(|kind| EventType::from_wire(&kind));
            let event = Event { kind: kind.expect("a known type"), members: object.members, source: None };
            checker.check(&event).map_or_else(String::new, |unfit| unfit.to_string())
        });
        found.collect()
    }

    /// "failure ⇒ console.warn, state unchanged; baseline = input.state" (§3.4).
    #[test]
    fn finds_the_operation_that_does_not_fit_the_state() {
        const SNAPSHOT: &str = r#"{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}"#;
        const REPLACE: &str = r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/c","value":1},{"op":"replace","path":"/b/c","value":2}]}"#;
        const ADD: &str = r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":{"c":1}}]}"#;
        let unfit = "`replace` of `/b/c` does not fit the state that the client holds";
        for (state, events, expected) in [
            // The state before the stream is not known.
            (None, &[REPLACE][..], &[""][..]),
            (Some("{}"), &[REPLACE], &[unfit]),
            (Some(r#"{"b":{"c":0}}"#), &[REPLACE], &[""]),
            (None, &[SNAPSHOT, REPLACE, ADD, REPLACE], &["", unfit, "", ""]),
            // Nothing of the refused patch is left: `/c` is not there.
            (
                Some("{}"),
                &[REPLACE, r#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/c"}]}"#],
                &[unfit, "`remove` of `/c` does not fit the state that the client holds"],
            ),
        ] {
            assert_eq!(find_all(state, events), expected, "{state:?} {events:?}");
        }
    }

    /// As `fast-json-patch` 3.1.1 does with `validate`.
    #[test]
    fn finds_nothing_where_clients_differ() {
        for (operation, expected) in [
            (r#""op":"remove","path":"""#, None),
            (r#""op":"move","from":"/o/k","path":"/o/k""#, None),
            (r#""op":"move","from":"/a/0","path":"/a/0/k""#, None),
            (r#""op":"add","path":"/a/01","value":1"#, None),
            (r#""op":"add","path":"/a/","value":1"#, None),
            (r#""op":"copy","from":"/o","path":"/a/01""#, None),
            (r#""op":"test","path":"/a/00","value":{}"#, None),
            (r#""op":"copy","from":"/a/00","path":"/b""#, Some("`copy` of `/a/00`")),
            (r#""op":"remove","path":"/a/00""#, Some("`remove` of `/a/00`")),
            (r#""op":"replace","path":"/a/","value":1"#, Some("`replace` of `/a/`")),
            (r#""op":"add","path":"/a/00/k","value":1"#, Some("`add` of `/a/00/k`")),
            (r#""op":"add","path":"/a/10","value":1"#, Some("`add` of `/a/10`")),
            // Names what is missing.
            (r#""op":"copy","from":"/c","path":"/b""#, Some("`copy` of `/c`")),
            (r#""op":"move","from":"/o","path":"/ol/k""#, Some("`move` of `/ol/k`")),
            (r#""op":"move","from":"/c","path":"/b/k""#, Some("`move` of `/c`")),
        ] {
            let delta = format!(r#"{{"type":"STATE_DELTA","delta":[{{{operation}}}]}}"#);
            let expected = expected
                .map_or_else(String::new, |found| format!("{found} does not fit the state that the client holds"));
            assert_eq!(find_all(Some(r#"{"a":[{},{}],"o":{"k":1}}"#), &[&delta]), [expected], "{operation}");
        }
    }

    #[test]
    fn finds_patches_of_activities_whose_content_is_known() {
        const SHOWN: &str = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"p","content":{"a":[]}}"#;
        const ADDED: &str =
            r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"p","content":{},"replace":false}"#;
        const CHANGE: &str = r#"{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"p","patch":[{"op":"add","path":"/a/0","value":1}]}"#;
        const LIST: &str = r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"x"}]}"#;
        const OWN: &str =
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"activity","activityType":"p","content":{}}]}"#;
        const OTHER: &str =
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"n","role":"activity","activityType":"p","content":{}}]}"#;
        let unfit = "`add` of `/a/0` does not fit the content of the activity that the client holds";
        for (events, expected) in [
            (&[CHANGE][..], &[""][..]),
            (&[SHOWN, ADDED, LIST, CHANGE], &["", "", "", ""]),
            // The client may hold an earlier run's.
            (&[ADDED, CHANGE], &["", ""]),
            (&[ADDED, OWN, CHANGE], &["", "", unfit]),
            (&[SHOWN, OWN, CHANGE], &["", "", unfit]),
            (&[SHOWN, OTHER, CHANGE], &["", "", ""]),
        ] {
            assert_eq!(find_all(None, events), expected, "{events:?}");
        }
    }

    #[test]
    fn forgets_what_is_too_large() {
        const REMOVE: &str = r#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/none"}]}"#;
        let unfit = "`remove` of `/none` does not fit the state that the client holds";
        let large = format!("[{}0]", "0,".repeat(MAX_DOCUMENTS / 2));
        assert_eq!(find_all(Some(&large), &[REMOVE]), [""]);
        let add = |name: &str, size| {
            let value = "x".repeat(size);
            format!(r#"{{"type":"STATE_DELTA","delta":[{{"op":"add","path":"/{name}","value":"{value}"}}]}}"#)
        };
        // Its own size counts, not that of all patches.
        let (same, other) = (add("a", MAX_DOCUMENTS / 4), add("b", MAX_DOCUMENTS / 2));
        assert_eq!(find_all(Some(r#"{"a":0}"#), &[&same, &same, &same, REMOVE]), ["", "", "", unfit]);
        assert_eq!(find_all(Some(r#"{"a":0}"#), &[&same, &other, REMOVE]), ["", "", ""]);
    }

    #[test]
    fn forgets_the_oldest_activities_of_many_large_ones() {
        let events = |id: usize, content: &str| {
            [
                format!(r#"{{"type":"ACTIVITY_SNAPSHOT","messageId":"{id}","activityType":"p","content":{content}}}"#),
                format!(
                    r#"{{"type":"ACTIVITY_DELTA","messageId":"{id}","activityType":"p","patch":[{{"op":"remove","path":"/none"}}]}}"#
                ),
            ]
        };
        let content = format!("[\"{}\"]", "x".repeat(MAX_DOCUMENTS / 4));
        let (shown, changes): (Vec<_>, Vec<_>) =
            (0..6).map(|id| <(String, String)>::from(events(id, &content))).unzip();
        let all: Vec<_> = shown.iter().chain(&changes).map(String::as_str).collect();
        let found: Vec<_> = find_all(Some("{}"), &all).into_iter().map(|found| !found.is_empty()).collect();
        // With the fourth, only that one is left.
        assert_eq!(found[6..], [false, false, false, true, true, true]);
    }
}
