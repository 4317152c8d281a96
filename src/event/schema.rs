//! The values inside an event: messages, parts, outcomes and patches, as tables (`specs/ag-ui-1.0.md` §2).
//!
//! [`kind`](super::kind) lists the members of an event; this file describes their content as deeply as the real client
//! checks it. The client strips unknown members from objects, removes unknown union variants from lists, and rejects
//! the run for a wrong value (§3.1, classes 2 and 3). Legacy forms that it still accepts (null members, `binary` parts)
//! are marked.

use super::input;
use super::kind::{MemberType, Slot, TEXT_ROLES};
use super::value::SAFE_INTEGER;
use super::{EventType, Field, Json, JsonType, Members, find_member};

/// The values allowed for a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueSchema {
    Str,
    StringEnum(&'static [&'static str]),
    /// any JSON, including null
    Any,
    /// any JSON except null
    Present,
    /// an object with arbitrary keys
    OpenObject,
    Bool,
    /// an integer within ±(2^53−1)
    Integer,
    /// an integer from 0 to 2^53−1
    Count,
    /// a JSON Pointer (RFC 6901)
    Pointer,
    List(&'static ValueSchema),
    NonEmpty(&'static ValueSchema),
    /// a string, or an array of these
    TextOrList(&'static ValueSchema),
    Object(&'static ObjectSchema),
    Union(&'static UnionSchema),
}

impl ValueSchema {
    /// Checks a value without checking its elements or members.
    #[must_use]
    pub(crate) fn matches_leaf(self, value: &Json<'_>) -> bool {
        let json_type = value.json_type();
        match self {
            Any => true,
            Present => json_type != JsonType::Null,
            Str | TextOrList(_) => json_type == JsonType::String,
            StringEnum(words) => value.text().is_some_and(|text| words.contains(&&*text)),
            OpenObject => json_type == JsonType::Object,
            ValueSchema::Bool => json_type == JsonType::Bool,
            ValueSchema::Integer => is_integer_from(value, -SAFE_INTEGER),
            Count => is_integer_from(value, 0),
            Pointer => value.text().is_some_and(|text| is_pointer(&text)),
            List(_) | NonEmpty(_) | Object(_) | ValueSchema::Union(_) => false,
        }
    }
}

fn is_integer_from(value: &Json<'_>, least: i64) -> bool {
    value.json_type() == JsonType::Number
        && value.as_i64().is_some_and(|number| (least..=SAFE_INTEGER).contains(&number))
}

/// Checks a JSON Pointer: each token begins with `/`, and `~` occurs only in `~0` and `~1` (RFC 6901 §3).
#[must_use]
pub(crate) fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'))
}

#[derive(Debug)]
pub(crate) struct ObjectSchema {
    pub(crate) members: &'static [MemberSchema],
    /// whether other members are allowed, as only in "RFC 6902 operations"
    pub(crate) is_open: bool,
}

#[derive(Debug)]
pub(crate) struct MemberSchema {
    pub(crate) name: &'static str,
    pub(crate) schema: ValueSchema,
    pub(crate) presence: MemberPresence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberPresence {
    /// the client rejects the object without it
    Required,
    Optional,
    /// optional; the client treats null as absent
    NullIsAbsent,
}

/// Objects distinguished by one member.
#[derive(Debug)]
pub(crate) struct UnionSchema {
    pub(crate) tag: &'static str,
    pub(crate) arms: &'static [(&'static str, &'static ObjectSchema)],
    /// whether the client converts a 0.x `binary` part here
    pub(crate) converts_binary: bool,
}

impl UnionSchema {
    /// Returns the schema that the tag selects.
    #[must_use]
    pub(crate) fn arm(&self, members: &Members<'_>) -> Option<&'static ObjectSchema> {
        let tag = find_member(members, self.tag).and_then(Json::text)?;
        self.arms.iter().find(|(name, _)| *name == tag).map(|(_, record)| *record)
    }

    /// Returns true if `record` has the member, or if no single other schema claims it.
    #[must_use]
    pub(crate) fn may_have(&self, record: Option<&ObjectSchema>, name: &str) -> bool {
        let has = |record: &ObjectSchema| record.members.iter().any(|member| member.name == name);
        record.is_none_or(has) || self.arms.iter().filter(|(_, other)| has(other)).count() != 1
    }

    /// Returns true for a 0.x `binary` part that the client converts.
    #[must_use]
    pub(crate) fn is_binary(&self, members: &Members<'_>) -> bool {
        self.converts_binary && find_member(members, self.tag).is_some_and(|tag| tag.is_str(BINARY))
    }
}

/// `type` of a content part that was retired in 1.0; the client still converts such parts inside messages (§1.3).
const BINARY: &str = "binary";

const fn req(name: &'static str, shape: ValueSchema) -> MemberSchema {
    MemberSchema { name, schema: shape, presence: MemberPresence::Required }
}

const fn opt(name: &'static str, shape: ValueSchema) -> MemberSchema {
    MemberSchema { name, schema: shape, presence: MemberPresence::Optional }
}

const fn opt_or_null(name: &'static str, shape: ValueSchema) -> MemberSchema {
    MemberSchema { name, schema: shape, presence: MemberPresence::NullIsAbsent }
}

const fn closed(members: &'static [MemberSchema]) -> ObjectSchema {
    ObjectSchema { members, is_open: false }
}

const fn open(members: &'static [MemberSchema]) -> ObjectSchema {
    ObjectSchema { members, is_open: true }
}

use ValueSchema::{Any, Count, List, NonEmpty, Object, OpenObject, Pointer, Present, Str, StringEnum, TextOrList};

const TYPE: MemberSchema = req("type", Str);
const ROLE: MemberSchema = req("role", Str);
const OP: MemberSchema = req("op", Str);

// Content parts and their sources. Those in messages may come from an old peer; those in a result may not.
static DATA_SOURCE: ObjectSchema = closed(&[TYPE, req("value", Str), req("mimeType", Str)]);
static URL_SOURCE: ObjectSchema = closed(&[TYPE, req("value", Str), opt("mimeType", Str)]);
static FILE_SOURCE: ObjectSchema = closed(&[TYPE, req("value", Str), opt("provider", Str), opt("mimeType", Str)]);
static SOURCE: UnionSchema = UnionSchema {
    tag: "type",
    arms: &[("data", &DATA_SOURCE), ("url", &URL_SOURCE), ("file", &FILE_SOURCE)],
    converts_binary: false,
};
static TEXT_PART: ObjectSchema = closed(&[TYPE, opt("id", Str), req("text", Str), opt("metadata", Present)]);
static MEDIA_PART: ObjectSchema =
    closed(&[TYPE, opt("id", Str), req("source", ValueSchema::Union(&SOURCE)), opt("metadata", Present)]);
static OLD_MEDIA_PART: ObjectSchema =
    closed(&[TYPE, opt("id", Str), req("source", ValueSchema::Union(&SOURCE)), opt_or_null("metadata", Present)]);
static PART: UnionSchema = UnionSchema {
    tag: "type",
    arms: &[
        ("text", &TEXT_PART),
        ("image", &MEDIA_PART),
        ("audio", &MEDIA_PART),
        ("video", &MEDIA_PART),
        ("document", &MEDIA_PART),
    ],
    converts_binary: false,
};
static MESSAGE_PART: UnionSchema = UnionSchema {
    tag: "type",
    arms: &[
        ("text", &TEXT_PART),
        ("image", &OLD_MEDIA_PART),
        ("audio", &OLD_MEDIA_PART),
        ("video", &OLD_MEDIA_PART),
        ("document", &OLD_MEDIA_PART),
    ],
    converts_binary: true,
};
pub(crate) static RESULT_CONTENT: ValueSchema = ValueSchema::Union(&PART);
static MESSAGE_CONTENT: ValueSchema = ValueSchema::Union(&MESSAGE_PART);

// Messages.
const OWNER: MemberSchema = opt("subagentRunId", Str);
const ID: MemberSchema = req("id", Str);
const NAME: MemberSchema = opt("name", Str);
const ENCRYPTED: MemberSchema = opt("encryptedValue", Str);
const METADATA: MemberSchema = opt("metadata", OpenObject);
static FUNCTION: ObjectSchema = closed(&[req("name", Str), req("arguments", Str)]);
static TOOL_CALL: ObjectSchema =
    closed(&[ID, req("type", StringEnum(&["function"])), req("function", Object(&FUNCTION)), ENCRYPTED, METADATA]);
static TOOL_CALLS: ValueSchema = Object(&TOOL_CALL);
static PLAIN_MESSAGE: ObjectSchema = closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, req("content", Str)]);
static ASSISTANT_MESSAGE: ObjectSchema =
    closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, opt("content", Str), opt("toolCalls", List(&TOOL_CALLS))]);
static USER_MESSAGE: ObjectSchema =
    closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, req("content", TextOrList(&MESSAGE_CONTENT))]);
static TOOL_MESSAGE: ObjectSchema = closed(&[
    OWNER,
    ID,
    ROLE,
    req("content", TextOrList(&MESSAGE_CONTENT)),
    req("toolCallId", Str),
    opt("error", Str),
    ENCRYPTED,
    METADATA,
]);
static ACTIVITY_MESSAGE: ObjectSchema =
    closed(&[OWNER, ID, ROLE, req("activityType", Str), req("content", OpenObject), METADATA]);
static REASONING_MESSAGE: ObjectSchema = closed(&[OWNER, ID, ROLE, req("content", Str), ENCRYPTED, METADATA]);
/// Messages, distinguished by role.
pub(crate) static MESSAGES: UnionSchema = UnionSchema {
    tag: "role",
    arms: &[
        (TEXT_ROLES[0], &PLAIN_MESSAGE),
        (TEXT_ROLES[1], &PLAIN_MESSAGE),
        (TEXT_ROLES[2], &ASSISTANT_MESSAGE),
        (TEXT_ROLES[3], &USER_MESSAGE),
        (input::TOOL, &TOOL_MESSAGE),
        (input::ACTIVITY, &ACTIVITY_MESSAGE),
        (input::REASONING, &REASONING_MESSAGE),
    ],
    converts_binary: false,
};
static MESSAGE: ValueSchema = ValueSchema::Union(&MESSAGES);

// The echo of a run input. "state: null" is accepted, unlike any other null.
static TOOL: ValueSchema =
    Object(&closed(&[req("name", Str), req("description", Str), opt_or_null("parameters", Present), METADATA]));
static CONTEXT: ValueSchema = Object(&closed(&[req("description", Str), req("value", Str)]));
static RESUME: ValueSchema = Object(&closed(&[
    req(input::INTERRUPT_ID, Str),
    req(input::STATUS, StringEnum(input::RESUME_STATUSES)),
    opt_or_null(input::PAYLOAD, Present),
    METADATA,
]));
static INPUT: ObjectSchema = closed(&[
    req("threadId", Str),
    req("runId", Str),
    opt("protocolVersion", Str),
    opt("parentRunId", Str),
    opt("state", Any),
    req("messages", List(&MESSAGE)),
    opt("tools", List(&TOOL)),
    opt("context", List(&CONTEXT)),
    opt_or_null("forwardedProps", Present),
    opt("resume", List(&RESUME)),
]);
pub(crate) const RUN_INPUT: ValueSchema = Object(&INPUT);

// How runs and subagents end.
static INTERRUPT: ValueSchema = Object(&closed(&[
    OWNER,
    ID,
    req("reason", Str),
    opt("message", Str),
    opt("toolCallId", Str),
    opt("responseSchema", OpenObject),
    opt("expiresAt", Str),
    METADATA,
]));
static RUN_OUTCOME: UnionSchema = UnionSchema {
    tag: "type",
    arms: &[
        ("success", &closed(&[TYPE, opt("pendingToolCallIds", List(&Str))])),
        ("interrupt", &closed(&[TYPE, req("interrupts", NonEmpty(&INTERRUPT))])),
        ("cancelled", &closed(&[TYPE])),
    ],
    converts_binary: false,
};
static SUBAGENT_OUTCOME: UnionSchema = UnionSchema {
    tag: "type",
    arms: &[("success", &closed(&[TYPE])), ("suspended", &closed(&[TYPE, opt("interruptIds", List(&Str))]))],
    converts_binary: false,
};
static USAGE: ValueSchema = Object(&closed(&[
    opt("provider", Str),
    opt("model", Str),
    opt("inputTokens", Count),
    opt("outputTokens", Count),
    opt("totalTokens", Count),
    opt("reasoningTokens", Count),
    opt("cachedInputTokens", Count),
    opt("cacheWriteInputTokens", Count),
]));

// "A remove carrying a leftover value is a valid patch": operations are open (RFC 6902 §4).
static OP_WITH_VALUE: ObjectSchema = open(&[OP, req("path", Pointer), req("value", Any)]);
static OP_WITH_FROM: ObjectSchema = open(&[OP, req("from", Pointer), req("path", Pointer)]);
static OPERATIONS: UnionSchema = UnionSchema {
    tag: "op",
    arms: &[
        ("add", &OP_WITH_VALUE),
        ("remove", &open(&[OP, req("path", Pointer)])),
        ("replace", &OP_WITH_VALUE),
        ("move", &OP_WITH_FROM),
        ("copy", &OP_WITH_FROM),
        ("test", &OP_WITH_VALUE),
    ],
    converts_binary: false,
};
static OPERATION: ValueSchema = ValueSchema::Union(&OPERATIONS);

#[must_use]
pub(crate) const fn value_schema(kind: EventType, slot: &Slot) -> ValueSchema {
    match slot.member_type {
        MemberType::Str => Str,
        MemberType::StringEnum(words) => StringEnum(words),
        MemberType::Any => Any,
        MemberType::Present => Present,
        MemberType::Object => OpenObject,
        // Only MESSAGES_SNAPSHOT has a plain list.
        MemberType::Array => List(&MESSAGE),
        MemberType::Patch => List(&OPERATION),
        MemberType::Outcome => match kind {
            EventType::SubagentFinished => ValueSchema::Union(&SUBAGENT_OUTCOME),
            _ => ValueSchema::Union(&RUN_OUTCOME),
        },
        MemberType::Usage => List(&USAGE),
        MemberType::Input => RUN_INPUT,
        MemberType::Content => TextOrList(&RESULT_CONTENT),
        MemberType::Bool => ValueSchema::Bool,
        MemberType::Integer => ValueSchema::Integer,
    }
}

/// Returns true if the client treats null as absent (§1.1, "→absent").
#[must_use]
pub(crate) const fn null_is_absent(kind: EventType, field: Field) -> bool {
    match field {
        Field::RawEvent => true,
        Field::Result => matches!(kind, EventType::RunFinished | EventType::SubagentFinished),
        Field::Outcome => matches!(kind, EventType::RunFinished),
        Field::ParentMessageId => matches!(kind, EventType::ToolCallStart | EventType::ToolCallChunk),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    static RECORDS: &[(&str, &ObjectSchema)] = &[
        ("DataSource", &DATA_SOURCE),
        ("UrlSource", &URL_SOURCE),
        ("FileSource", &FILE_SOURCE),
        ("TextPart", &TEXT_PART),
        ("ImagePart", &MEDIA_PART),
        ("DocumentPart", &MEDIA_PART),
        ("ToolCall", &TOOL_CALL),
        ("FunctionCall", &FUNCTION),
        ("SystemMessage", &PLAIN_MESSAGE),
        ("AssistantMessage", &ASSISTANT_MESSAGE),
        ("UserMessage", &USER_MESSAGE),
        ("ToolMessage", &TOOL_MESSAGE),
        ("ActivityMessage", &ACTIVITY_MESSAGE),
        ("ReasoningMessage", &REASONING_MESSAGE),
        ("RunAgentInput", &INPUT),
        ("AddOperation", &OP_WITH_VALUE),
        ("MoveOperation", &OP_WITH_FROM),
    ];

    #[test]
    fn records_match_the_published_schema() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/ag-ui-1.0.event.schema.json");
        let text = std::fs::read_to_string(path).expect("the event schema");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        let defs = schema["$defs"].as_object().expect("$defs");
        for (name, record) in RECORDS {
            let mut parts = vec![&defs[*name]];
            let (mut theirs, mut required) = (BTreeMap::new(), Vec::new());
            while let Some(part) = parts.pop() {
                let bases = part["allOf"].as_array().into_iter().flatten();
                parts.extend(bases.filter_map(|base| Some(&defs[base["$ref"].as_str()?.rsplit('/').next()?])));
                let members = part["properties"].as_object().into_iter().flat_map(|all| all.keys());
                theirs.extend(members.map(|member| (member.clone(), false)));
                required.extend(part["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
            }
            for member in required {
                theirs.insert(member.to_owned(), true);
            }
            let ours: BTreeMap<String, bool> = record
                .members
                .iter()
                .map(|member| (member.name.to_owned(), member.presence == MemberPresence::Required))
                .collect();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
