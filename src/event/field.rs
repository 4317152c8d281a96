//! The canonical member names of AG-UI 1.0, each written once, with its snake_case spelling.
//!
//! Reading is liberal: both spellings of a known member are accepted wherever it may stand (`translation.md` §1).

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $camel:literal / $snake:literal,)+) => {
        /// A member name that AG-UI 1.0 defines on events, messages or run input.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field { $($(#[$doc])* $name,)+ }

        impl Field {
            /// Every field, in the order of the table.
            pub const ALL: &'static [Field] = &[$(Field::$name,)+];

            /// The canonical spelling.
            #[must_use]
            pub const fn camel(self) -> &'static str {
                match self { $(Field::$name => $camel,)+ }
            }

            /// The snake_case spelling; the same text where the name is one word.
            #[must_use]
            pub const fn snake(self) -> &'static str {
                match self { $(Field::$name => $snake,)+ }
            }

            /// The field that is written `name` in either spelling.
            #[must_use]
            #[allow(unreachable_patterns, reason = "one-word names are spelt alike in both styles")]
            pub fn from_wire(name: &str) -> Option<Field> {
                match name { $($camel | $snake => Some(Field::$name),)+ _ => None }
            }
        }
    };
}

fields! {
    /// ms since the epoch, informational
    Timestamp = "timestamp" / "timestamp",
    /// the producer's own event, any JSON but null
    RawEvent = "rawEvent" / "raw_event",
    /// open object; the home of everything that is carried
    Metadata = "metadata" / "metadata",
    /// who produced the event, on attributable events
    SubagentRunId = "subagentRunId" / "subagent_run_id",
    /// id of a message
    MessageId = "messageId" / "message_id",
    /// who speaks
    Role = "role" / "role",
    /// display name of the speaker, or name of a CUSTOM event, tool, subagent
    Name = "name" / "name",
    /// a piece of text, or a JSON Patch on state
    Delta = "delta" / "delta",
    /// id of a tool call
    ToolCallId = "toolCallId" / "tool_call_id",
    /// name of the called tool
    ToolCallName = "toolCallName" / "tool_call_name",
    /// message that owns a tool call
    ParentMessageId = "parentMessageId" / "parent_message_id",
    /// what a message, a tool result or an activity holds
    Content = "content" / "content",
    /// a whole state
    Snapshot = "snapshot" / "snapshot",
    /// a conversation
    Messages = "messages" / "messages",
    /// kind of an activity
    ActivityType = "activityType" / "activity_type",
    /// whether an activity snapshot replaces
    Replace = "replace" / "replace",
    /// JSON Patch on an activity
    Patch = "patch" / "patch",
    /// payload of RAW
    Event = "event" / "event",
    /// origin of RAW
    Source = "source" / "source",
    /// payload of CUSTOM
    Value = "value" / "value",
    /// id of a conversation
    ThreadId = "threadId" / "thread_id",
    /// id of a run
    RunId = "runId" / "run_id",
    /// what the producer speaks, `MAJOR.MINOR`
    ProtocolVersion = "protocolVersion" / "protocol_version",
    /// run that this one branched from
    ParentRunId = "parentRunId" / "parent_run_id",
    /// echo of the run input
    Input = "input" / "input",
    /// what a run or subagent returned
    Result = "result" / "result",
    /// how a run or subagent ended
    Outcome = "outcome" / "outcome",
    /// token counts
    Usage = "usage" / "usage",
    /// text of an error
    Message = "message" / "message",
    /// code of an error
    Code = "code" / "code",
    /// name of a step
    StepName = "stepName" / "step_name",
    /// what an encrypted value belongs to
    Subtype = "subtype" / "subtype",
    /// id of what an encrypted value belongs to
    EntityId = "entityId" / "entity_id",
    /// an opaque value for the model's provider
    EncryptedValue = "encryptedValue" / "encrypted_value",
    /// what a subagent or tool is for
    Description = "description" / "description",
    /// subagent that started this one
    ParentSubagentRunId = "parentSubagentRunId" / "parent_subagent_run_id",
    /// tool call that started a subagent
    ParentToolCallId = "parentToolCallId" / "parent_tool_call_id",
    /// id of a message or tool call inside a list
    Id = "id" / "id",
    /// tool calls of an assistant message
    ToolCalls = "toolCalls" / "tool_calls",
    /// error text of a tool message
    Error = "error" / "error",
    /// shared state, in run input
    State = "state" / "state",
    /// tools that the client offers
    Tools = "tools" / "tools",
    /// what the application tells the agent
    Context = "context" / "context",
    /// passed through untouched, always
    ForwardedProps = "forwardedProps" / "forwarded_props",
    /// answers to interrupts
    Resume = "resume" / "resume",
}

impl Field {
    /// The name as a snake_case or camelCase dialect writes it.
    #[must_use]
    pub const fn wire_name(self, snake: bool) -> &'static str {
        if snake { self.snake() } else { self.camel() }
    }
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
        assert_eq!(Field::from_wire("MessageId"), None);
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
