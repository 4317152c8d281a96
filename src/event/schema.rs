//! What the values inside an event look like: messages, parts, outcomes, patches, as tables (`specs/ag-ui-1.0.md` §2).
//!
//! [`kind`](super::kind) says which members an event has; here stands what is below them, as deep as the real client looks.
//! Its rules differ by place: an unknown member of a described object is stripped, an unknown member of a union is taken out
//! of its list, and a wrong value rejects the run (§3.1, classes 2 and 3). What old peers sent and the client still
//! understands (whole nulls, `binary` parts) has a mark of its own.

use super::input;
use super::kind::{Form, Slot, TEXT_ROLES};
use super::{Field, Kind};

/// What a value must look like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// any string
    Str,
    /// one of these words
    Word(&'static [&'static str]),
    /// any JSON, null included
    Any,
    /// any JSON but null
    Present,
    /// an object, open by key
    Open,
    /// `true` or `false`
    Bool,
    /// an integer within ±(2^53−1)
    Integer,
    /// an integer from 0 to 2^53−1
    Count,
    /// a JSON Pointer (RFC 6901)
    Pointer,
    /// an array of these
    List(&'static Shape),
    /// an array of at least one of these
    NonEmpty(&'static Shape),
    /// a string, or an array of these
    TextOr(&'static Shape),
    /// a described object
    Object(&'static Record),
    /// an object that one of its members tells apart
    Union(&'static Union),
}

/// A described object.
#[derive(Debug)]
pub struct Record {
    /// what it may say
    pub members: &'static [Member],
    /// whether it may say anything else as well: "RFC 6902 operations" alone
    pub open: bool,
}

/// One member of a described object.
#[derive(Debug)]
pub struct Member {
    /// its name
    pub name: &'static str,
    /// its value
    pub shape: Shape,
    /// whether it must stand
    pub need: Need,
}

/// Whether a member must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// the object is refused without it
    Required,
    /// it may be absent
    Optional,
    /// the same, and a null in its place is taken for its absence
    NullIsAbsent,
}

/// Objects that are told apart by one member.
#[derive(Debug)]
pub struct Union {
    /// the member
    pub tag: &'static str,
    /// its values, and the object of each
    pub arms: &'static [(&'static str, &'static Record)],
    /// whether a `binary` part of 0.x is converted here
    pub binary: bool,
}

/// `type` of the content part that 1.0 retired; the client still converts one that stands in a message (§1.3).
pub const BINARY: &str = "binary";

const fn req(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, need: Need::Required }
}

const fn opt(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, need: Need::Optional }
}

const fn lax(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, need: Need::NullIsAbsent }
}

const fn closed(members: &'static [Member]) -> Record {
    Record { members, open: false }
}

const fn open(members: &'static [Member]) -> Record {
    Record { members, open: true }
}

use Shape::{Any, Count, List, NonEmpty, Object, Open, Pointer, Present, Str, TextOr, Word};

const TYPE: Member = req("type", Str);
const ROLE: Member = req("role", Str);
const OP: Member = req("op", Str);

// Content parts and their sources. Those in messages may have been written by an old peer, those of a result may not.
static DATA_SOURCE: Record = closed(&[TYPE, req("value", Str), req("mimeType", Str)]);
static URL_SOURCE: Record = closed(&[TYPE, req("value", Str), opt("mimeType", Str)]);
static FILE_SOURCE: Record = closed(&[TYPE, req("value", Str), opt("provider", Str), opt("mimeType", Str)]);
static SOURCE: Union =
    Union { tag: "type", arms: &[("data", &DATA_SOURCE), ("url", &URL_SOURCE), ("file", &FILE_SOURCE)], binary: false };
static TEXT_PART: Record = closed(&[TYPE, opt("id", Str), req("text", Str), opt("metadata", Present)]);
static MEDIA_PART: Record =
    closed(&[TYPE, opt("id", Str), req("source", Shape::Union(&SOURCE)), opt("metadata", Present)]);
static OLD_MEDIA_PART: Record =
    closed(&[TYPE, opt("id", Str), req("source", Shape::Union(&SOURCE)), lax("metadata", Present)]);
static PART: Union = Union {
    tag: "type",
    arms: &[
        ("text", &TEXT_PART),
        ("image", &MEDIA_PART),
        ("audio", &MEDIA_PART),
        ("video", &MEDIA_PART),
        ("document", &MEDIA_PART),
    ],
    binary: false,
};
static MESSAGE_PART: Union = Union {
    tag: "type",
    arms: &[
        ("text", &TEXT_PART),
        ("image", &OLD_MEDIA_PART),
        ("audio", &OLD_MEDIA_PART),
        ("video", &OLD_MEDIA_PART),
        ("document", &OLD_MEDIA_PART),
    ],
    binary: true,
};
/// A part of a tool's result.
pub static RESULT_CONTENT: Shape = Shape::Union(&PART);
static MESSAGE_CONTENT: Shape = Shape::Union(&MESSAGE_PART);

// Messages.
const OWNER: Member = opt("subagentRunId", Str);
const ID: Member = req("id", Str);
const NAME: Member = opt("name", Str);
const ENCRYPTED: Member = opt("encryptedValue", Str);
const METADATA: Member = opt("metadata", Open);
static FUNCTION: Record = closed(&[req("name", Str), req("arguments", Str)]);
static TOOL_CALL: Record =
    closed(&[ID, req("type", Word(&["function"])), req("function", Object(&FUNCTION)), ENCRYPTED, METADATA]);
static TOOL_CALLS: Shape = Object(&TOOL_CALL);
static PLAIN_MESSAGE: Record = closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, req("content", Str)]);
static ASSISTANT_MESSAGE: Record =
    closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, opt("content", Str), opt("toolCalls", List(&TOOL_CALLS))]);
static USER_MESSAGE: Record =
    closed(&[OWNER, ID, ROLE, NAME, ENCRYPTED, METADATA, req("content", TextOr(&MESSAGE_CONTENT))]);
static TOOL_MESSAGE: Record = closed(&[
    OWNER,
    ID,
    ROLE,
    req("content", TextOr(&MESSAGE_CONTENT)),
    req("toolCallId", Str),
    opt("error", Str),
    ENCRYPTED,
    METADATA,
]);
static ACTIVITY_MESSAGE: Record = closed(&[OWNER, ID, ROLE, req("activityType", Str), req("content", Open), METADATA]);
static REASONING_MESSAGE: Record = closed(&[OWNER, ID, ROLE, req("content", Str), ENCRYPTED, METADATA]);
/// Messages, told apart by their role.
pub static MESSAGES: Union = Union {
    tag: "role",
    arms: &[
        (TEXT_ROLES[0], &PLAIN_MESSAGE),
        (TEXT_ROLES[1], &PLAIN_MESSAGE),
        (TEXT_ROLES[2], &ASSISTANT_MESSAGE),
        (TEXT_ROLES[3], &USER_MESSAGE),
        ("tool", &TOOL_MESSAGE),
        (input::ACTIVITY, &ACTIVITY_MESSAGE),
        (input::REASONING, &REASONING_MESSAGE),
    ],
    binary: false,
};
static MESSAGE: Shape = Shape::Union(&MESSAGES);

// The echo of a run input. "state: null" is taken, unlike any other null.
static TOOL: Shape =
    Object(&closed(&[req("name", Str), req("description", Str), lax("parameters", Present), METADATA]));
static CONTEXT: Shape = Object(&closed(&[req("description", Str), req("value", Str)]));
static RESUME: Shape = Object(&closed(&[
    req("interruptId", Str),
    req("status", Word(&["resolved", "cancelled"])),
    lax("payload", Present),
    METADATA,
]));
static INPUT: Record = closed(&[
    req("threadId", Str),
    req("runId", Str),
    opt("protocolVersion", Str),
    opt("parentRunId", Str),
    opt("state", Any),
    req("messages", List(&MESSAGE)),
    opt("tools", List(&TOOL)),
    opt("context", List(&CONTEXT)),
    lax("forwardedProps", Present),
    opt("resume", List(&RESUME)),
]);

// How runs and subagents end.
static INTERRUPT: Shape = Object(&closed(&[
    OWNER,
    ID,
    req("reason", Str),
    opt("message", Str),
    opt("toolCallId", Str),
    opt("responseSchema", Open),
    opt("expiresAt", Str),
    METADATA,
]));
static RUN_OUTCOME: Union = Union {
    tag: "type",
    arms: &[
        ("success", &closed(&[TYPE, opt("pendingToolCallIds", List(&Str))])),
        ("interrupt", &closed(&[TYPE, req("interrupts", NonEmpty(&INTERRUPT))])),
        ("cancelled", &closed(&[TYPE])),
    ],
    binary: false,
};
static SUBAGENT_OUTCOME: Union = Union {
    tag: "type",
    arms: &[("success", &closed(&[TYPE])), ("suspended", &closed(&[TYPE, opt("interruptIds", List(&Str))]))],
    binary: false,
};
static USAGE: Shape = Object(&closed(&[
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
static VALUED: Record = open(&[OP, req("path", Pointer), req("value", Any)]);
static MOVING: Record = open(&[OP, req("from", Pointer), req("path", Pointer)]);
static OPERATIONS: Union = Union {
    tag: "op",
    arms: &[
        ("add", &VALUED),
        ("remove", &open(&[OP, req("path", Pointer)])),
        ("replace", &VALUED),
        ("move", &MOVING),
        ("copy", &MOVING),
        ("test", &VALUED),
    ],
    binary: false,
};
static OPERATION: Shape = Shape::Union(&OPERATIONS);

/// What the value of `slot` on an event of `kind` must look like.
#[must_use]
pub const fn shape(kind: Kind, slot: &Slot) -> Shape {
    match slot.form {
        Form::Str => Str,
        Form::Word(words) => Word(words),
        Form::Any => Any,
        Form::Present => Present,
        Form::Object => Open,
        // MESSAGES_SNAPSHOT alone has a plain list.
        Form::Array => List(&MESSAGE),
        Form::Patch => List(&OPERATION),
        Form::Outcome => match kind {
            Kind::SubagentFinished => Shape::Union(&SUBAGENT_OUTCOME),
            _ => Shape::Union(&RUN_OUTCOME),
        },
        Form::Usage => List(&USAGE),
        Form::Input => Object(&INPUT),
        Form::Content => TextOr(&RESULT_CONTENT),
        Form::Bool => Shape::Bool,
        Form::Integer => Shape::Integer,
    }
}

/// Whether the client takes a null in place of this member for its absence (§1.1, "→absent").
#[must_use]
pub const fn null_is_absent(kind: Kind, field: Field) -> bool {
    match field {
        Field::RawEvent => true,
        Field::Result => matches!(kind, Kind::RunFinished | Kind::SubagentFinished),
        Field::Outcome => matches!(kind, Kind::RunFinished),
        Field::ParentMessageId => matches!(kind, Kind::ToolCallStart | Kind::ToolCallChunk),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// Names of the records in the published schema, and ours.
    static RECORDS: &[(&str, &Record)] = &[
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
        ("AddOperation", &VALUED),
        ("MoveOperation", &MOVING),
    ];

    #[test]
    fn the_records_say_what_the_schema_of_the_specification_says() {
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
            let ours: BTreeMap<String, bool> =
                record.members.iter().map(|member| (member.name.to_owned(), member.need == Need::Required)).collect();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
