//! The arguments of open calls, for calls that start again while they are open.
//!
//! Some agents send a start with each piece of a call's arguments, others send the whole call again. Every client adds
//! arguments to the call with their id (`specs/ag-ui-1.0.md` §3.4), so what comes behind the second start decides:
//! ```text
//!   {"a"       START  :1}          ──▶  {"a":1}                           it goes on
//!   {"a":1}    START  {"a":1}      ──▶  {"a":1}                           it repeats the arguments
//!   {"ci       START  {"city":1}   ──▶  {"city":1}                        it repeats them, and goes on
//!   {"a":1}    START  {"a":2}      ──▶  {"a":1} END  START {"a":2}        a call of its own
//!   {"a":      START  {  START  }} ──▶  {"a":{}}                          it goes on
//!   {"a":1     START  ,"a":1}      ──▶  {"a":1}                           objects; the second repeats a member
//!   {"a":1     START  ,"a":2}      ──▶  {"a":1} END  START {"a":2}        a call of its own
//! ```
//! "The names within an object SHOULD be unique" (RFC 8259 §4), so a member that the call has is not added to it again.

use crate::codec::json;
use crate::event::{Event, Field, IdMap, Json, JsonType, Member, Members};
use crate::translate::memory_limits;
use std::collections::BTreeMap;

/// Maximum bytes of arguments that are kept to compare them. A call with more goes on, whatever comes behind its second
/// start.
const TEXTS_LIMIT: usize = 16 << 10;

/// Maximum number of starts of an open call behind which arguments are compared. Without it, the work would grow with
/// the square of the arguments.
const MAX_RESTARTS: u32 = 8;

/// Cost of a call besides its arguments.
const ENTRY_COST: usize = 128;

/// The arguments of the open calls so far.
#[derive(Debug, Default)]
pub(super) struct OpenArguments {
    calls: IdMap<CallArguments>,
    /// the call of the last piece
    last: Option<Json<'static>>,
    /// length of that piece
    last_len: usize,
    /// number of calls that started again
    restarted: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct CallArguments {
    /// with its escapes; `None` over the limit
    text: Option<String>,
    restarts: u32,
    restart: Option<Box<CallRestart>>,
}

/// The second start of an open call, until what follows it differs from the arguments before it.
#[derive(Debug)]
struct CallRestart {
    start: Event<'static>,
    /// bytes of the arguments that were repeated
    repeated: usize,
}

/// The meaning of a piece of arguments for the client's call.
pub(super) enum ArgumentsPiece {
    /// the client has it
    Repeated,
    /// the call goes on with this text
    Continues(Json<'static>),
    /// it is of another call, which has this text so far; the first one's object may be open
    Restarts { start: Event<'static>, is_open: bool, text: Json<'static> },
}

impl OpenArguments {
    pub(super) fn retained_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has_restarts(&self) -> bool {
        self.restarted > 0
    }

    pub(super) fn observe(&mut self, event: &Event<'_>) {
        let (Some(id), Some(delta)) = (event.get(Field::ToolCallId), event.get(Field::Delta)) else { return };
        if !self.calls.contains(id) {
            let id = id.clone().into_owned();
            self.bytes += ENTRY_COST;
            let call = CallArguments { text: Some(String::new()), ..CallArguments::default() };
            self.calls.insert(id, call);
        }
        if self.last.as_ref().is_none_or(|last| last != id) {
            self.last = Some(id.clone().into_owned());
        }
        self.add(delta.unquoted());
    }

    /// Returns the last piece, unless its call is over the limit.
    pub(super) fn last_piece(&self) -> Option<&str> {
        let text = self.calls.get(self.last.as_ref()?)?.text.as_ref()?;
        text.get(text.len().checked_sub(self.last_len)?..)
    }

    /// Adds to the arguments of the call of the last piece. Returns the number of bytes that are kept.
    pub(super) fn add(&mut self, piece: &str) -> usize {
        let call = self.last.as_ref().and_then(|last| self.calls.get_mut(last));
        let Some(CallArguments { text: kept @ Some(_), .. }) = call else { return 0 };
        let Some(text) = kept else { return 0 };
        if self.bytes + piece.len() > TEXTS_LIMIT {
            self.bytes -= text.len();
            *kept = None;
            return 0;
        }
        text.push_str(piece);
        self.last_len = piece.len();
        self.bytes += piece.len();
        piece.len()
    }

    /// Forgets a call that ends. Returns true if no call is left.
    pub(super) fn end(&mut self, end: &Event<'_>) -> bool {
        if let Some(call) = self.calls.remove(end.get(Field::ToolCallId).unwrap_or(&Json::EMPTY_STRING)) {
            self.bytes -= ENTRY_COST + call.text.map_or(0, |text| text.len());
            if let Some(restart) = call.restart {
                self.forget(&restart);
            }
        }
        self.calls.is_empty()
    }

    fn forget(&mut self, restart: &CallRestart) {
        self.restarted -= 1;
        self.bytes -= memory_limits::event_cost(&restart.start);
    }

    /// Keeps the second start of an open call.
    pub(super) fn restart(&mut self, start: Event<'_>) {
        let call = self.calls.get_mut(start.get(Field::ToolCallId).unwrap_or(&Json::EMPTY_STRING));
        let has_text = |call: &&mut CallArguments| call.text.as_ref().is_some_and(|text| !text.is_empty());
        let Some(call) = call.filter(has_text).filter(|call| call.restarts < MAX_RESTARTS) else { return };
        let cost = memory_limits::event_cost(&start);
        if self.bytes + cost > TEXTS_LIMIT {
            return;
        }
        call.restarts += 1;
        self.bytes += cost;
        self.restarted += 1;
        let restart = Box::new(CallRestart { start: start.into_owned(), repeated: 0 });
        if let Some(before) = call.restart.replace(restart) {
            self.forget(&before);
        }
    }

    /// Takes the pieces that were left out as a repetition, if the call goes on instead: its arguments are not whole,
    /// and it starts again, or ends, before it has repeated them.
    pub(super) fn take_left_out(&mut self, id: &Json<'_>) -> Option<Json<'static>> {
        let call = self.calls.get_mut(id)?;
        let (Some(before), Some(restart)) = (&call.text, &mut call.restart) else { return None };
        let repeated = std::mem::take(&mut restart.repeated);
        let goes_on = (1..before.len()).contains(&repeated) && !is_object(before);
        goes_on.then(|| quote(&before[..repeated]))
    }

    /// Compares a piece of a call that started again with the arguments before that.
    pub(super) fn compare(&mut self, event: &Event<'_>) -> Option<ArgumentsPiece> {
        let call = self.calls.get_mut(event.get(Field::ToolCallId)?)?;
        let delta = event.get(Field::Delta).filter(|delta| delta.json_type() == JsonType::String)?;
        let (Some(before), Some(restart)) = (&call.text, &mut call.restart) else { return None };
        let (piece, rest) = (delta.unquoted(), &before[restart.repeated..]);
        if rest.starts_with(piece) {
            restart.repeated += piece.len();
            return Some(ArgumentsPiece::Repeated);
        }
        let members = if restart.repeated == 0 { compare_members(before, piece) } else { None };
        // Later pieces may repeat members, too.
        match &members {
            Some(RepeatedMembers::Left(text)) if text.is_empty() => return Some(ArgumentsPiece::Repeated),
            Some(RepeatedMembers::Left(text)) => return Some(ArgumentsPiece::Continues(Json::string(text))),
            Some(RepeatedMembers::None) => return Some(ArgumentsPiece::Continues(quote(piece))),
            Some(RepeatedMembers::Differ(_)) | None => {}
        }
        let restart = call.restart.take()?;
        self.restarted -= 1;
        self.bytes -= memory_limits::event_cost(&restart.start);
        if let Some(RepeatedMembers::Differ(text)) = &members {
            let text = Json::string(text);
            return Some(ArgumentsPiece::Restarts { start: restart.start, is_open: true, text });
        }
        if let Some(more) = piece.strip_prefix(rest) {
            return Some(ArgumentsPiece::Continues(quote(more)));
        }
        let text = [&before[..restart.repeated], piece].concat();
        let is_apart = is_object(before) || (is_object(&text) && !is_object(&[before, &*text].concat()));
        let text = quote(&text);
        Some(match is_apart {
            true => ArgumentsPiece::Restarts { start: restart.start, is_open: false, text },
            false => ArgumentsPiece::Continues(text),
        })
    }
}

/// A piece that goes on with an open object, and may name members of it again.
enum RepeatedMembers {
    None,
    /// with the same values; this is left of the piece without them
    Left(String),
    /// with other values; this is the piece as the beginning of another object
    Differ(String),
}

fn compare_members(before: &str, piece: &str) -> Option<RepeatedMembers> {
    let (before, piece) = (quote(before), quote(piece));
    let piece = piece.text()?;
    let rest = piece.strip_prefix(',')?;
    let known = format!("{}}}", before.text()?);
    let known = json::parse_value(&known)?;
    let known = json::parse_members(&known)?;
    let (is_open, object) = match format!("{{{rest}") {
        whole if json::parse_value(&whole).is_some() => (false, whole),
        open => (true, open + "}"),
    };
    let object = json::parse_value(&object)?;
    let members = json::parse_members(&object)?;
    let known: BTreeMap<_, _> = known.iter().map(|(key, value)| (key.name(), value.as_str())).collect();
    let value_of = |name: &str| known.get(name).copied();
    let is_repeated = |(key, value): &Member<'_>| value_of(key.name()) == Some(value.as_str());
    let end = if is_open { "" } else { "}" };
    if members.iter().any(|member| value_of(member.0.name()).is_some() && !is_repeated(member)) {
        return Some(RepeatedMembers::Differ(format!("{{{rest}")));
    }
    let left: Members<'_> = members.iter().filter(|member| !is_repeated(member)).cloned().collect();
    if left.len() == members.len() {
        return Some(RepeatedMembers::None);
    }
    let left = json::to_object(&left);
    let inner = left.as_str().strip_prefix('{')?.strip_suffix('}')?;
    let comma = if inner.is_empty() { "" } else { "," };
    Some(RepeatedMembers::Left(format!("{comma}{inner}{end}")))
}

/// Returns the string of escaped text.
fn quote(text: &str) -> Json<'static> {
    Json::from_trusted(format!("\"{text}\""))
}

/// Returns true for escaped text that is a whole JSON object.
fn is_object(text: &str) -> bool {
    let text = quote(text);
    let object = text.text().unwrap_or_default();
    object.trim_start().starts_with('{') && json::parse_value(&object).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    fn call(kind: EventType) -> Event<'static> {
        Event::new(kind).with(Field::ToolCallId, Json::string("c"))
    }

    fn piece(text: &str) -> Event<'static> {
        call(EventType::ToolCallArgs).with(Field::Delta, Json::string(text))
    }

    fn open(text: &str) -> OpenArguments {
        let mut arguments = OpenArguments::default();
        arguments.observe(&piece(text));
        arguments
    }

    #[test]
    fn forgets_what_it_kept_at_the_end() {
        let mut arguments = open("{\"a\":\"\u{1f44d}");
        arguments.restart(call(EventType::ToolCallStart));
        arguments.restart(call(EventType::ToolCallStart));
        assert!(matches!(arguments.compare(&piece("{\"a")), Some(ArgumentsPiece::Repeated)));
        // An id may have escapes.
        let end = Event::new(EventType::ToolCallEnd).with(Field::ToolCallId, Json::from_trusted(r#""\u0063""#));
        assert!(arguments.end(&end));
        assert_eq!((arguments.retained_bytes(), arguments.restarted), (0, 0));
    }

    #[test]
    fn compares_neither_long_arguments_nor_many_starts() {
        let mut arguments = open(&"x".repeat(TEXTS_LIMIT));
        arguments.restart(call(EventType::ToolCallStart));
        assert_eq!(arguments.restarted, 0);
        let mut arguments = open("{\"a\":");
        for _ in 0..2 * MAX_RESTARTS {
            arguments.restart(call(EventType::ToolCallStart));
            let piece = piece("[");
            if let Some(ArgumentsPiece::Continues(_)) = arguments.compare(&piece) {
                arguments.observe(&piece);
            }
        }
        assert_eq!(arguments.calls.get(&Json::string("c")).map(|call| call.restarts), Some(MAX_RESTARTS));
    }
}
