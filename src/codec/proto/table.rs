//! The messages of the protobuf wire as tables (`tests/spec/ag-ui-1.0.proto`): one row per field.
//!
//! Rows stand in the order of their numbers, because that is the order in which `@ag-ui/proto` writes them. A test holds
//! every row against the schema, and the rows of an event against the slots of its [`Kind`].

use crate::event::{Field as F, Kind};

/// A message of the wire.
#[derive(Debug)]
pub(super) struct Shape {
    /// its name in the schema, for the test that compares them
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test of the table"))]
    pub name: &'static str,
    pub body: Body,
}

/// What a message is made of.
#[derive(Debug)]
pub(super) enum Body {
    /// fields, each the member of a JSON object
    Rows(&'static [Row]),
    /// one of several messages, told apart in JSON by the member `type`
    Union(&'static [Arm]),
}

/// One alternative of a union.
#[derive(Debug)]
pub(super) struct Arm {
    pub number: u32,
    /// value of `type`
    pub word: &'static str,
    pub shape: &'static Shape,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub number: u32,
    /// the field's name in the schema, in camelCase
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test of the table"))]
    pub name: &'static str,
    pub place: Place,
    pub form: Form,
    pub absent: Absent,
}

/// Where a field stands in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// the member of that name
    Member(&'static str),
    /// the member `content`, of which a message has the one form that its role takes
    Content,
    /// `type` of the member `outcome`
    OutcomeType,
    /// a list inside the member `outcome`, for outcomes of the type `of`
    Outcome { name: &'static str, of: &'static str },
}

/// How a value is written on the wire, and so which JSON values it takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// `string`
    Text,
    /// `int64`, whole numbers within ±(2^53−1)
    Count,
    /// `bool`
    Flag,
    /// an enum: the position in the list is the number
    Word(&'static [&'static str]),
    /// `google.protobuf.Value`
    Any,
    /// the same, where null is as good as nothing: the real encoder leaves whole nulls of optional members out
    Present,
    /// `google.protobuf.Struct`
    Object,
    /// a message
    Message(&'static Shape),
    /// `repeated` of a message
    List(&'static Shape),
    /// `repeated string`
    Texts,
}

/// What the reader makes of a field that is not on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// no member
    Gone,
    /// the empty text, the empty list, the first word
    Default,
}

/// What an event is on the wire.
#[derive(Debug)]
pub(super) struct Entry {
    /// number of its field in the envelope
    pub arm: u32,
    /// its number in the enum `EventType`, which is another numbering
    pub number: u32,
    /// everything but `base_event`
    pub rows: &'static [Row],
}

/// Number of `base_event` in every event.
pub(super) const BASE_NUMBER: u32 = 1;

/// Number of `type` in `BaseEvent`.
pub(super) const BASE_TYPE: u32 = 1;

use Absent::{Default, Gone};
use Form::{Any, Count, Flag, List, Message, Object, Present, Text, Texts, Word};

const fn row(number: u32, name: &'static str, form: Form, absent: Absent) -> Row {
    Row { number, name, place: Place::Member(name), form, absent }
}

const fn req(number: u32, field: F, form: Form) -> Row {
    row(number, field.camel(), form, Default)
}

const fn opt(number: u32, field: F, form: Form) -> Row {
    row(number, field.camel(), form, Gone)
}

const fn content(number: u32, name: &'static str, form: Form) -> Row {
    Row { number, name, place: Place::Content, form, absent: Gone }
}

const fn outcome(number: u32) -> Row {
    let name = F::Outcome.camel();
    Row { number, name, place: Place::OutcomeType, form: Text, absent: Gone }
}

const fn in_outcome(number: u32, name: &'static str, of: &'static str, form: Form, absent: Absent) -> Row {
    Row { number, name, place: Place::Outcome { name, of }, form, absent }
}

const fn by_subagent(number: u32) -> Row {
    opt(number, F::SubagentRunId, Text)
}

/// What every event may have: `BaseEvent` without its `type`.
pub(super) const BASE_ROWS: &[Row] =
    &[opt(2, F::Timestamp, Count), opt(3, F::RawEvent, Present), opt(4, F::Metadata, Object)];

/// The operations of a JSON Patch, in the order of the enum `JsonPatchOperationType`.
pub(super) const OPERATIONS: &[&str] = &["add", "remove", "replace", "move", "copy", "test"];

static OPERATION: Shape = Shape {
    name: "JsonPatchOperation",
    body: Body::Rows(&[
        row(1, "op", Word(OPERATIONS), Default),
        row(2, "path", Text, Default),
        row(3, "from", Text, Gone),
        opt(4, F::Value, Any),
    ]),
};

static TEXT_PART: Shape = Shape {
    name: "TextInputPart",
    body: Body::Rows(&[row(1, "text", Text, Default), opt(2, F::Id, Text), opt(3, F::Metadata, Present)]),
};

const MEDIA: &[Row] = &[opt(1, F::Source, Message(&SOURCE)), opt(2, F::Metadata, Present), opt(3, F::Id, Text)];

static IMAGE_PART: Shape = Shape { name: "ImageInputPart", body: Body::Rows(MEDIA) };
static AUDIO_PART: Shape = Shape { name: "AudioInputPart", body: Body::Rows(MEDIA) };
static VIDEO_PART: Shape = Shape { name: "VideoInputPart", body: Body::Rows(MEDIA) };
static DOCUMENT_PART: Shape = Shape { name: "DocumentInputPart", body: Body::Rows(MEDIA) };

static PART: Shape = Shape {
    name: "InputContent",
    body: Body::Union(&[
        Arm { number: 1, word: "text", shape: &TEXT_PART },
        Arm { number: 2, word: "image", shape: &IMAGE_PART },
        Arm { number: 3, word: "audio", shape: &AUDIO_PART },
        Arm { number: 4, word: "video", shape: &VIDEO_PART },
        Arm { number: 5, word: "document", shape: &DOCUMENT_PART },
    ]),
};

static DATA_SOURCE: Shape = Shape {
    name: "InputContentDataSource",
    body: Body::Rows(&[req(1, F::Value, Text), row(2, "mimeType", Text, Default)]),
};

static URL_SOURCE: Shape = Shape {
    name: "InputContentUrlSource",
    body: Body::Rows(&[req(1, F::Value, Text), row(2, "mimeType", Text, Gone)]),
};

static FILE_SOURCE: Shape = Shape {
    name: "InputContentFileSource",
    body: Body::Rows(&[req(1, F::Value, Text), row(2, "provider", Text, Gone), row(3, "mimeType", Text, Gone)]),
};

static SOURCE: Shape = Shape {
    name: "InputContentSource",
    body: Body::Union(&[
        Arm { number: 1, word: "data", shape: &DATA_SOURCE },
        Arm { number: 2, word: "url", shape: &URL_SOURCE },
        Arm { number: 3, word: "file", shape: &FILE_SOURCE },
    ]),
};

static FUNCTION: Shape =
    Shape { name: "Function", body: Body::Rows(&[req(1, F::Name, Text), row(2, "arguments", Text, Default)]) };

static TOOL_CALL: Shape = Shape {
    name: "ToolCall",
    body: Body::Rows(&[
        req(1, F::Id, Text),
        row(2, "type", Text, Default),
        row(3, "function", Message(&FUNCTION), Gone),
        opt(4, F::Metadata, Object),
        opt(5, F::EncryptedValue, Text),
    ]),
};

static MESSAGE: Shape = Shape {
    name: "Message",
    body: Body::Rows(&[
        req(1, F::Id, Text),
        req(2, F::Role, Text),
        content(3, F::Content.camel(), Text),
        opt(4, F::Name, Text),
        opt(5, F::ToolCalls, List(&TOOL_CALL)),
        opt(6, F::ToolCallId, Text),
        opt(7, F::Error, Text),
        content(8, "contentParts", List(&PART)),
        opt(9, F::Metadata, Object),
        by_subagent(10),
        opt(11, F::EncryptedValue, Text),
        opt(12, F::ActivityType, Text),
        content(13, "activityContent", Object),
    ]),
};

static TOOL: Shape = Shape {
    name: "Tool",
    body: Body::Rows(&[
        req(1, F::Name, Text),
        req(2, F::Description, Text),
        row(3, "parameters", Present, Gone),
        opt(4, F::Metadata, Object),
    ]),
};

static CONTEXT: Shape =
    Shape { name: "Context", body: Body::Rows(&[req(1, F::Description, Text), req(2, F::Value, Text)]) };

static RESUME: Shape = Shape {
    name: "ResumeEntry",
    body: Body::Rows(&[
        row(1, "interruptId", Text, Default),
        row(2, "status", Text, Default),
        row(3, "payload", Present, Gone),
        opt(4, F::Metadata, Object),
    ]),
};

static INPUT: Shape = Shape {
    name: "RunAgentInput",
    body: Body::Rows(&[
        req(1, F::ThreadId, Text),
        req(2, F::RunId, Text),
        opt(3, F::ParentRunId, Text),
        opt(4, F::State, Present),
        req(5, F::Messages, List(&MESSAGE)),
        req(6, F::Tools, List(&TOOL)),
        req(7, F::Context, List(&CONTEXT)),
        opt(8, F::ForwardedProps, Present),
        req(9, F::Resume, List(&RESUME)),
        opt(10, F::ProtocolVersion, Text),
    ]),
};

static INTERRUPT: Shape = Shape {
    name: "Interrupt",
    body: Body::Rows(&[
        req(1, F::Id, Text),
        row(2, "reason", Text, Default),
        opt(3, F::Message, Text),
        opt(4, F::ToolCallId, Text),
        row(5, "responseSchema", Present, Gone),
        row(6, "expiresAt", Text, Gone),
        opt(7, F::Metadata, Present),
        by_subagent(8),
    ]),
};

static USAGE: Shape = Shape {
    name: "Usage",
    body: Body::Rows(&[
        row(1, "provider", Text, Gone),
        row(2, "model", Text, Gone),
        row(3, "inputTokens", Count, Gone),
        row(4, "outputTokens", Count, Gone),
        row(5, "totalTokens", Count, Gone),
        row(6, "reasoningTokens", Count, Gone),
        row(7, "cachedInputTokens", Count, Gone),
        row(8, "cacheWriteInputTokens", Count, Gone),
    ]),
};

/// The kind that stands in field `arm` of the envelope.
pub(super) fn kind_of(arm: u32) -> Option<Kind> {
    Kind::ALL.iter().copied().find(|kind| entry(*kind).arm == arm)
}

macro_rules! entries {
    ($($kind:ident = $arm:literal / $number:literal [$($row:expr),* $(,)?];)+) => {
        /// What `kind` is on the wire: arm of the envelope / number in `EventType`, and its fields.
        pub(super) const fn entry(kind: Kind) -> Entry {
            match kind {
                $(Kind::$kind => Entry { arm: $arm, number: $number, rows: const { &[$($row),*] } },)+
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
        Row { absent: Default, ..content(7, "contentParts", List(&PART)) }];
    StateSnapshot = 7 / 6 [opt(2, F::Snapshot, Any), by_subagent(3)];
    StateDelta = 8 / 7 [req(2, F::Delta, List(&OPERATION)), by_subagent(3)];
    MessagesSnapshot = 9 / 8 [req(2, F::Messages, List(&MESSAGE))];
    ActivitySnapshot = 23 / 22 [
        by_subagent(2), req(3, F::MessageId, Text), req(4, F::ActivityType, Text), opt(5, F::Content, Object),
        opt(6, F::Replace, Flag)];
    ActivityDelta = 24 / 23 [
        by_subagent(2), req(3, F::MessageId, Text), req(4, F::ActivityType, Text), req(5, F::Patch, List(&OPERATION))];
    Raw = 10 / 9 [opt(2, F::Event, Any), opt(3, F::Source, Text), by_subagent(4)];
    Custom = 11 / 10 [req(2, F::Name, Text), opt(3, F::Value, Any), by_subagent(4)];
    RunStarted = 12 / 11 [
        req(2, F::ThreadId, Text), req(3, F::RunId, Text), opt(4, F::ParentRunId, Text), opt(5, F::Input, Message(&INPUT)),
        opt(6, F::ProtocolVersion, Text)];
    RunFinished = 13 / 12 [
        req(2, F::ThreadId, Text), req(3, F::RunId, Text), opt(4, F::Result, Present), outcome(5),
        in_outcome(6, "interrupts", "interrupt", List(&INTERRUPT), Default), opt(7, F::Usage, List(&USAGE)),
        in_outcome(8, "pendingToolCallIds", "success", Texts, Gone)];
    RunError = 14 / 13 [opt(2, F::Code, Text), req(3, F::Message, Text), opt(4, F::Usage, List(&USAGE))];
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
        req(2, F::SubagentRunId, Text), opt(3, F::Result, Present), outcome(4),
        in_outcome(5, "interruptIds", "suspended", Texts, Gone)];
    SubagentError = 21 / 18 [req(2, F::SubagentRunId, Text), req(3, F::Message, Text), opt(4, F::Code, Text)];
}
