//! The messages that a client has, as the run's frames make them (`specs/ag-ui-1.0.md` §3.4).

use super::entry::{Call, Content, Entry, as_string};
use super::frame::{Kept, merged};
use super::metadata_of;
use super::open::{Open, Opens, What};
use super::patch::Tree;
use crate::codec::json;
use crate::dialect::{ASSISTANT, Home, Side};
use crate::event::input::{ACTIVITY, REASONING};
use crate::event::{Event, Field, Json, Key, Members, Type, get, message_id, owned, remove, set};
use crate::translate::{carry, message, result_id, spell};

/// Role of what a tool gave.
const TOOL: &str = "tool";

/// What the real client keeps of activities when a snapshot comes that has some: those that an earlier run made are not in
/// the requests of their client, so nobody here knows them ("activityHistory" of `@ag-ui/client` 1.0.0; specs §3.4).
pub(super) const SHARED_ACTIVITIES: &str = r#"{"@ag-ui/client":{"authoritativeActivityTypes":[]}}"#;

/// The member that says so, and the one in it.
const HISTORY: [&str; 2] = ["@ag-ui/client", "authoritativeActivityTypes"];

/// The client's list.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    entries: Vec<Entry>,
    /// whether the agent said which messages there are
    replaced: bool,
}

/// The list as a snapshot says it.
pub(super) struct Said {
    pub messages: Json<'static>,
    /// whether there are activities in it, all of which the run made itself
    pub shares_activities: bool,
}

impl List {
    /// What the conversation held before the run.
    pub fn of_input(side: Side, messages: Option<Box<str>>) -> Self {
        let list = messages.map(|messages| Json::trusted(String::from(messages)));
        let elements = list.as_ref().and_then(json::elements).unwrap_or_default();
        let canonical = elements.iter().filter_map(json::message).collect();
        let written = message::write(canonical, side, &message::Carries::Always);
        List { entries: written.into_iter().map(|message| Entry::read(message, side)).collect(), replaced: false }
    }

    fn position(&self, id: &Json<'_>) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.id.same(id))
    }

    /// The first that is called so, as the real client finds it.
    fn entry(&mut self, id: &Json<'_>) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id.same(id))
    }

    fn call(&mut self, id: &Json<'_>) -> Option<(&mut bool, &mut Call)> {
        self.entries.iter_mut().find_map(|entry| {
            let call = entry.calls.iter_mut().flatten().find(|call| call.id.same(id))?;
            Some((&mut entry.settled, call))
        })
    }

    /// Whether something open is still in the list; a snapshot of the agent's may have taken it out.
    pub fn has(&self, open: &Open) -> bool {
        match open.what {
            What::Span => true,
            What::Text | What::Reasoning => self.position(&open.id).is_some(),
            What::Call => {
                self.entries.iter().any(|entry| entry.calls.iter().flatten().any(|call| call.id.same(&open.id)))
            }
        }
    }

    /// "RUN_STARTED.input.messages with unknown ids are appended."
    pub fn echo(&mut self, input: Option<&Json<'_>>, side: Side) {
        let input = input.and_then(json::message);
        for message in input.as_ref().and_then(|input| get(input, Field::Messages)).map(elements).unwrap_or_default() {
            let entry = Entry::read(message, side);
            if self.position(&entry.id).is_none() {
                self.entries.push(entry);
            }
        }
    }

    /// The start of something makes its message, if there is none of its id.
    pub fn open(&mut self, what: What, event: &Event<'_>, side: Side) {
        match what {
            What::Span => {}
            What::Call => self.open_call(event),
            What::Text | What::Reasoning => {
                let id = message_id(&event.members);
                if self.position(&id).is_some() {
                    return;
                }
                let said = event.text(Field::Role).unwrap_or_else(|| ASSISTANT.into());
                let role = if what == What::Reasoning { REASONING } else { spell::canonical_role(side, &said) };
                let mut entry = Entry::new(id, role);
                entry.content = Content::Text(String::new());
                entry.rest = taken(event, &[Field::Name, Field::SubagentRunId]);
                self.entries.push(entry);
            }
        }
    }

    /// "parentMessageId → existing assistant message; unknown id → new assistant message with that id; id of another message,
    /// or none → new message keyed by toolCallId. Known toolCallId → entry reused."
    fn open_call(&mut self, event: &Event<'_>) {
        let id = What::Call.id(event);
        let name = event.get(Field::ToolCallName).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        if let Some((_, call)) = self.call(&id) {
            call.made().name = name;
            return;
        }
        let parent = event.get(Field::ParentMessageId).filter(|parent| !parent.is("")).cloned().map(Json::into_owned);
        let found = parent.as_ref().map(|parent| self.entries.iter().position(|entry| entry.id.same(parent)));
        let at = match found {
            Some(Some(at)) if self.entries[at].role == ASSISTANT => at,
            made => {
                let own = match (made, &parent) {
                    (Some(None), Some(parent)) => parent.clone(),
                    _ => id.clone(),
                };
                let mut entry = Entry::new(own, ASSISTANT);
                entry.rest = taken(event, &[Field::SubagentRunId]);
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[at];
        let named = parent.is_some_and(|parent| parent.same(&entry.id));
        let call = Call { id, told: None, name, args: String::new(), rest: Members::new(), settled: false, named };
        entry.calls.get_or_insert_default().push(call);
    }

    /// What was open has ended: what it said is its message's.
    pub fn take_in(&mut self, open: &Open, side: Side) {
        let mut metadata = None;
        let mut text = String::new();
        for (said, more) in open.pieces().map(|kept| kept.said(side)) {
            text.push_str(&said);
            metadata = merged(metadata, metadata_of(more, side));
        }
        match open.what {
            What::Span => {}
            What::Call => {
                if let Some((settled, call)) = self.call(&open.id) {
                    (*settled, call.settled) = (true, true);
                    let call = call.made();
                    call.args.push_str(&text);
                    let merged = merged(remove(&mut call.rest, Field::Metadata), metadata);
                    call.rest.extend(merged.map(|metadata| (Key::Known(Field::Metadata), metadata)));
                }
            }
            What::Text | What::Reasoning => {
                // "Text under an activity's id is dropped."
                if let Some(entry) = self.entry(&open.id).filter(|entry| entry.role != ACTIVITY) {
                    entry.settled = true;
                    entry.metadata = merged(entry.metadata.take(), metadata);
                    match &mut entry.content {
                        Content::Text(content) => content.push_str(&text),
                        _ if text.is_empty() => {}
                        content => *content = Content::Text(text),
                    }
                }
            }
        }
    }

    /// "TOOL_CALL_RESULT → tool message inserted right after the assistant message owning the call (after its other tool
    /// messages), else appended."
    pub fn result(&mut self, event: &Event<'_>, side: Side) {
        let call = event.get(Field::ToolCallId).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        // As reading has it: an empty id is none where results have no messages of their own.
        let named = |id: &&Json<'_>| side.dialect.home == Home::Native || !id.is("");
        let id = event.get(Field::MessageId).filter(named).cloned().map_or_else(|| result_id(&call), Json::into_owned);
        let mut entry = Entry::new(id, TOOL);
        entry.settled = true;
        // A message holds a text or parts, whatever the event may hold.
        let parts = side.dialect.home == Home::Native;
        entry.content = match event.get(Field::Content) {
            None => Content::None,
            Some(content) if parts && content.shape() == Type::Array => Content::of(content),
            Some(content) => Content::of(&as_string(content)),
        };
        entry.metadata = metadata_of(event.get(Field::Metadata).cloned(), side);
        entry.rest = taken(event, &[Field::SubagentRunId]);
        let owner = self
            .entries
            .iter()
            .position(|entry| entry.role == ASSISTANT && entry.calls.iter().flatten().any(|own| own.id.same(&call)));
        entry.rest.insert(0, (Key::Known(Field::ToolCallId), call));
        let behind = |owner: usize| owner + 1 + self.entries[owner + 1..].iter().take_while(|e| e.role == TOOL).count();
        let at = owner.map_or(self.entries.len(), behind);
        self.entries.insert(at, entry);
    }

    /// An activity as a whole.
    pub fn activity(&mut self, event: &Event<'_>) {
        let id = message_id(&event.members);
        let replaces = event.get(Field::Replace).is_none_or(|replace| replace.as_str() != "false");
        let metadata = event.get(Field::Metadata).cloned().map(Json::into_owned);
        let mut entry = Entry::new(id, ACTIVITY);
        entry.settled = true;
        entry.content =
            event.get(Field::Content).map_or(Content::None, |shown| Content::Value(shown.clone().into_owned()));
        entry.rest = taken(event, &[Field::ActivityType, Field::SubagentRunId]);
        match self.entries.iter_mut().find(|own| own.id.same(&entry.id)) {
            None => {
                entry.metadata = metadata;
                self.entries.push(entry);
            }
            // "a snapshot replaces content, not the metadata built up so far"
            Some(own) if own.role == ACTIVITY => {
                let before = own.metadata.take();
                if replaces {
                    *own = entry;
                }
                own.metadata = merged(before, metadata);
            }
            Some(own) if replaces => {
                entry.metadata = metadata;
                *own = entry;
            }
            Some(_) => {}
        }
    }

    /// A change of an activity.
    pub fn change(&mut self, event: &Event<'_>, frame: Kept, side: Side) {
        let id = message_id(&event.members);
        let Some(entry) = self.entry(&id).filter(|entry| entry.role == ACTIVITY) else { return };
        let shown = match &entry.content {
            Content::Value(shown) if entry.changes.is_empty() => Some(Tree::new(shown)),
            _ => None,
        };
        let patched = shown.zip(event.get(Field::Patch)).and_then(|(mut shown, patch)| {
            shown.apply(patch).ok()?;
            Some(shown.to_json())
        });
        match patched {
            Some(shown) => {
                entry.content = Content::Value(shown);
                let metadata = metadata_of(event.get(Field::Metadata).cloned(), side);
                entry.metadata = merged(entry.metadata.take(), metadata);
                for (key, value) in taken(event, &[Field::ActivityType]) {
                    set(&mut entry.rest, key, value);
                }
            }
            None => entry.changes.push(frame),
        }
    }

    /// The changes of activities since they were said as a whole.
    pub fn changes(&self) -> impl Iterator<Item = &Kept> {
        self.entries.iter().flat_map(|entry| &entry.changes)
    }

    /// An encrypted value, which is told to a message or to a call.
    pub fn encrypted(&mut self, event: &Event<'_>) {
        let (Some(id), Some(value)) = (event.get(Field::EntityId), event.get(Field::EncryptedValue)) else { return };
        let value = (Key::Known(Field::EncryptedValue), value.clone().into_owned());
        if event.get(Field::Subtype).is_some_and(|subtype| subtype.is("tool-call")) {
            if let Some((_, call)) = self.call(id) {
                set(&mut call.made().rest, value.0, value.1);
            }
        } else if let Some(entry) = self.entry(id).filter(|entry| entry.role != ACTIVITY) {
            set(&mut entry.rest, value.0, value.1);
        }
    }

    /// "MESSAGES_SNAPSHOT: same id replaced in place, unknown ids appended in snapshot order, absent ids dropped, except local
    /// `activity` (unless the snapshot carries any activity) and `reasoning` (unless it carries any reasoning)."
    ///
    /// Gives the ids of those that stay as they were.
    pub fn replace(&mut self, event: &Event<'_>, side: Side) -> Vec<Json<'static>> {
        let Some(list) = event.get(Field::Messages) else { return Vec::new() };
        let mut new: Vec<Option<Entry>> =
            elements(list).into_iter().map(|message| Some(Entry::read(message, side))).collect();
        let has = |role: &str| new.iter().flatten().any(|entry| entry.role == role);
        let (activity, reasoning) = (has(ACTIVITY), has(REASONING));
        let owned = owned_activities(event);
        let stays = |entry: &Entry| match &*entry.role {
            ACTIVITY => match &owned {
                Owned::Unsaid => !activity,
                Owned::All => false,
                Owned::These(types) => {
                    let own = get(&entry.rest, Field::ActivityType);
                    !types.iter().any(|one| own.is_some_and(|own| own.same(one)))
                }
            },
            REASONING => !reasoning,
            _ => false,
        };
        let (mut entries, mut same_as_before) = (Vec::with_capacity(new.len()), Vec::new());
        for entry in std::mem::take(&mut self.entries) {
            let same = |one: &mut Option<Entry>| one.as_ref().is_some_and(|one| one.id.same(&entry.id));
            match new.iter_mut().rev().find_map(|one| if same(one) { one.take() } else { None }) {
                Some(told) => entries.push(told),
                None if stays(&entry) => {
                    same_as_before.push(entry.id.clone());
                    entries.push(entry);
                }
                None => {}
            }
        }
        entries.extend(new.into_iter().flatten());
        (self.entries, self.replaced) = (entries, true);
        same_as_before
    }

    /// The list without what is open. What is made again by what opens that is left out, unless something stands behind it.
    pub fn said(&self, side: Side, opens: &Opens) -> Said {
        let settled = self.entries.iter().rposition(|entry| entry.settled).map_or(0, |last| last + 1);
        // Chunks are said behind everything that was started: what they make holds its place before that.
        let rest = &self.entries[settled..];
        let in_chunks =
            |entry: &Entry| opens.makes_in_chunks(&entry.id, entry.calls.iter().flatten().map(|call| &call.id));
        let started = rest.iter().rposition(|entry| !in_chunks(entry)).unwrap_or(0);
        let count = settled + rest[..started].iter().rposition(in_chunks).map_or(0, |at| at + 1);
        let told = &self.entries[..count];
        let messages: Vec<_> = told.iter().map(|entry| entry.say(side)).collect();
        let shares_activities = !self.replaced && told.iter().any(|entry| entry.role == ACTIVITY);
        Said { messages: json::to_array(&messages), shares_activities }
    }

    /// What is held, in bytes.
    pub fn held(&self) -> usize {
        self.entries.iter().map(Entry::held).sum()
    }
}

/// Whose omission from a snapshot means that they are gone.
enum Owned {
    /// nothing is said about it
    Unsaid,
    /// all activities
    All,
    /// those of these types
    These(Vec<Json<'static>>),
}

fn owned_activities(event: &Event<'_>) -> Owned {
    let find = |of: &Json<'_>, name: &str| -> Option<Json<'static>> {
        let members = json::members(of)?;
        members.into_iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value.into_owned())
    };
    let [outer, inner] = HISTORY;
    let Some(history) = event.get(Field::Metadata).and_then(|metadata| find(metadata, outer)) else {
        return Owned::Unsaid;
    };
    if history.shape() != Type::Object {
        return Owned::These(Vec::new());
    }
    match find(&history, inner) {
        None => Owned::Unsaid,
        Some(types) if types.is_null() => Owned::All,
        Some(types) => {
            let types = json::elements(&types).unwrap_or_default();
            Owned::These(types.into_iter().map(Json::into_owned).collect())
        }
    }
}

/// The messages of a JSON array.
fn elements(list: &Json<'_>) -> Vec<Members<'static>> {
    let elements = json::elements(list).unwrap_or_default();
    elements.iter().filter_map(|element| json::message(element).map(owned)).collect()
}

/// These members of an event, as far as it has them.
fn taken(event: &Event<'_>, fields: &[Field]) -> Members<'static> {
    let said = |field: &Field| Some((Key::Known(*field), event.get(*field)?.clone().into_owned()));
    fields.iter().filter_map(said).collect()
}
