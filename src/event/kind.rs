//! The 31 events of AG-UI 1.0 and their members, in one table (`specs/ag-ui-1.0.md` §1.1).
//!
//! Every dialect is described in terms of this table, the run guard checks outgoing events against it, and metrics take
//! their closed `type` label from it.

use super::field::Field;
use super::role::{ASSISTANT, TOOL, USER};

/// The values that the real client accepts for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum MemberType {
    Str,
    /// one of these strings
    StringEnum(&'static [&'static str]),
    /// any JSON, including null
    Any,
    /// any JSON except null
    Present,
    /// an object with arbitrary keys
    Object,
    Array,
    /// an RFC 6902 patch
    Patch,
    /// an object whose `type` tells how a run or subagent ended
    Outcome,
    /// a list of token counts
    Usage,
    Input,
    /// a string, or an array of content parts
    Content,
    Bool,
    /// an integer within ±(2^53−1)
    Integer,
}

/// Describes one member of an event.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub struct Slot {
    pub field: Field,
    pub member_type: MemberType,
    /// whether the client rejects the event without it
    pub required: bool,
}

const fn req(field: Field, form: MemberType) -> Slot {
    Slot { field, member_type: form, required: true }
}

const fn opt(field: Field, form: MemberType) -> Slot {
    Slot { field, member_type: form, required: false }
}

macro_rules! kinds {
    ($($name:ident = $wire:literal [$($slot:expr),* $(,)?];)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names are the specification's own")]
        pub enum EventType { $($name,)+ }

        impl EventType {
            /// Lists every type in table order.
            pub const ALL: &'static [EventType] = &[$(EventType::$name,)+];

            /// Returns the value of `type` on the wire.
            #[must_use]
            pub const fn wire(self) -> &'static str {
                match self { $(EventType::$name => $wire,)+ }
            }

            /// Finds the type by its case-sensitive wire name.
            #[must_use]
            pub fn from_wire(name: &str) -> Option<EventType> {
                match name { $($wire => Some(EventType::$name),)+ _ => None }
            }

            /// Returns the type's own members, without those common to all events ([`COMMON_SLOTS`]).
            #[must_use]
            pub const fn slots(self) -> &'static [Slot] {
                match self { $(EventType::$name => const { &[$($slot),*] },)+ }
            }
        }
    };
}

/// Roles of streamed text; `assistant` is the default.
pub(crate) const TEXT_ROLES: &[&str] = &["developer", "system", ASSISTANT, USER];

use MemberType::{Any, Array, Bool, Content, Integer, Object, Patch, Present, Str, StringEnum};

/// Members common to all events (`BaseEvent`). Attributable events also have [`Field::SubagentRunId`].
pub(crate) const COMMON_SLOTS: &[Slot] =
    &[opt(Field::Timestamp, Integer), opt(Field::RawEvent, Present), opt(Field::Metadata, Object)];

const BY_SUBAGENT: Slot = opt(Field::SubagentRunId, Str);

kinds! {
    RunStarted = "RUN_STARTED" [
        req(Field::ThreadId, Str), req(Field::RunId, Str), opt(Field::ProtocolVersion, Str),
        opt(Field::ParentRunId, Str), opt(Field::Input, MemberType::Input)];
    RunFinished = "RUN_FINISHED" [
        req(Field::ThreadId, Str), req(Field::RunId, Str), opt(Field::Result, Present),
        opt(Field::Outcome, MemberType::Outcome), opt(Field::Usage, MemberType::Usage)];
    RunError = "RUN_ERROR" [req(Field::Message, Str), opt(Field::Code, Str), opt(Field::Usage, MemberType::Usage)];
    StepStarted = "STEP_STARTED" [req(Field::StepName, Str), BY_SUBAGENT];
    StepFinished = "STEP_FINISHED" [req(Field::StepName, Str), BY_SUBAGENT];
    TextMessageStart = "TEXT_MESSAGE_START" [
        req(Field::MessageId, Str), opt(Field::Role, StringEnum(TEXT_ROLES)), opt(Field::Name, Str), BY_SUBAGENT];
    TextMessageContent = "TEXT_MESSAGE_CONTENT" [req(Field::MessageId, Str), req(Field::Delta, Str), BY_SUBAGENT];
    TextMessageEnd = "TEXT_MESSAGE_END" [req(Field::MessageId, Str), BY_SUBAGENT];
    TextMessageChunk = "TEXT_MESSAGE_CHUNK" [
        opt(Field::MessageId, Str), opt(Field::Role, StringEnum(TEXT_ROLES)), opt(Field::Delta, Str),
        opt(Field::Name, Str), BY_SUBAGENT];
    ToolCallStart = "TOOL_CALL_START" [
        req(Field::ToolCallId, Str), req(Field::ToolCallName, Str), opt(Field::ParentMessageId, Str), BY_SUBAGENT];
    ToolCallArgs = "TOOL_CALL_ARGS" [req(Field::ToolCallId, Str), req(Field::Delta, Str), BY_SUBAGENT];
    ToolCallEnd = "TOOL_CALL_END" [req(Field::ToolCallId, Str), BY_SUBAGENT];
    ToolCallChunk = "TOOL_CALL_CHUNK" [
        opt(Field::ToolCallId, Str), opt(Field::ToolCallName, Str), opt(Field::ParentMessageId, Str),
        opt(Field::Delta, Str), BY_SUBAGENT];
    ToolCallResult = "TOOL_CALL_RESULT" [
        req(Field::MessageId, Str), req(Field::ToolCallId, Str), req(Field::Content, Content),
        opt(Field::Role, StringEnum(&[TOOL])), BY_SUBAGENT];
    StateSnapshot = "STATE_SNAPSHOT" [req(Field::Snapshot, Any), BY_SUBAGENT];
    StateDelta = "STATE_DELTA" [req(Field::Delta, Patch), BY_SUBAGENT];
    MessagesSnapshot = "MESSAGES_SNAPSHOT" [req(Field::Messages, Array)];
    ActivitySnapshot = "ACTIVITY_SNAPSHOT" [
        req(Field::MessageId, Str), req(Field::ActivityType, Str), req(Field::Content, Object),
        opt(Field::Replace, Bool), BY_SUBAGENT];
    ActivityDelta = "ACTIVITY_DELTA" [
        req(Field::MessageId, Str), req(Field::ActivityType, Str), req(Field::Patch, Patch), BY_SUBAGENT];
    Raw = "RAW" [req(Field::Event, Any), opt(Field::Source, Str), BY_SUBAGENT];
    Custom = "CUSTOM" [req(Field::Name, Str), req(Field::Value, Any), BY_SUBAGENT];
    ReasoningStart = "REASONING_START" [req(Field::MessageId, Str), BY_SUBAGENT];
    ReasoningMessageStart = "REASONING_MESSAGE_START" [
        req(Field::MessageId, Str), req(Field::Role, StringEnum(&["reasoning"])), BY_SUBAGENT];
    ReasoningMessageContent = "REASONING_MESSAGE_CONTENT" [
        req(Field::MessageId, Str), req(Field::Delta, Str), BY_SUBAGENT];
    ReasoningMessageEnd = "REASONING_MESSAGE_END" [req(Field::MessageId, Str), BY_SUBAGENT];
    ReasoningMessageChunk = "REASONING_MESSAGE_CHUNK" [
        opt(Field::MessageId, Str), opt(Field::Delta, Str), BY_SUBAGENT];
    ReasoningEnd = "REASONING_END" [req(Field::MessageId, Str), BY_SUBAGENT];
    ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE" [
        req(Field::Subtype, StringEnum(&["tool-call", "message"])), req(Field::EntityId, Str),
        req(Field::EncryptedValue, Str), BY_SUBAGENT];
    SubagentStarted = "SUBAGENT_STARTED" [
        req(Field::SubagentRunId, Str), req(Field::Name, Str), opt(Field::Description, Str),
        opt(Field::ParentSubagentRunId, Str), opt(Field::ParentToolCallId, Str), opt(Field::ParentMessageId, Str)];
    SubagentFinished = "SUBAGENT_FINISHED" [
        req(Field::SubagentRunId, Str), opt(Field::Result, Present), opt(Field::Outcome, MemberType::Outcome)];
    SubagentError = "SUBAGENT_ERROR" [
        req(Field::SubagentRunId, Str), req(Field::Message, Str), opt(Field::Code, Str)];
}

impl EventType {
    /// Returns all members of this type, common ones last.
    pub fn all_slots(self) -> impl Iterator<Item = &'static Slot> {
        self.slots().iter().chain(COMMON_SLOTS)
    }

    #[must_use]
    pub(crate) fn slot(self, field: Field) -> Option<&'static Slot> {
        let has_field = |slot: &&Slot| slot.field == field;
        self.slots().iter().find(has_field).or_else(|| COMMON_SLOTS.iter().find(has_field))
    }

    #[must_use]
    pub(crate) const fn is_run_boundary(self) -> bool {
        matches!(self, EventType::RunStarted) || self.is_terminal()
    }

    /// Returns true if this event ends the run.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, EventType::RunFinished | EventType::RunError)
    }

    /// Returns true for reasoning spans and their messages, but not for chunks.
    pub(crate) const fn is_reasoning(self) -> bool {
        matches!(
            self,
            EventType::ReasoningStart
                | EventType::ReasoningMessageStart
                | EventType::ReasoningMessageContent
                | EventType::ReasoningMessageEnd
                | EventType::ReasoningEnd
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn there_are_31_kinds_with_unique_names() {
        let names: HashSet<_> = EventType::ALL.iter().map(|kind| kind.wire()).collect();
        assert_eq!(names.len(), 31);
        for &kind in EventType::ALL {
            assert_eq!(EventType::from_wire(kind.wire()), Some(kind));
            let fields: HashSet<_> = kind.all_slots().map(|slot| slot.field).collect();
            assert_eq!(fields.len(), kind.all_slots().count(), "{} names a field twice", kind.wire());
        }
    }

    /// Checks the table against the published schema: the same members, with the same ones required, for every type.
    #[test]
    fn matches_the_published_event_schema() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/ag-ui-1.0.event.schema.json");
        let text = std::fs::read_to_string(path).expect("the event schema");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        let defs = schema["$defs"].as_object().expect("$defs");
        let mut seen = 0;
        for def in defs.values().filter(|def| def["properties"]["type"]["const"].is_string()) {
            let Some(kind) = def["properties"]["type"]["const"].as_str().and_then(EventType::from_wire) else {
                continue;
            };
            seen += 1;
            let mut members = BTreeMap::new();
            let parts = def["allOf"].as_array().cloned().unwrap_or_default();
            let bases = parts.iter().map(|part| {
                let name = part["$ref"].as_str().expect("a $ref").rsplit('/').next().expect("a name");
                &defs[name]
            });
            for part in bases.chain([def]) {
                for name in part["properties"].as_object().expect("properties").keys().filter(|name| *name != "type") {
                    let list =
                        |of: &Value| of["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
                    let entry: &mut bool = members.entry(name.clone()).or_default();
                    *entry |= list(part) || list(def);
                }
            }
            let ours: BTreeMap<String, bool> =
                kind.all_slots().map(|slot| (slot.field.camel().to_owned(), slot.required)).collect();
            assert_eq!(members, ours, "{}", kind.wire());
        }
        assert_eq!(seen, EventType::ALL.len());
    }
}
