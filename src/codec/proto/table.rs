//! The protobuf messages as tables (`tests/spec/ag-ui-1.0.proto`): one row per field.
//!
//! Rows are ordered by field number, because `@ag-ui/proto` writes them in that order. A test compares every row with
//! the schema, and an event's rows with the slots of its [`EventType`].

use crate::event::{EventType, Field as F, input};

#[derive(Debug)]
pub(super) struct MessageSchema {
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test of the table"))]
    pub(crate) name: &'static str,
    pub(crate) body: MessageBody,
}

#[derive(Debug)]
pub(super) enum MessageBody {
    /// fields that are members of a JSON object
    Rows(&'static [FieldRow]),
    /// one of several messages, distinguished in JSON by `type`
    OneOf(&'static [UnionArm]),
}

#[derive(Debug)]
pub(super) struct UnionArm {
    pub(crate) number: u32,
    /// value of `type`
    pub(crate) type_value: &'static str,
    pub(crate) schema: &'static MessageSchema,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FieldRow {
    pub(crate) number: u32,
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test of the table"))]
    pub(crate) name: &'static str,
    pub(crate) location: JsonLocation,
    pub(crate) field_type: FieldType,
    pub(crate) when_absent: AbsentField,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonLocation {
    /// the member with this name
    Member(&'static str),
    /// the member `content`, in the form that the role allows
    Content,
    /// the `type` of the member `outcome`
    OutcomeType,
    /// a list in the member `outcome`, if the outcome has this type
    OutcomeList { name: &'static str, outcome_type: &'static str },
}

/// The encoding of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldType {
    /// `string`
    Text,
    /// `int64`, whole numbers within ±(2^53−1)
    Int64,
    /// `bool`
    Bool,
    /// an enum, encoded as the position in this list
    Enum(&'static [&'static str]),
    /// `google.protobuf.Value`
    Value,
    /// `google.protobuf.Value`, omitted if null, as the real encoder does for optional members
    NonNullValue,
    /// `google.protobuf.Struct`
    Struct,
    Message(&'static MessageSchema),
    /// `repeated` messages
    Repeated(&'static MessageSchema),
    /// `repeated string`
    RepeatedText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbsentField {
    Omitted,
    /// an empty string, an empty list, or the first enum value
    DefaultValue,
}

#[derive(Debug)]
pub(super) struct EventSchema {
    /// field number in the envelope
    pub(crate) arm: u32,
    /// number in the `EventType` enum, which differs from `arm`
    pub(crate) number: u32,
    /// all fields except `base_event`
    pub(crate) rows: &'static [FieldRow],
}

/// Field number of `base_event` in every event.
pub(super) const BASE_NUMBER: u32 = 1;

/// Field number of `type` in `BaseEvent`.
pub(super) const BASE_TYPE: u32 = 1;

use AbsentField::{DefaultValue, Omitted};
use FieldType::{Bool, Enum, Int64, Message, NonNullValue, Repeated, RepeatedText, Struct, Text, Value};

const fn row(number: u32, name: &'static str, form: FieldType, absent: AbsentField) -> FieldRow {
    FieldRow { number, name, location: JsonLocation::Member(name), field_type: form, when_absent: absent }
}

const fn req(number: u32, field: F, form: FieldType) -> FieldRow {
    row(number, field.camel(), form, DefaultValue)
}

const fn opt(number: u32, field: F, form: FieldType) -> FieldRow {
    row(number, field.camel(), form, Omitted)
}

const fn content(number: u32, name: &'static str, form: FieldType) -> FieldRow {
    FieldRow { number, name, location: JsonLocation::Content, field_type: form, when_absent: Omitted }
}

const fn outcome(number: u32) -> FieldRow {
    let name = F::Outcome.camel();
    FieldRow { number, name, location: JsonLocation::OutcomeType, field_type: Text, when_absent: Omitted }
}

const fn in_outcome(
    number: u32,
    name: &'static str,
    of: &'static str,
    form: FieldType,
    absent: AbsentField,
) -> FieldRow {
    FieldRow {
        number,
        name,
        location: JsonLocation::OutcomeList { name, outcome_type: of },
        field_type: form,
        when_absent: absent,
    }
}

const fn by_subagent(number: u32) -> FieldRow {
    opt(number, F::SubagentRunId, Text)
}

/// Fields of `BaseEvent` without `type`.
pub(super) const BASE_ROWS: &[FieldRow] =
    &[opt(2, F::Timestamp, Int64), opt(3, F::RawEvent, NonNullValue), opt(4, F::Metadata, Struct)];

/// Operation names, in the order of the `JsonPatchOperationType` enum.
pub(super) const OPERATIONS: &[&str] = &["add", "remove", "replace", "move", "copy", "test"];

static OPERATION: MessageSchema = MessageSchema {
    name: "JsonPatchOperation",
    body: MessageBody::Rows(&[
        row(1, "op", Enum(OPERATIONS), DefaultValue),
        row(2, "path", Text, DefaultValue),
        row(3, "from", Text, Omitted),
        opt(4, F::Value, Value),
    ]),
};

static TEXT_PART: MessageSchema = MessageSchema {
    name: "TextInputPart",
    body: MessageBody::Rows(&[
        row(1, "text", Text, DefaultValue),
        opt(2, F::Id, Text),
        opt(3, F::Metadata, NonNullValue),
    ]),
};

const MEDIA: &[FieldRow] =
    &[opt(1, F::Source, Message(&SOURCE)), opt(2, F::Metadata, NonNullValue), opt(3, F::Id, Text)];

static IMAGE_PART: MessageSchema = MessageSchema { name: "ImageInputPart", body: MessageBody::Rows(MEDIA) };
static AUDIO_PART: MessageSchema = MessageSchema { name: "AudioInputPart", body: MessageBody::Rows(MEDIA) };
static VIDEO_PART: MessageSchema = MessageSchema { name: "VideoInputPart", body: MessageBody::Rows(MEDIA) };
static DOCUMENT_PART: MessageSchema = MessageSchema { name: "DocumentInputPart", body: MessageBody::Rows(MEDIA) };

static PART: MessageSchema = MessageSchema {
    name: "InputContent",
    body: MessageBody::OneOf(&[
        UnionArm { number: 1, type_value: "text", schema: &TEXT_PART },
        UnionArm { number: 2, type_value: "image", schema: &IMAGE_PART },
        UnionArm { number: 3, type_value: "audio", schema: &AUDIO_PART },
        UnionArm { number: 4, type_value: "video", schema: &VIDEO_PART },
        UnionArm { number: 5, type_value: "document", schema: &DOCUMENT_PART },
    ]),
};

static DATA_SOURCE: MessageSchema = MessageSchema {
    name: "InputContentDataSource",
    body: MessageBody::Rows(&[req(1, F::Value, Text), row(2, "mimeType", Text, DefaultValue)]),
};

static URL_SOURCE: MessageSchema = MessageSchema {
    name: "InputContentUrlSource",
    body: MessageBody::Rows(&[req(1, F::Value, Text), row(2, "mimeType", Text, Omitted)]),
};

static FILE_SOURCE: MessageSchema = MessageSchema {
    name: "InputContentFileSource",
    body: MessageBody::Rows(&[
        req(1, F::Value, Text),
        row(2, "provider", Text, Omitted),
        row(3, "mimeType", Text, Omitted),
    ]),
};

static SOURCE: MessageSchema = MessageSchema {
    name: "InputContentSource",
    body: MessageBody::OneOf(&[
        UnionArm { number: 1, type_value: "data", schema: &DATA_SOURCE },
        UnionArm { number: 2, type_value: "url", schema: &URL_SOURCE },
        UnionArm { number: 3, type_value: "file", schema: &FILE_SOURCE },
    ]),
};

static FUNCTION: MessageSchema = MessageSchema {
    name: "Function",
    body: MessageBody::Rows(&[req(1, F::Name, Text), row(2, "arguments", Text, DefaultValue)]),
};

static TOOL_CALL: MessageSchema = MessageSchema {
    name: "ToolCall",
    body: MessageBody::Rows(&[
        req(1, F::Id, Text),
        row(2, "type", Text, DefaultValue),
        row(3, "function", Message(&FUNCTION), Omitted),
        opt(4, F::Metadata, Struct),
        opt(5, F::EncryptedValue, Text),
    ]),
};

static MESSAGE: MessageSchema = MessageSchema {
    name: "Message",
    body: MessageBody::Rows(&[
        req(1, F::Id, Text),
        req(2, F::Role, Text),
        content(3, F::Content.camel(), Text),
        opt(4, F::Name, Text),
        opt(5, F::ToolCalls, Repeated(&TOOL_CALL)),
        opt(6, F::ToolCallId, Text),
        opt(7, F::Error, Text),
        content(8, "contentParts", Repeated(&PART)),
        opt(9, F::Metadata, Struct),
        by_subagent(10),
        opt(11, F::EncryptedValue, Text),
        opt(12, F::ActivityType, Text),
        content(13, "activityContent", Struct),
    ]),
};

static TOOL: MessageSchema = MessageSchema {
    name: "Tool",
    body: MessageBody::Rows(&[
        req(1, F::Name, Text),
        req(2, F::Description, Text),
        row(3, "parameters", NonNullValue, Omitted),
        opt(4, F::Metadata, Struct),
    ]),
};

static CONTEXT: MessageSchema =
    MessageSchema { name: "Context", body: MessageBody::Rows(&[req(1, F::Description, Text), req(2, F::Value, Text)]) };

static RESUME: MessageSchema = MessageSchema {
    name: "ResumeEntry",
    body: MessageBody::Rows(&[
        row(1, input::INTERRUPT_ID, Text, DefaultValue),
        row(2, input::STATUS, Text, DefaultValue),
        row(3, input::PAYLOAD, NonNullValue, Omitted),
        opt(4, F::Metadata, Struct),
    ]),
};

static INPUT: MessageSchema = MessageSchema {
    name: "RunAgentInput",
    body: MessageBody::Rows(&[
        req(1, F::ThreadId, Text),
        req(2, F::RunId, Text),
        opt(3, F::ParentRunId, Text),
        opt(4, F::State, NonNullValue),
        req(5, F::Messages, Repeated(&MESSAGE)),
        req(6, F::Tools, Repeated(&TOOL)),
        req(7, F::Context, Repeated(&CONTEXT)),
        opt(8, F::ForwardedProps, NonNullValue),
        req(9, F::Resume, Repeated(&RESUME)),
        opt(10, F::ProtocolVersion, Text),
    ]),
};

static INTERRUPT: MessageSchema = MessageSchema {
    name: "Interrupt",
    body: MessageBody::Rows(&[
        req(1, F::Id, Text),
        row(2, "reason", Text, DefaultValue),
        opt(3, F::Message, Text),
        opt(4, F::ToolCallId, Text),
        row(5, "responseSchema", NonNullValue, Omitted),
        row(6, "expiresAt", Text, Omitted),
        opt(7, F::Metadata, NonNullValue),
        by_subagent(8),
    ]),
};

static USAGE: MessageSchema = MessageSchema {
    name: "Usage",
    body: MessageBody::Rows(&[
        row(1, "provider", Text, Omitted),
        row(2, "model", Text, Omitted),
        row(3, "inputTokens", Int64, Omitted),
        row(4, "outputTokens", Int64, Omitted),
        row(5, "totalTokens", Int64, Omitted),
        row(6, "reasoningTokens", Int64, Omitted),
        row(7, "cachedInputTokens", Int64, Omitted),
        row(8, "cacheWriteInputTokens", Int64, Omitted),
    ]),
};

pub(super) fn event_for_arm(arm: u32) -> Option<EventType> {
    EventType::ALL.iter().copied().find(|kind| event_schema(*kind).arm == arm)
}

macro_rules! entries {
    ($($kind:ident = $arm:literal / $number:literal [$($row:expr),* $(,)?];)+) => {
        /// Returns the envelope number, the `EventType` number, and the fields.
        pub(super) const fn event_schema(kind: EventType) -> EventSchema {
            match kind {
                $(EventType::$kind => EventSchema { arm: $arm, number: $number, rows: const { &[$($row),*] } },)+
            }
        }
    };
}

entries! {
    TextMessageStart = 1 / 0 [
        req(2, F::MessageId, Text), opt(3, F::Role, Text), opt(4, F::Name, Text), by_subagent(5)];
    TextMessageContent = 2 / 1 [req(2, F::MessageId, Text), req(3, F::Delta, Text), by_subagent(4)];
    TextMessageEnd = 3 / 2 [req(2, F::MessageId, Text), by_subagent(3)];
    TextMessageChunk = 17 / 19 [
        opt(2, F::MessageId, Text), opt(3, F::Role, Text), opt(4, F::Delta, Text), opt(5, F::Name, Text),
        by_subagent(6)];
    ToolCallStart = 4 / 3 [
        req(2, F::ToolCallId, Text), req(3, F::ToolCallName, Text), opt(4, F::ParentMessageId, Text), by_subagent(5)];
    ToolCallArgs = 5 / 4 [req(2, F::ToolCallId, Text), req(3, F::Delta, Text), by_subagent(4)];
    ToolCallEnd = 6 / 5 [req(2, F::ToolCallId, Text), by_subagent(3)];
    ToolCallChunk = 18 / 20 [
        opt(2, F::ToolCallId, Text), opt(3, F::ToolCallName, Text), opt(4, F::ParentMessageId, Text),
        opt(5, F::Delta, Text), by_subagent(6)];
    ToolCallResult = 22 / 21 [
        by_subagent(2), req(3, F::MessageId, Text), req(4, F::ToolCallId, Text),
        content(5, F::Content.camel(), Text), opt(6, F::Role, Text),
        FieldRow { when_absent: DefaultValue, ..content(7, "contentParts", Repeated(&PART)) }];
    StateSnapshot = 7 / 6 [opt(2, F::Snapshot, Value), by_subagent(3)];
    StateDelta = 8 / 7 [req(2, F::Delta, Repeated(&OPERATION)), by_subagent(3)];
    MessagesSnapshot = 9 / 8 [req(2, F::Messages, Repeated(&MESSAGE))];
    ActivitySnapshot = 23 / 22 [
        by_subagent(2), req(3, F::MessageId, Text), req(4, F::ActivityType, Text), opt(5, F::Content, Struct),
        opt(6, F::Replace, Bool)];
    ActivityDelta = 24 / 23 [
        by_subagent(2), req(3, F::MessageId, Text), req(4, F::ActivityType, Text), req(5, F::Patch, Repeated(&OPERATION))];
    Raw = 10 / 9 [opt(2, F::Event, Value), opt(3, F::Source, Text), by_subagent(4)];
    Custom = 11 / 10 [req(2, F::Name, Text), opt(3, F::Value, Value), by_subagent(4)];
    RunStarted = 12 / 11 [
        req(2, F::ThreadId, Text), req(3, F::RunId, Text), opt(4, F::ParentRunId, Text), opt(5, F::Input, Message(&INPUT)),
        opt(6, F::ProtocolVersion, Text)];
    RunFinished = 13 / 12 [
        req(2, F::ThreadId, Text), req(3, F::RunId, Text), opt(4, F::Result, NonNullValue), outcome(5),
        in_outcome(6, "interrupts", "interrupt", Repeated(&INTERRUPT), DefaultValue), opt(7, F::Usage, Repeated(&USAGE)),
        in_outcome(8, "pendingToolCallIds", "success", RepeatedText, Omitted)];
    RunError = 14 / 13 [opt(2, F::Code, Text), req(3, F::Message, Text), opt(4, F::Usage, Repeated(&USAGE))];
    StepStarted = 15 / 14 [req(2, F::StepName, Text), by_subagent(3)];
    StepFinished = 16 / 15 [req(2, F::StepName, Text), by_subagent(3)];
    ReasoningStart = 25 / 24 [by_subagent(2), req(3, F::MessageId, Text)];
    ReasoningMessageStart = 26 / 25 [by_subagent(2), req(3, F::MessageId, Text), req(4, F::Role, Text)];
    ReasoningMessageContent = 27 / 26 [by_subagent(2), req(3, F::MessageId, Text), req(4, F::Delta, Text)];
    ReasoningMessageEnd = 28 / 27 [by_subagent(2), req(3, F::MessageId, Text)];
    ReasoningMessageChunk = 29 / 28 [by_subagent(2), opt(3, F::MessageId, Text), opt(4, F::Delta, Text)];
    ReasoningEnd = 30 / 29 [by_subagent(2), req(3, F::MessageId, Text)];
    ReasoningEncryptedValue = 31 / 30 [
        by_subagent(2), req(3, F::Subtype, Text), req(4, F::EntityId, Text), req(5, F::EncryptedValue, Text)];
    SubagentStarted = 19 / 16 [
        req(2, F::SubagentRunId, Text), req(3, F::Name, Text), opt(4, F::Description, Text),
        opt(5, F::ParentSubagentRunId, Text), opt(6, F::ParentToolCallId, Text), opt(7, F::ParentMessageId, Text)];
    SubagentFinished = 20 / 17 [
        req(2, F::SubagentRunId, Text), opt(3, F::Result, NonNullValue), outcome(4),
        in_outcome(5, "interruptIds", "suspended", RepeatedText, Omitted)];
    SubagentError = 21 / 18 [req(2, F::SubagentRunId, Text), req(3, F::Message, Text), opt(4, F::Code, Text)];
}
