//! The client's message list, rebuilt from the run's frames (`specs/ag-ui-1.0.md` §3.4).

use super::recap_frame::{RecapFrame, merge_metadata};
use super::recap_item::{RecapItem, item_id};
use super::recap_message::{MessageContent, RecapCall, RecapMessage, message_metadata};
use crate::codec::json;
use crate::dialect::patched_json::JsonTree;
use crate::dialect::{EventRow, EventShape, PeerDialect};
use crate::event::input::{ACTIVITY, ASSISTANT, REASONING, TOOL};
use crate::event::run::RunItem;
use crate::event::{
    Event, Field, IdMap, Json, JsonType, MemberKey, Members, get, into_owned_members, message_id, remove, set,
};
use crate::translate::{message, tool_result_id, value_aliases};
use std::collections::BTreeMap;

/// Makes the real client keep activities from earlier runs, which the gateway has not seen ("activityHistory" of
/// `@ag-ui/client` 1.0.0; specs §3.4).
pub(super) const SHARED_ACTIVITIES: &str = r#"{"@ag-ui/client":{"authoritativeActivityTypes":[]}}"#;

/// Metadata keys of the activity history and its list of types.
const HISTORY_KEYS: [&str; 2] = ["@ag-ui/client", "authoritativeActivityTypes"];

#[derive(Clone, Debug, Default)]
pub(super) struct MessageList {
    entries: BTreeMap<MessagePlace, RecapMessage>,
    /// the first message with each id
    places: IdMap<MessagePlace>,
    /// the first call with each id
    call_places: IdMap<CallPlace>,
    is_replaced: bool,
}

/// The place of a message: tool messages are in the group of the message before them, so that one can be inserted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MessagePlace {
    group: usize,
    index: usize,
}

#[derive(Clone, Copy, Debug)]
struct CallPlace {
    message: MessagePlace,
    index: usize,
}

pub(super) struct ListSnapshot {
    pub(crate) messages: Json<'static>,
    pub(crate) shares_activities: bool,
}

impl MessageList {
    pub(crate) fn from_input(side: PeerDialect, messages: Option<Box<str>>) -> Self {
        let list = messages.map(|messages| Json::from_trusted(String::from(messages)));
        let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let canonical = elements.iter().filter_map(json::parse_message).collect();
        let written = message::write(canonical, side.for_client()).list;
        let mut made = MessageList::default();
        for message in written {
            made.push(RecapMessage::from_members(message, side));
        }
        made
    }

    fn push(&mut self, entry: RecapMessage) -> MessagePlace {
        let place = match self.entries.last_key_value() {
            None => MessagePlace { group: 0, index: 0 },
            Some((last, _)) if entry.role == TOOL => MessagePlace { group: last.group, index: last.index + 1 },
            Some((last, _)) => MessagePlace { group: last.group + 1, index: 0 },
        };
        self.insert(place, entry);
        place
    }

    fn insert(&mut self, place: MessagePlace, entry: RecapMessage) {
        if !self.places.contains(&entry.id) {
            self.places.insert(entry.id.clone(), place);
        }
        for (index, call) in entry.calls.iter().flatten().enumerate() {
            if !self.call_places.contains(&call.id) {
                self.call_places.insert(call.id.clone(), CallPlace { message: place, index });
            }
        }
        self.entries.insert(place, entry);
    }

    fn contains_id(&self, id: &Json<'_>) -> bool {
        self.places.contains(id)
    }

    /// Finds the first message with this id, as the real client does.
    fn find_entry(&mut self, id: &Json<'_>) -> Option<&mut RecapMessage> {
        self.entries.get_mut(self.places.get(id)?)
    }

    fn find_call(&mut self, id: &Json<'_>) -> Option<(&mut bool, &mut RecapCall)> {
        let CallPlace { message, index } = *self.call_places.get(id)?;
        let entry = self.entries.get_mut(&message)?;
        // An activity may have replaced the message.
        let call = entry.calls.as_mut()?.get_mut(index)?;
        Some((&mut entry.has_closed_content, call))
    }

    /// Returns false if a snapshot from the agent removed the item.
    pub(crate) fn contains(&self, open: &RecapItem) -> bool {
        match open.kind {
            RunItem::ReasoningSpan | RunItem::Step | RunItem::Subagent => true,
            RunItem::Text | RunItem::ReasoningMessage => self.contains_id(&open.id),
            RunItem::ToolCall => self.call_places.contains(&open.id),
        }
    }

    /// Appends messages from the echoed input: "RUN_STARTED.input.messages with unknown ids are appended."
    pub(crate) fn append_input(&mut self, input: Option<&Json<'_>>, side: PeerDialect) {
        let input = input.and_then(json::parse_message);
        for message in
            input.as_ref().and_then(|input| get(input, Field::Messages)).map(parse_messages).unwrap_or_default()
        {
            let entry = RecapMessage::from_members(message, side);
            if !self.contains_id(&entry.id) {
                self.push(entry);
            }
        }
    }

    /// Adds a message for the item, unless the id exists.
    pub(crate) fn open_item(&mut self, what: RunItem, event: &Event<'_>, side: PeerDialect) {
        match what {
            RunItem::ReasoningSpan | RunItem::Step | RunItem::Subagent => {}
            RunItem::ToolCall => self.open_call(event),
            RunItem::Text | RunItem::ReasoningMessage => {
                let id = message_id(&event.members);
                if self.contains_id(&id) {
                    return;
                }
                let role_name = event.text(Field::Role).unwrap_or_else(|| ASSISTANT.into());
                let role = if what == RunItem::ReasoningMessage {
                    REASONING
                } else {
                    value_aliases::canonical_role(side, &role_name)
                };
                let mut entry = RecapMessage::new(id, role);
                entry.content = MessageContent::Text(String::new());
                entry.rest = pick_members(event, &[Field::Name, Field::SubagentRunId]);
                self.push(entry);
            }
        }
    }

    /// Adds a call to its message: "parentMessageId → existing assistant message; unknown id → new assistant message
    /// with that id; id of another message, or none → new message keyed by toolCallId. Known toolCallId → entry
    /// reused."
    fn open_call(&mut self, event: &Event<'_>) {
        let id = item_id(RunItem::ToolCall, event);
        let name = event.get_or_empty(Field::ToolCallName);
        if let Some((_, call)) = self.find_call(&id) {
            call.expand().name = name;
            return;
        }
        // A dialect that may write null for what is absent means none by it.
        let parent = event.get(Field::ParentMessageId).filter(|parent| !parent.is_str("") && !parent.is_null());
        let parent = parent.cloned().map(Json::into_owned);
        let found = parent.as_ref().and_then(|parent| self.places.get(parent).copied());
        let is_assistant = |place: &MessagePlace| self.entries.get(place).is_some_and(|entry| entry.role == ASSISTANT);
        let message = match found.filter(is_assistant) {
            Some(place) => place,
            None => {
                let own = parent.clone().filter(|_| found.is_none()).unwrap_or_else(|| id.clone());
                let mut entry = RecapMessage::new(own, ASSISTANT);
                entry.rest = pick_members(event, &[Field::SubagentRunId]);
                self.push(entry)
            }
        };
        let Some(entry) = self.entries.get_mut(&message) else { return };
        let named = parent.is_some_and(|parent| parent.is_same(&entry.id));
        let call = RecapCall {
            id,
            original: None,
            name,
            args: String::new(),
            rest: Members::new(),
            has_closed_content: false,
            names_message: named,
        };
        let calls = entry.calls.get_or_insert_default();
        self.call_places.insert(call.id.clone(), CallPlace { message, index: calls.len() });
        calls.push(call);
    }

    /// Moves a finished item into its message.
    pub(crate) fn close_item(&mut self, open: &RecapItem, side: PeerDialect) {
        let mut metadata = None;
        let mut text = String::new();
        for (added, added_metadata) in open.text_frames().map(|kept| kept.added_text(side)) {
            text.push_str(&added);
            metadata = merge_metadata(metadata, message_metadata(added_metadata, side));
        }
        match open.kind {
            RunItem::ReasoningSpan | RunItem::Step | RunItem::Subagent => {}
            RunItem::ToolCall => {
                if let Some((settled, call)) = self.find_call(&open.id) {
                    (*settled, call.has_closed_content) = (true, true);
                    let call = call.expand();
                    call.args.push_str(&text);
                    let merged = merge_metadata(remove(&mut call.rest, Field::Metadata), metadata);
                    call.rest.extend(merged.map(|metadata| (MemberKey::Known(Field::Metadata), metadata)));
                }
            }
            RunItem::Text | RunItem::ReasoningMessage => {
                // "Text under an activity's id is dropped."
                if let Some(entry) = self.find_entry(&open.id).filter(|entry| entry.role != ACTIVITY) {
                    entry.has_closed_content = true;
                    entry.metadata = merge_metadata(entry.metadata.take(), metadata);
                    match &mut entry.content {
                        MessageContent::Text(content) => content.push_str(&text),
                        _ if text.is_empty() => {}
                        content => *content = MessageContent::Text(text),
                    }
                }
            }
        }
    }

    /// Inserts a tool message: "TOOL_CALL_RESULT → tool message inserted right after the assistant message owning the
    /// call (after its other tool messages), else appended."
    pub(crate) fn insert_result(&mut self, row: &EventRow, event: &Event<'_>, side: PeerDialect) {
        let call = event.get_or_empty(Field::ToolCallId);
        // A dialect without a row for results sends AG-UI's: always with an id, and with text or parts.
        let is_plain = row.shape == EventShape::Plain;
        let named = |id: &&Json<'_>| is_plain || !id.is_str("");
        let id =
            event.get(Field::MessageId).filter(named).cloned().map_or_else(|| tool_result_id(&call), Json::into_owned);
        let mut entry = RecapMessage::new(id, TOOL);
        entry.has_closed_content = true;
        entry.content = match event.get(Field::Content) {
            None => MessageContent::None,
            Some(content) if is_plain && content.json_type() == JsonType::Array => MessageContent::from_value(content),
            Some(content) => MessageContent::from_value(&content.to_string_value()),
        };
        entry.metadata = message_metadata(event.get(Field::Metadata).cloned(), side);
        entry.rest = pick_members(event, &[Field::SubagentRunId]);
        let owner = self.call_places.get(&call).map(|call| call.message);
        let owner = owner.filter(|owner| self.entries.get(owner).is_some_and(|own| own.role == ASSISTANT));
        entry.rest.insert(0, (MemberKey::Known(Field::ToolCallId), call));
        let end = |owner: MessagePlace| MessagePlace { index: usize::MAX, ..owner };
        let last = owner.and_then(|owner| self.entries.range(owner..=end(owner)).next_back());
        match last.map(|(last, _)| MessagePlace { index: last.index + 1, ..*last }) {
            Some(place) => self.insert(place, entry),
            None => _ = self.push(entry),
        }
    }

    pub(crate) fn set_activity(&mut self, event: &Event<'_>) {
        let id = message_id(&event.members);
        let replaces = event.get(Field::Replace).is_none_or(|replace| replace.as_str() != "false");
        let metadata = event.get_owned(Field::Metadata);
        let mut entry = RecapMessage::new(id, ACTIVITY);
        entry.has_closed_content = true;
        entry.content = event
            .get(Field::Content)
            .map_or(MessageContent::None, |content| MessageContent::Value(JsonTree::new(content)));
        entry.rest = pick_members(event, &[Field::ActivityType, Field::SubagentRunId]);
        match self.find_entry(&entry.id) {
            None => {
                entry.metadata = metadata;
                self.push(entry);
            }
            // "a snapshot replaces content, not the metadata built up so far"
            Some(own) if own.role == ACTIVITY => {
                let before = own.metadata.take();
                if replaces {
                    *own = entry;
                }
                own.metadata = merge_metadata(before, metadata);
            }
            Some(own) if replaces => {
                entry.metadata = metadata;
                *own = entry;
            }
            Some(_) => {}
        }
    }

    pub(crate) fn patch_activity(&mut self, event: &Event<'_>, frame: RecapFrame, side: PeerDialect) {
        let id = message_id(&event.members);
        let Some(entry) = self.find_entry(&id).filter(|entry| entry.role == ACTIVITY) else { return };
        let tree = match &mut entry.content {
            MessageContent::Value(tree) if entry.changes.is_empty() => Some(tree),
            _ => None,
        };
        let patched = tree.zip(event.get(Field::Patch)).and_then(|(tree, patch)| tree.apply(patch).ok());
        match patched {
            Some(()) => {
                let metadata = message_metadata(event.get(Field::Metadata).cloned(), side);
                entry.metadata = merge_metadata(entry.metadata.take(), metadata);
                for (key, value) in pick_members(event, &[Field::ActivityType]) {
                    set(&mut entry.rest, key, value);
                }
            }
            None => entry.changes.push(frame),
        }
    }

    pub(crate) fn activity_changes(&self) -> impl Iterator<Item = &RecapFrame> {
        self.entries.values().flat_map(|entry| &entry.changes)
    }

    pub(crate) fn set_encrypted(&mut self, event: &Event<'_>) {
        let (Some(id), Some(value)) = (event.get(Field::EntityId), event.get(Field::EncryptedValue)) else { return };
        let value = (MemberKey::Known(Field::EncryptedValue), value.clone().into_owned());
        if event.get(Field::Subtype).is_some_and(|subtype| subtype.is_str("tool-call")) {
            if let Some((_, call)) = self.find_call(id) {
                set(&mut call.expand().rest, value.0, value.1);
            }
        } else if let Some(entry) = self.find_entry(id).filter(|entry| entry.role != ACTIVITY) {
            set(&mut entry.rest, value.0, value.1);
        }
    }

    /// "MESSAGES_SNAPSHOT: same id replaced in place, unknown ids appended in snapshot order, absent ids dropped,
    /// except local `activity` (unless the snapshot carries any activity) and `reasoning` (unless it carries any
    /// reasoning)."
    ///
    /// Returns the ids of the messages that stay unchanged.
    pub(crate) fn replace(&mut self, event: &Event<'_>, side: PeerDialect) -> Vec<Json<'static>> {
        let Some(list) = event.get(Field::Messages) else { return Vec::new() };
        let new: Vec<_> =
            parse_messages(list).into_iter().map(|message| RecapMessage::from_members(message, side)).collect();
        let has = |role: &str| new.iter().any(|entry| entry.role == role);
        let has_activity = has(ACTIVITY);
        let has_reasoning = has(REASONING);
        let owned = owned_activities(event);
        let is_kept = |entry: &RecapMessage| match &*entry.role {
            ACTIVITY => match &owned {
                ActivityOwnership::Unspecified => !has_activity,
                ActivityOwnership::All => false,
                ActivityOwnership::Types(types) => {
                    let own = get(&entry.rest, Field::ActivityType);
                    !own.is_some_and(|own| types.contains(own))
                }
            },
            REASONING => !has_reasoning,
            _ => false,
        };
        let last_of: IdMap<usize> = new.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at)).collect();
        let mut new: Vec<_> = new.into_iter().map(Some).collect();
        let mut list = MessageList { is_replaced: true, ..MessageList::default() };
        let mut unchanged = Vec::new();
        for entry in std::mem::take(&mut self.entries).into_values() {
            match last_of.get(&entry.id).and_then(|at| new[*at].take()) {
                Some(replacement) => _ = list.push(replacement),
                None if is_kept(&entry) => {
                    unchanged.push(entry.id.clone());
                    list.push(entry);
                }
                None => {}
            }
        }
        for entry in new.into_iter().flatten() {
            list.push(entry);
        }
        *self = list;
        unchanged
    }

    /// Builds the list without open items. A message with only open items is left out, unless a closed message follows:
    /// the client recreates it from the start events.
    pub(crate) fn snapshot(&self, side: PeerDialect, in_chunks: impl Fn(&RecapMessage) -> bool) -> ListSnapshot {
        let entries: Vec<_> = self.entries.values().collect();
        let settled = entries.iter().rposition(|entry| entry.has_closed_content).map_or(0, |last| last + 1);
        // Chunk openers come after all start events: a message created by chunks keeps its position before those.
        let rest = &entries[settled..];
        let started = rest.iter().rposition(|entry| !in_chunks(entry)).unwrap_or(0);
        let count = settled + rest[..started].iter().rposition(|entry| in_chunks(entry)).map_or(0, |at| at + 1);
        let listed = &entries[..count];
        let messages: Vec<_> = listed.iter().map(|entry| entry.to_json(side)).collect();
        let shares_activities = !self.is_replaced && listed.iter().any(|entry| entry.role == ACTIVITY);
        ListSnapshot { messages: json::to_array(&messages), shares_activities }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn byte_size(&self) -> usize {
        self.entries.values().map(RecapMessage::byte_size).sum()
    }
}

/// Determines which activities a snapshot deletes by omitting them.
enum ActivityOwnership {
    Unspecified,
    All,
    Types(IdMap<()>),
}

fn owned_activities(event: &Event<'_>) -> ActivityOwnership {
    let [outer, inner] = HISTORY_KEYS;
    let Some(history) = event.get(Field::Metadata).and_then(|metadata| json::parse_member(metadata, outer)) else {
        return ActivityOwnership::Unspecified;
    };
    if history.json_type() != JsonType::Object {
        return ActivityOwnership::Types(IdMap::default());
    }
    match json::parse_member(&history, inner) {
        None => ActivityOwnership::Unspecified,
        Some(types) if types.is_null() => ActivityOwnership::All,
        Some(types) => {
            let types = json::parse_elements(&types).unwrap_or_default();
            ActivityOwnership::Types(types.into_iter().map(|one| (one.into_owned(), ())).collect())
        }
    }
}

fn parse_messages(list: &Json<'_>) -> Vec<Members<'static>> {
    let elements = json::parse_elements(list).unwrap_or_default();
    elements.iter().filter_map(|element| json::parse_message(element).map(into_owned_members)).collect()
}

fn pick_members(event: &Event<'_>, fields: &[Field]) -> Members<'static> {
    fields
        .iter()
        .filter_map(|field| Some((MemberKey::Known(*field), event.get(*field)?.clone().into_owned())))
        .collect()
}
