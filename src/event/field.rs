//! The canonical member names of AG-UI 1.0, each written once, with its snake_case spelling.
//!
//! Both spellings of a known member are accepted everywhere (`translation.md` §1).

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $camel:literal / $snake:literal,)+) => {
        /// A member name that AG-UI 1.0 defines on events, messages or run input.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names are the specification's own")]
        pub enum Field { $($(#[$doc])* $name,)+ }

        impl Field {
            /// Lists every field in table order.
            pub const ALL: &'static [Field] = &[$(Field::$name,)+];

            /// Returns the canonical spelling.
            #[must_use]
            pub const fn camel(self) -> &'static str {
                match self { $(Field::$name => $camel,)+ }
            }

            /// Returns the snake_case spelling, which equals the canonical one for a single word.
            #[must_use]
            pub const fn snake(self) -> &'static str {
                match self { $(Field::$name => $snake,)+ }
            }
        }
    };
}

fields! {
    /// milliseconds since the epoch
    Timestamp = "timestamp" / "timestamp",
    /// the producer's own event: any JSON except null
    RawEvent = "rawEvent" / "raw_event",
    /// an open object, which also carries extra members
    Metadata = "metadata" / "metadata",
    /// the subagent that produced an attributable event
    SubagentRunId = "subagentRunId" / "subagent_run_id",
    MessageId = "messageId" / "message_id",
    /// the author's role
    Role = "role" / "role",
    /// display name of the author, or the name of a CUSTOM event, tool or subagent
    Name = "name" / "name",
    /// a piece of text, or a JSON Patch for the state
    Delta = "delta" / "delta",
    ToolCallId = "toolCallId" / "tool_call_id",
    ToolCallName = "toolCallName" / "tool_call_name",
    /// the message that contains a tool call
    ParentMessageId = "parentMessageId" / "parent_message_id",
    /// the body of a message, tool result or activity
    Content = "content" / "content",
    /// the complete state
    Snapshot = "snapshot" / "snapshot",
    Messages = "messages" / "messages",
    ActivityType = "activityType" / "activity_type",
    /// whether the activity snapshot replaces the previous one
    Replace = "replace" / "replace",
    Patch = "patch" / "patch",
    Event = "event" / "event",
    Source = "source" / "source",
    Value = "value" / "value",
    ThreadId = "threadId" / "thread_id",
    RunId = "runId" / "run_id",
    /// protocol version of the producer, `MAJOR.MINOR`
    ProtocolVersion = "protocolVersion" / "protocol_version",
    /// the run that this one branched from
    ParentRunId = "parentRunId" / "parent_run_id",
    /// an echo of the run input
    Input = "input" / "input",
    /// the return value of a run or subagent
    Result = "result" / "result",
    /// how a run or subagent ended
    Outcome = "outcome" / "outcome",
    /// token counts
    Usage = "usage" / "usage",
    Message = "message" / "message",
    Code = "code" / "code",
    StepName = "stepName" / "step_name",
    /// what owns an encrypted value: a message or a tool call
    Subtype = "subtype" / "subtype",
    /// id of the message or tool call that an encrypted value belongs to
    EntityId = "entityId" / "entity_id",
    /// an opaque value for the model's provider
    EncryptedValue = "encryptedValue" / "encrypted_value",
    /// the purpose of a subagent or tool
    Description = "description" / "description",
    /// the subagent that started this one
    ParentSubagentRunId = "parentSubagentRunId" / "parent_subagent_run_id",
    /// the tool call that started a subagent
    ParentToolCallId = "parentToolCallId" / "parent_tool_call_id",
    /// id of a message or tool call in a list
    Id = "id" / "id",
    ToolCalls = "toolCalls" / "tool_calls",
    Error = "error" / "error",
    /// shared state, in run input
    State = "state" / "state",
    Tools = "tools" / "tools",
    /// information from the application for the agent
    Context = "context" / "context",
    /// passed through unchanged
    ForwardedProps = "forwardedProps" / "forwarded_props",
    /// answers to interrupts
    Resume = "resume" / "resume",
}

impl Field {
    /// Finds the field by either spelling.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Field> {
        Field::find(name).map(|found| found.field)
    }

    /// Returns the spelling of a field, canonical or not.
    #[must_use]
    pub(crate) fn find(name: &str) -> Option<&'static FieldName> {
        let mut place = name_place(name.as_bytes());
        // Every name of a frame is looked up, so a search through the list would be a tenth of a translation.
        while let Some(entry) = &NAMES[place] {
            if entry.name == name {
                return Some(entry);
            }
            place = (place + 1) % NAME_PLACES;
        }
        None
    }

    /// Returns the bit of the field in a set of fields.
    #[must_use]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// Returns the name in the dialect's case.
    #[must_use]
    pub const fn wire_name(self, snake: bool) -> &'static str {
        if snake { self.snake() } else { self.camel() }
    }
}

/// Four times as many as there are spellings, so that nearly each has its own place.
const NAME_PLACES: usize = 256;

/// One spelling of a field.
#[derive(Clone, Copy)]
pub(crate) struct FieldName {
    name: &'static str,
    pub(crate) field: Field,
    /// the canonical spelling
    pub(crate) is_camel: bool,
}

/// All spellings, each in its place or in the first free one after it. Most places are free.
static NAMES: [Option<FieldName>; NAME_PLACES] = {
    let mut names: [Option<FieldName>; NAME_PLACES] = [None; NAME_PLACES];
    let mut at = 0;
    while at < Field::ALL.len() {
        let field = Field::ALL[at];
        let camel = field.camel();
        let snake = field.snake();
        names[free_place(&names, camel)] = Some(FieldName { name: camel, field, is_camel: true });
        // The spelling of a single word differs in no letter.
        if snake.len() != camel.len() {
            names[free_place(&names, snake)] = Some(FieldName { name: snake, field, is_camel: false });
        }
        at += 1;
    }
    names
};

const fn free_place(names: &[Option<FieldName>; NAME_PLACES], name: &str) -> usize {
    let mut place = name_place(name.as_bytes());
    while names[place].is_some() {
        place = (place + 1) % NAME_PLACES;
    }
    place
}

/// Returns the place of a name in [`NAMES`], from its length and three of its bytes.
const fn name_place(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let (first, middle, last) = (name[0] as usize, name[length / 2] as usize, name[length - 1] as usize);
    (length * 5 + first * 43 + middle * 13 + last) % NAME_PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_parse_back() {
        let mut seen = HashSet::new();
        for &field in Field::ALL {
            assert!(seen.insert(field.camel()), "{} stands twice", field.camel());
            assert_eq!(Field::from_wire(field.camel()), Some(field));
            assert_eq!(Field::from_wire(field.snake()), Some(field));
        }
        for name in ["MessageId", "", "x", "message-id", "消息"] {
            assert_eq!(Field::from_wire(name), None);
        }
        let find = |name| Field::find(name).map(|found| (found.field, found.is_camel));
        assert_eq!(find("runId"), Some((Field::RunId, true)));
        assert_eq!(find("run_id"), Some((Field::RunId, false)));
        assert_eq!(find("role"), Some((Field::Role, true)));
    }

    #[test]
    fn snake_case_names_follow_from_camel_case_names() {
        for &field in Field::ALL {
            let mut snake = String::new();
            for c in field.camel().chars() {
                if c.is_ascii_uppercase() {
                    snake.push('_');
                }
                snake.push(c.to_ascii_lowercase());
            }
            assert_eq!(field.snake(), snake);
        }
    }
}
