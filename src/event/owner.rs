//! Ownership: the subagent that each message and call belongs to, as the real client records it.
//!
//! "Any continuation/close/reopen … whose `subagentRunId` differs from the recorded owner" rejects the run; "untagged
//! is always fine" (`specs/ag-ui-1.0.md` §3.2 "Ownership").

use super::{Event, EventType, Field, Json, SmallMap};
use std::borrow::Cow;

/// Maximum number of items with a recorded owner, which bounds memory against a malicious agent.
const OWNERS_LIMIT: usize = 100_000;

/// Maximum length in bytes of an id whose owner is recorded.
const ID_LIMIT: usize = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerNamespace {
    Message,
    ToolCall,
}

/// The owners of a run's messages and calls; `None` means the agent itself.
#[derive(Debug, Default)]
pub(crate) struct ItemOwners {
    /// by namespace
    owners: [SmallMap<Box<str>, ItemOwner>; 2],
}

type ItemOwner = Option<Box<str>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerConflict {
    /// the event contradicts the recorded owner
    Tag,
    /// a call's owner differs from its parent message's
    Parent,
}

/// An item of an event.
#[derive(Debug)]
struct OwnerKey<'e> {
    namespace: OwnerNamespace,
    id: Cow<'e, str>,
}

impl<'e> OwnerKey<'e> {
    fn from_event(event: &'e Event<'_>, namespace: OwnerNamespace, field: Field) -> Option<Self> {
        event.text(field).map(|id| OwnerKey { namespace, id })
    }

    /// Returns the item whose owner must match the event's.
    fn of_item(event: &'e Event<'_>, is_tagged: bool) -> Option<Self> {
        match event.kind {
            EventType::TextMessageStart
            | EventType::ReasoningStart
            | EventType::ReasoningMessageStart
            | EventType::ActivitySnapshot
            | EventType::ActivityDelta
            | EventType::ToolCallResult
            | EventType::TextMessageChunk
            | EventType::ReasoningMessageChunk => Self::from_event(event, OwnerNamespace::Message, Field::MessageId),
            EventType::ToolCallStart | EventType::ToolCallChunk => {
                Self::from_event(event, OwnerNamespace::ToolCall, Field::ToolCallId)
            }
            EventType::ReasoningEncryptedValue => {
                let is_call = event.get(Field::Subtype).is_some_and(|subtype| subtype.is_str("tool-call"));
                let namespace = if is_call { OwnerNamespace::ToolCall } else { OwnerNamespace::Message };
                Self::from_event(event, namespace, Field::EntityId)
            }
            // A continuation is checked only if it names a subagent.
            EventType::TextMessageContent
            | EventType::TextMessageEnd
            | EventType::ReasoningEnd
            | EventType::ReasoningMessageContent
            | EventType::ReasoningMessageEnd
                if is_tagged =>
            {
                Self::from_event(event, OwnerNamespace::Message, Field::MessageId)
            }
            EventType::ToolCallArgs | EventType::ToolCallEnd if is_tagged => {
                Self::from_event(event, OwnerNamespace::ToolCall, Field::ToolCallId)
            }
            _ => None,
        }
    }

    fn of_parent(event: &'e Event<'_>) -> Option<Self> {
        match event.kind {
            EventType::ToolCallStart | EventType::ToolCallChunk => {
                Self::from_event(event, OwnerNamespace::Message, Field::ParentMessageId)
            }
            _ => None,
        }
    }
}

impl ItemOwners {
    /// Compares an event with the recorded owner; on conflict, returns the member to remove. An item's first event sets
    /// its owner.
    pub(crate) fn admit(&mut self, event: &Event<'_>) -> Result<(), OwnerConflict> {
        let tag = event.text(Field::SubagentRunId);
        let key = OwnerKey::of_item(event, tag.is_some());
        let known = key.as_ref().and_then(|key| self.find(key)).cloned();
        let agrees = |owner: &ItemOwner| tag.is_none() || owner.as_deref() == tag.as_deref();
        if known.as_ref().is_some_and(|owner| !agrees(owner)) {
            return Err(OwnerConflict::Tag);
        }
        let mut speaker = known.clone().unwrap_or_else(|| tag.as_deref().map(Box::from));
        if let Some(parent) = OwnerKey::of_parent(event) {
            // A parent without an owner inherits the owner of the first call that names it.
            let owner = self.find(&parent).cloned().unwrap_or_else(|| speaker.clone());
            // "A tool call belongs to the message that carries it."
            match (agrees(&owner), known) {
                (false, _) => return Err(OwnerConflict::Tag),
                (true, Some(own)) if own != owner => return Err(OwnerConflict::Parent),
                (true, _) => speaker = owner,
            }
        }
        let Some(key) = key else { return Ok(()) };
        match event.kind {
            EventType::ActivityDelta
            | EventType::ReasoningEncryptedValue
            | EventType::TextMessageContent
            | EventType::TextMessageEnd
            | EventType::ReasoningEnd
            | EventType::ReasoningMessageContent
            | EventType::ReasoningMessageEnd
            | EventType::ToolCallArgs
            | EventType::ToolCallEnd => {}
            // Activities and results name their owner every time, and the latest one wins.
            EventType::ActivitySnapshot | EventType::ToolCallResult
                if self.find(&key).is_some() && event.get(Field::Replace).is_none_or(|it| it.as_str() != "false") =>
            {
                self.set(&key, tag.as_deref().map(Box::from));
            }
            _ if self.find(&key).is_none() => self.record_owner(&key, speaker),
            _ => {}
        }
        Ok(())
    }

    fn find(&self, key: &OwnerKey<'_>) -> Option<&ItemOwner> {
        self.owners[key.namespace as usize].get(&*key.id)
    }

    fn set(&mut self, key: &OwnerKey<'_>, owner: ItemOwner) {
        self.owners[key.namespace as usize].insert(Box::from(&*key.id), owner);
    }

    /// Records the owner unless the lists are full or the id is long.
    fn record_owner(&mut self, key: &OwnerKey<'_>, owner: ItemOwner) {
        let count: usize = self.owners.iter().map(SmallMap::len).sum();
        if count < OWNERS_LIMIT && key.id.len() <= ID_LIMIT {
            self.set(key, owner);
        }
    }

    /// Sets the owner of a message or call from a message list. `field` is [`Field::MessageId`] or
    /// [`Field::ToolCallId`].
    pub(crate) fn seed_owner(&mut self, field: Field, id: Option<&Json<'_>>, owner: Option<&Json<'_>>) {
        let namespace = if field == Field::ToolCallId { OwnerNamespace::ToolCall } else { OwnerNamespace::Message };
        let Some(id) = id.and_then(Json::text) else { return };
        self.record_owner(&OwnerKey { namespace, id }, owner.and_then(Json::text).map(|text| Box::from(&*text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventType, members: &[(Field, &str)]) -> Event<'static> {
        members.iter().fold(Event::new(kind), |event, (field, text)| event.with(*field, Json::string(text)))
    }

    #[test]
    fn first_event_sets_the_owner_and_untagged_events_pass() {
        use Field::{MessageId, ParentMessageId, SubagentRunId, ToolCallId};
        let mut owners = ItemOwners::default();
        let start = |tag: &str| event(EventType::TextMessageStart, &[(MessageId, "m"), (SubagentRunId, tag)]);
        assert_eq!(owners.admit(&start("s1")), Ok(()));
        assert_eq!(owners.admit(&start("s2")), Err(OwnerConflict::Tag));
        assert_eq!(owners.admit(&event(EventType::TextMessageStart, &[(MessageId, "m")])), Ok(()));
        assert_eq!(owners.admit(&event(EventType::TextMessageStart, &[(MessageId, "n")])), Ok(()));
        let call = [(ToolCallId, "t"), (ParentMessageId, "n"), (SubagentRunId, "s1")];
        assert_eq!(owners.admit(&event(EventType::ToolCallStart, &call)), Err(OwnerConflict::Tag));
        assert_eq!(owners.admit(&event(EventType::ToolCallStart, &[(ToolCallId, "t"), (SubagentRunId, "s1")])), Ok(()));
        let again = [(ToolCallId, "t"), (ParentMessageId, "n")];
        assert_eq!(owners.admit(&event(EventType::ToolCallStart, &again)), Err(OwnerConflict::Parent));
    }
}
