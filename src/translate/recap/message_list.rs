//! The client's message list, rebuilt from the run's frames (`specs/ag-ui-1.0.md` §3.4).

use super::linked_messages::{IdPlaces, LinkedMessages};
use super::message_classes::MessageClasses;
use super::recap_frame::{RecapFrame, merge_metadata};
use super::recap_item::{RecapItem, item_id};
use super::recap_message::{MessageContent, RecapCall, RecapMessage, message_metadata};
use crate::codec::json;
use crate::dialect::patched_json::PatchedJson;
use crate::dialect::{EventRow, EventShape, PeerDialect};
use crate::event::heap_size::tree_size;
use crate::event::input::{ACTIVITY, ASSISTANT, REASONING, TOOL};
use crate::event::run::RunItem;
use crate::event::{
    Event, Field, IdMap, Json, JsonType, MemberKey, Members, get, into_owned_members, message_id, remove, set,
};
use crate::translate::carry_policy::CarryPolicy;
use crate::translate::{message, tool_result_id, value_aliases};
use std::collections::BTreeMap;

/// Makes the real client keep activities from earlier runs, which the gateway has not seen ("activityHistory" of
/// `@ag-ui/client` 1.0.0; specs §3.4).
pub(super) const SHARED_ACTIVITIES: &str = r#"{"@ag-ui/client":{"authoritativeActivityTypes":[]}}"#;

#[derive(Clone, Debug, Default)]
pub(super) struct MessageList {
    messages: LinkedMessages,
    places: IdPlaces<usize>,
    call_places: IdPlaces<CallPlace>,
    classes: MessageClasses,
    /// the last tool message that belongs to an assistant message, if one was inserted
    last_tools: BTreeMap<usize, usize>,
    is_replaced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallPlace {
    message: usize,
    index: usize,
}

/// The ids that a snapshot has added, replaced or removed.
#[derive(Debug, Default)]
pub(super) struct SnapshotChanges {
    pub(crate) messages: Vec<Json<'static>>,
    pub(crate) calls: Vec<Json<'static>>,
}

impl SnapshotChanges {
    fn add(&mut self, message: &RecapMessage) {
        self.messages.push(message.id.clone());
        self.calls.extend(message.calls.iter().flatten().map(|call| call.id.clone()));
    }
}

pub(super) struct ListSnapshot {
    pub(crate) messages: Json<'static>,
    pub(crate) shares_activities: bool,
}

impl ListSnapshot {
    pub(crate) fn empty() -> ListSnapshot {
        ListSnapshot { messages: json::to_array(&[]), shares_activities: false }
    }
}

impl MessageList {
    pub(crate) fn from_input(side: PeerDialect, messages: Option<Box<str>>) -> Self {
        let list = messages.map(|messages| Json::from_trusted(String::from(messages)));
        let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let canonical = elements.iter().filter_map(json::parse_message).collect();
        let written = message::write(canonical, side.for_client(), &CarryPolicy::InRecap).list;
        let mut made = MessageList::default();
        for message in written {
            made.push(RecapMessage::from_members(message, side));
        }
        made
    }

    fn push(&mut self, entry: RecapMessage) -> usize {
        self.insert_after(self.messages.last(), entry)
    }

    fn insert_after(&mut self, previous: Option<usize>, entry: RecapMessage) -> usize {
        let number = self.messages.insert_after(previous, entry);
        self.register(number);
        number
    }

    fn register(&mut self, number: usize) {
        let Some(entry) = self.messages.get(number) else { return };
        self.places.insert(&entry.id, number);
        self.classes.class_of(entry).insert(number);
        for (index, call) in entry.calls.iter().flatten().enumerate() {
            self.call_places.insert(&call.id, CallPlace { message: number, index });
        }
    }

    fn unregister(&mut self, number: usize) {
        let Some(entry) = self.messages.get(number) else { return };
        self.places.remove(&entry.id, number);
        self.classes.class_of(entry).remove(&number);
        for (index, call) in entry.calls.iter().flatten().enumerate() {
            self.call_places.remove(&call.id, CallPlace { message: number, index });
        }
        self.last_tools.remove(&number);
    }

    fn replace_message(&mut self, number: usize, entry: RecapMessage) {
        self.unregister(number);
        if let Some(own) = self.messages.get_mut(number) {
            *own = entry;
        }
        self.register(number);
    }

    fn contains_id(&self, id: &Json<'_>) -> bool {
        self.places.contains(id)
    }

    /// Finds the first message with this id, as the real client does.
    fn find_entry(&mut self, id: &Json<'_>) -> Option<&mut RecapMessage> {
        self.messages.get_mut(self.places.find_first(id)?)
    }

    fn find_call(&mut self, id: &Json<'_>) -> Option<(&mut bool, &mut RecapCall)> {
        let CallPlace { message, index } = self.call_places.find_first(id)?;
        let entry = self.messages.get_mut(message)?;
        let call = entry.calls.as_mut()?.get_mut(index)?;
        Some((&mut entry.has_closed_content, call))
    }

    fn has_role(&self, number: usize, role: &str) -> bool {
        self.messages.get(number).is_some_and(|entry| entry.role == role)
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
        let found = parent.as_ref().and_then(|parent| self.places.find_first(parent));
        let message = match found.filter(|found| self.has_role(*found, ASSISTANT)) {
            Some(place) => place,
            None => {
                let own = parent.clone().filter(|_| found.is_none()).unwrap_or_else(|| id.clone());
                let mut entry = RecapMessage::new(own, ASSISTANT);
                entry.rest = pick_members(event, &[Field::SubagentRunId]);
                self.push(entry)
            }
        };
        let Some(entry) = self.messages.get_mut(message) else { return };
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
        self.call_places.insert(&call.id, CallPlace { message, index: calls.len() });
        calls.push(call);
    }

    /// Moves the text of an item into its message.
    pub(crate) fn add_text<'f>(
        &mut self,
        what: RunItem,
        id: &Json<'_>,
        frames: impl Iterator<Item = &'f RecapFrame>,
        side: PeerDialect,
    ) {
        let mut metadata = None;
        let mut text = String::new();
        for (added, added_metadata) in frames.map(|kept| kept.added_text(side)) {
            text.push_str(&added);
            metadata = merge_metadata(metadata, message_metadata(added_metadata, side));
        }
        match what {
            RunItem::ReasoningSpan | RunItem::Step | RunItem::Subagent => {}
            RunItem::ToolCall => {
                if let Some((settled, call)) = self.find_call(id) {
                    (*settled, call.has_closed_content) = (true, true);
                    let call = call.expand();
                    call.args.push_str(&text);
                    let merged = merge_metadata(remove(&mut call.rest, Field::Metadata), metadata);
                    call.rest.extend(merged.map(|metadata| (MemberKey::Known(Field::Metadata), metadata)));
                }
            }
            RunItem::Text | RunItem::ReasoningMessage => {
                // "Text under an activity's id is dropped."
                if let Some(entry) = self.find_entry(id).filter(|entry| entry.role != ACTIVITY) {
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
        let owner = self.call_places.find_first(&call).map(|call| call.message);
        let owner = owner.filter(|owner| self.has_role(*owner, ASSISTANT));
        entry.rest.insert(0, (MemberKey::Known(Field::ToolCallId), call));
        match owner {
            Some(owner) => {
                let number = self.insert_after(Some(self.last_tool(owner)), entry);
                self.last_tools.insert(owner, number);
            }
            None => _ = self.push(entry),
        }
    }

    /// Returns the last of the tool messages that follow an assistant message, or that message.
    fn last_tool(&self, owner: usize) -> usize {
        let known = self.last_tools.get(&owner).copied().filter(|known| self.messages.get(*known).is_some());
        let mut last = known.unwrap_or(owner);
        // An activity may have replaced it.
        while last != owner && !self.has_role(last, TOOL) {
            last = self.messages.previous_of(last).unwrap_or(owner);
        }
        let follows = |last: usize| self.messages.next_of(last).filter(|next| self.has_role(*next, TOOL));
        std::iter::successors(Some(last), |last| follows(*last)).last().unwrap_or(owner)
    }

    pub(crate) fn set_activity(&mut self, event: &Event<'_>) {
        let id = message_id(&event.members);
        let replaces = event.get(Field::Replace).is_none_or(|replace| replace.as_str() != "false");
        let metadata = event.get_owned(Field::Metadata);
        let mut entry = RecapMessage::new(id, ACTIVITY);
        entry.has_closed_content = true;
        entry.content = event
            .get(Field::Content)
            .map_or(MessageContent::None, |content| MessageContent::Value(PatchedJson::new(content)));
        entry.rest = pick_members(event, &[Field::ActivityType, Field::SubagentRunId]);
        let Some(number) = self.places.find_first(&entry.id) else {
            entry.metadata = metadata;
            self.push(entry);
            return;
        };
        let Some(own) = self.messages.get_mut(number) else { return };
        // "a snapshot replaces content, not the metadata built up so far"
        let is_activity = own.role == ACTIVITY;
        let before = if is_activity { own.metadata.take() } else { None };
        let metadata = if is_activity { merge_metadata(before, metadata) } else { metadata };
        if replaces {
            entry.metadata = metadata;
            self.replace_message(number, entry);
        } else if is_activity {
            own.metadata = metadata;
        }
    }

    pub(crate) fn patch_activity(&mut self, event: &Event<'_>, frame: RecapFrame, side: PeerDialect) {
        let id = message_id(&event.members);
        let Some(number) = self.places.find_first(&id).filter(|found| self.has_role(*found, ACTIVITY)) else { return };
        let Some(entry) = self.messages.get_mut(number) else { return };
        let tree = match &mut entry.content {
            MessageContent::Value(tree) if entry.changes.is_empty() => Some(tree),
            _ => None,
        };
        let patched = tree.zip(event.get(Field::Patch)).and_then(|(tree, patch)| tree.apply(patch).ok());
        match patched {
            Some(()) => {
                let metadata = message_metadata(event.get(Field::Metadata).cloned(), side);
                entry.metadata = merge_metadata(entry.metadata.take(), metadata);
                let class = pick_members(event, &[Field::ActivityType]);
                self.classes.class_of(entry).remove(&number);
                class.into_iter().for_each(|(key, value)| set(&mut entry.rest, key, value));
                self.classes.class_of(entry).insert(number);
            }
            None => entry.changes.push(frame),
        }
    }

    pub(crate) fn activity_changes(&self) -> impl Iterator<Item = &RecapFrame> {
        self.messages.iter().flat_map(|entry| &entry.changes)
    }

    /// Returns the ids of a message's calls.
    pub(crate) fn calls_of(&mut self, message: &Json<'_>) -> impl Iterator<Item = &Json<'static>> {
        let calls = self.find_entry(message).and_then(|entry| entry.calls.as_ref());
        calls.into_iter().flatten().map(|call| &call.id)
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
    /// Takes the time of what the snapshot contains or removes, however many messages stay.
    pub(crate) fn replace(&mut self, event: &Event<'_>, side: PeerDialect) -> SnapshotChanges {
        let mut changes = SnapshotChanges::default();
        let Some(list) = event.get(Field::Messages) else { return changes };
        let new: Vec<_> =
            parse_messages(list).into_iter().map(|message| RecapMessage::from_members(message, side)).collect();
        new.iter().for_each(|entry| changes.add(entry));
        let dropped = self.classes.dropped_by(&new, event);
        let last_of: IdMap<usize> = new.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at)).collect();
        let named =
            new.iter().filter_map(|entry| self.places.find_first(&entry.id)).filter(|place| !dropped.contains(place));
        let affected: Vec<_> = named.chain(dropped.iter().copied()).collect();
        let mut new: Vec<_> = new.into_iter().map(Some).collect();
        for number in affected {
            let Some(own) = self.messages.get(number) else { continue };
            let replacement = last_of.get(&own.id).and_then(|at| new[*at].take());
            if replacement.is_none() && !dropped.contains(&number) {
                continue;
            }
            changes.add(own);
            match replacement {
                Some(replacement) => self.replace_message(number, replacement),
                None => {
                    self.unregister(number);
                    self.messages.remove(number);
                }
            }
        }
        for entry in new.into_iter().flatten() {
            self.push(entry);
        }
        self.is_replaced = true;
        changes
    }

    /// Builds the list without open items. A message with only open items is left out, unless a closed message follows:
    /// the client recreates it from the start events.
    pub(crate) fn snapshot(&self, side: PeerDialect, in_chunks: impl Fn(&RecapMessage) -> bool) -> ListSnapshot {
        let entries: Vec<_> = self.messages.iter().collect();
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
        self.messages.is_empty()
    }

    pub(crate) fn heap_size(&self) -> usize {
        let places = self.places.heap_size() + self.call_places.heap_size() + self.classes.heap_size();
        self.messages.heap_size() + places + tree_size::<(usize, usize)>(self.last_tools.len())
    }
}

fn parse_messages(list: &Json<'_>) -> Vec<Members<'static>> {
    let elements = json::parse_elements(list).unwrap_or_default();
    elements.iter().filter_map(|element| json::parse_message(element).map(into_owned_members)).collect()
}

fn pick_members(event: &Event<'_>, fields: &[Field]) -> Members<'static> {
    let found = fields.iter().filter_map(|field| Some((*field, event.get(*field)?)));
    let mut members: Members<'_> =
        found.map(|(field, value)| (MemberKey::Known(field), value.clone().into_owned())).collect();
    members.shrink_to_fit();
    members
}
