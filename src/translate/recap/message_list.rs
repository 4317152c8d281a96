//! The client's message list, rebuilt from the run's frames (`specs/ag-ui-1.0.md` §3.4).

use super::patched_json::JsonTree;
use super::recap_frame::{RecapFrame, merge_metadata};
use super::recap_item::{RecapItem, item_id};
use super::recap_message::{MessageContent, RecapCall, RecapMessage, message_metadata};
use crate::codec::json;
use crate::dialect::{EventRow, EventShape, PeerDialect};
use crate::event::input::{ACTIVITY, ASSISTANT, REASONING, TOOL};
use crate::event::run::RunItem;
use crate::event::{
    Event, Field, Json, JsonType, MemberKey, Members, get, into_owned_members, message_id, remove, set,
};
use crate::translate::{message, tool_result_id, value_aliases};

/// Makes the real client keep activities from earlier runs, which the gateway has not seen ("activityHistory" of
/// `@ag-ui/client` 1.0.0; specs §3.4).
pub(super) const SHARED_ACTIVITIES: &str = r#"{"@ag-ui/client":{"authoritativeActivityTypes":[]}}"#;

/// Metadata keys of the activity history and its list of types.
const HISTORY_KEYS: [&str; 2] = ["@ag-ui/client", "authoritativeActivityTypes"];

#[derive(Clone, Debug, Default)]
pub(super) struct MessageList {
    entries: Vec<RecapMessage>,
    is_replaced: bool,
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
        let written = message::write(canonical, side, &message::CarryPolicy::Always);
        MessageList {
            entries: written.into_iter().map(|message| RecapMessage::from_members(message, side)).collect(),
            is_replaced: false,
        }
    }

    fn position(&self, id: &Json<'_>) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.id.is_same(id))
    }

    /// Finds the first message with this id, as the real client does.
    fn find_entry(&mut self, id: &Json<'_>) -> Option<&mut RecapMessage> {
        self.entries.iter_mut().find(|entry| entry.id.is_same(id))
    }

    fn find_call(&mut self, id: &Json<'_>) -> Option<(&mut bool, &mut RecapCall)> {
        self.entries.iter_mut().find_map(|entry| {
            let call = entry.calls.iter_mut().flatten().find(|call| call.id.is_same(id))?;
            Some((&mut entry.has_closed_content, call))
        })
    }

    /// Returns false if a snapshot from the agent removed the item.
    pub(crate) fn contains(&self, open: &RecapItem) -> bool {
        match open.kind {
            RunItem::ReasoningSpan | RunItem::Step | RunItem::Subagent => true,
            RunItem::Text | RunItem::ReasoningMessage => self.position(&open.id).is_some(),
            RunItem::ToolCall => {
                self.entries.iter().any(|entry| entry.calls.iter().flatten().any(|call| call.id.is_same(&open.id)))
            }
        }
    }

    /// Appends messages from the echoed input: "RUN_STARTED.input.messages with unknown ids are appended."
    pub(crate) fn append_input(&mut self, input: Option<&Json<'_>>, side: PeerDialect) {
        let input = input.and_then(json::parse_message);
        for message in
            input.as_ref().and_then(|input| get(input, Field::Messages)).map(parse_messages).unwrap_or_default()
        {
            let entry = RecapMessage::from_members(message, side);
            if self.position(&entry.id).is_none() {
                self.entries.push(entry);
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
                if self.position(&id).is_some() {
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
                self.entries.push(entry);
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
        let found = parent.as_ref().map(|parent| self.entries.iter().position(|entry| entry.id.is_same(parent)));
        let at = match found {
            Some(Some(at)) if self.entries[at].role == ASSISTANT => at,
            made => {
                let own = match (made, &parent) {
                    (Some(None), Some(parent)) => parent.clone(),
                    _ => id.clone(),
                };
                let mut entry = RecapMessage::new(own, ASSISTANT);
                entry.rest = pick_members(event, &[Field::SubagentRunId]);
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[at];
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
        entry.calls.get_or_insert_default().push(call);
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
        let owner = self
            .entries
            .iter()
            .position(|entry| entry.role == ASSISTANT && entry.calls.iter().flatten().any(|own| own.id.is_same(&call)));
        entry.rest.insert(0, (MemberKey::Known(Field::ToolCallId), call));
        let at = match owner {
            Some(owner) => owner + 1 + self.entries[owner + 1..].iter().take_while(|entry| entry.role == TOOL).count(),
            None => self.entries.len(),
        };
        self.entries.insert(at, entry);
    }

    pub(crate) fn set_activity(&mut self, event: &Event<'_>) {
        let id = message_id(&event.members);
        let replaces = event.get(Field::Replace).is_none_or(|replace| replace.as_str() != "false");
        let metadata = event.get_owned(Field::Metadata);
        let mut entry = RecapMessage::new(id, ACTIVITY);
        entry.has_closed_content = true;
        entry.content = event
            .get(Field::Content)
            .map_or(MessageContent::None, |content| MessageContent::Value(content.clone().into_owned()));
        entry.rest = pick_members(event, &[Field::ActivityType, Field::SubagentRunId]);
        match self.entries.iter_mut().find(|own| own.id.is_same(&entry.id)) {
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
        let tree = match &entry.content {
            MessageContent::Value(content) if entry.changes.is_empty() => Some(JsonTree::new(content)),
            _ => None,
        };
        let patched = tree.zip(event.get(Field::Patch)).and_then(|(mut tree, patch)| {
            tree.apply(patch).ok()?;
            Some(tree.to_json())
        });
        match patched {
            Some(tree) => {
                entry.content = MessageContent::Value(tree);
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
        self.entries.iter().flat_map(|entry| &entry.changes)
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
        let mut new: Vec<Option<RecapMessage>> =
            parse_messages(list).into_iter().map(|message| Some(RecapMessage::from_members(message, side))).collect();
        let has = |role: &str| new.iter().flatten().any(|entry| entry.role == role);
        let has_activity = has(ACTIVITY);
        let has_reasoning = has(REASONING);
        let owned = owned_activities(event);
        let is_kept = |entry: &RecapMessage| match &*entry.role {
            ACTIVITY => match &owned {
                ActivityOwnership::Unspecified => !has_activity,
                ActivityOwnership::All => false,
                ActivityOwnership::Types(types) => {
                    let own = get(&entry.rest, Field::ActivityType);
                    !types.iter().any(|one| own.is_some_and(|own| own.is_same(one)))
                }
            },
            REASONING => !has_reasoning,
            _ => false,
        };
        let mut entries = Vec::with_capacity(new.len());
        let mut unchanged = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            match new.iter_mut().rev().find_map(|one| one.take_if(|one| one.id.is_same(&entry.id))) {
                Some(replacement) => entries.push(replacement),
                None if is_kept(&entry) => {
                    unchanged.push(entry.id.clone());
                    entries.push(entry);
                }
                None => {}
            }
        }
        entries.extend(new.into_iter().flatten());
        self.entries = entries;
        self.is_replaced = true;
        unchanged
    }

    /// Builds the list without open items. A message with only open items is left out, unless a closed message follows:
    /// the client recreates it from the start events.
    pub(crate) fn snapshot(&self, side: PeerDialect, in_chunks: impl Fn(&RecapMessage) -> bool) -> ListSnapshot {
        let settled = self.entries.iter().rposition(|entry| entry.has_closed_content).map_or(0, |last| last + 1);
        // Chunk openers come after all start events: a message created by chunks keeps its position before those.
        let rest = &self.entries[settled..];
        let started = rest.iter().rposition(|entry| !in_chunks(entry)).unwrap_or(0);
        let count = settled + rest[..started].iter().rposition(&in_chunks).map_or(0, |at| at + 1);
        let listed = &self.entries[..count];
        let messages: Vec<_> = listed.iter().map(|entry| entry.to_json(side)).collect();
        let shares_activities = !self.is_replaced && listed.iter().any(|entry| entry.role == ACTIVITY);
        ListSnapshot { messages: json::to_array(&messages), shares_activities }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn byte_size(&self) -> usize {
        self.entries.iter().map(RecapMessage::byte_size).sum()
    }
}

/// Determines which activities a snapshot deletes by omitting them.
enum ActivityOwnership {
    Unspecified,
    All,
    Types(Vec<Json<'static>>),
}

fn owned_activities(event: &Event<'_>) -> ActivityOwnership {
    let [outer, inner] = HISTORY_KEYS;
    let Some(history) = event.get(Field::Metadata).and_then(|metadata| json::parse_member(metadata, outer)) else {
        return ActivityOwnership::Unspecified;
    };
    if history.json_type() != JsonType::Object {
        return ActivityOwnership::Types(Vec::new());
    }
    match json::parse_member(&history, inner) {
        None => ActivityOwnership::Unspecified,
        Some(types) if types.is_null() => ActivityOwnership::All,
        Some(types) => {
            let types = json::parse_elements(&types).unwrap_or_default();
            ActivityOwnership::Types(types.into_iter().map(Json::into_owned).collect())
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
