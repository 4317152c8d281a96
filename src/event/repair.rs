//! The repairs and losses that a translation can report, each with its label.

macro_rules! label_enum {
    ($(#[$meta:meta])* $name:ident { $(#[doc = $doc:literal] $variant:ident = $label:literal $(breaks $rule:literal)?,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $(#[doc = $doc] $variant,)+ }

        impl $name {
            /// Lists all values in table order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the label used in metrics and reports.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
            }

            /// Returns a sentence, without a full stop: what happened, a colon, and what is done.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $($name::$variant => $doc.trim_ascii(),)+ }
            }

            /// Returns the rule that the agent broke; `None` if the specification or the dialect permits the original.
            #[must_use]
            pub const fn rule(self) -> Option<&'static str> {
                match self { $($name::$variant => label_enum!(@rule $($rule)?),)+ }
            }
        }
    };
    (@rule) => { None };
    (@rule $rule:literal) => { Some($rule) };
}

label_enum! {
    /// A repair that makes the real client accept the stream, without losing data.
    EventRepair {
        /// the stream did not begin with RUN_STARTED: one is added
        RunStartedSupplied = "run_started_supplied" breaks "the first event is the start of the run, or an error",
        /// the agent used another thread or run id than the request: the request's id is sent, the agent's is carried
        IdsReplaced = "ids_replaced",
        /// the run's end named another thread or run than its start: the run's ids are sent, the others are carried
        IdsDisagree = "ids_disagree" breaks "the end of a run names the thread and the run that its start named",
        /// a message, call or step was used without a start: a start is added
        OpenerSupplied = "opener_supplied" breaks "a message, tool call or step is started before it is continued or ended",
        /// an item was still open at RUN_FINISHED, or when another began with its id: its end is added
        CloserSupplied = "closer_supplied" breaks "every item is ended before the run finishes",
        /// an optional member was null: it is left out
        NullDropped = "null_dropped" breaks "an optional member is absent rather than null",
        /// a required member with one obvious value was missing: it is added
        MemberSupplied = "member_supplied" breaks "a required member is present",
        /// a value of the wrong JSON type had one obvious reading: it is converted, such as a number to its text
        TypeConverted = "type_converted" breaks "a member has the type that the specification gives it",
        /// the AG-UI client would reject a value: it is moved to `metadata.diglot`
        ValueCarried = "value_carried" breaks "a member has one of its specified values",
        /// an operation of a JSON Patch was invalid: it is corrected
        PatchMended = "patch_mended" breaks "a JSON Patch is valid under RFC 6902",
        /// a message of another kind or an earlier run had the id, or it began with `interrupt:`: it becomes `<id>:<kind>` or `agent:<id>`
        IdNamespaced = "id_namespaced",
        /// two interrupts in a run had the same id: the later one is carried
        InterruptRepeated = "interrupt_repeated" breaks "the ids of a run's interrupts are unique",
        /// a call listed as pending was never made or was already answered: its id is carried
        PendingUnknown = "pending_unknown" breaks "a pending tool call is a call of this run without a result",
        /// a result belonged to an unknown call: it passes unchanged
        ResultUnknown = "result_unknown",
        /// no dialect has an event of this type, or no rule of the dialect file reads the frame: it is sent as CUSTOM, named `<dialect>.<TYPE>`, or as RAW
        UnknownType = "unknown_type",
        /// only another dialect has an event of this type (`agent` of the route may be wrong): it is sent as CUSTOM
        ForeignType = "foreign_type",
        /// an event had the name that AG-UI gives it: it is read as that
        AgUiName = "ag_ui_name",
        /// AG-UI 1.0 has no event of this type any more (THINKING_*): it is read as its successor (REASONING_*), with an id that the gateway makes
        RetiredType = "retired_type",
        /// an older client has one span of thinking with one message at a time: the starts and ends that it needs are added
        ThinkingFramed = "thinking_framed",
        /// a frame was not an event: it is sent as RAW
        MalformedFrame = "malformed_frame" breaks "each frame is a JSON object with a type and its required members",
        /// a member was in snake_case or occurred twice: it is sent in camelCase, once
        KeyNormalized = "respelt",
    }
}

label_enum! {
    /// Content that the receiver does not get, or gets without showing it. The list is short, and every entry is counted.
    ///
    /// Labels that end with `_not_shown` are content that is carried: nothing of it is gone, but the client's user does
    /// not see it, or, in a request, the agent does not.
    EventLoss {
        /// an event followed the end of the run: it is left out
        AfterTerminal = "after_terminal" breaks "nothing follows the end of a run",
        /// RUN_STARTED came while the run was active: it is left out
        SecondStart = "second_start" breaks "a run is started only once",
        /// an item was started while it was open, or ended while it was not: the start or end is left out, and so are arguments that a call repeats
        StrayBoundary = "stray_boundary" breaks "an item is started only while closed, and ended only while open",
        /// the agent sent the end marker `[DONE]`, which is not an event: it is left out
        DoneMarker = "done_marker",
        /// a line behind the first began with a byte order mark (U+FEFF), so that it is no `data:` line: what it has is left out
        MarkedLine = "marked_line",
        /// the dialect, or `strip` of the route's own dialect, does not allow a member: it is left out
        Stripped = "stripped",
        /// an older peer cannot receive something in any form: it is left out
        Downgraded = "downgraded",
        /// a content part of a later protocol version arrived in protobuf: it is left out
        UnknownPart = "unknown_part",
        /// an event is too large to carry data that has no protobuf form: the nearest protobuf form is sent
        Rounded = "rounded",
        /// a frame belonged to another run, in a stream that outlives runs: it is left out
        OtherRun = "other_run",
        /// a frame had already been received, in a resumed stream: it is left out
        Repeated = "repeated",
        /// the receiver's dialect has no form for an activity: it is carried, and not shown
        ActivityNotShown = "activity_not_shown",
        /// the receiver's dialect has no form for reasoning, or the agent's snapshot lacks an open thought: it is carried, and not shown
        ReasoningNotShown = "reasoning_not_shown",
        /// the receiver's dialect has no form for a subagent, or for one of its steps: it is carried, and not shown
        SubagentNotShown = "subagent_not_shown",
        /// the receiver's dialect has no form for an interrupt: it is carried, and the user is not asked
        InterruptNotShown = "interrupt_not_shown",
        /// the receiver's dialect has no place for a part of a content, such as an image: it is carried, and not shown
        PartNotShown = "part_not_shown",
        /// the receiver's dialect has no place for a message, or for a text that is shown next to one, or the agent's snapshot lacks an open message: it is carried, and not shown
        TextNotShown = "text_not_shown",
        /// an older client has the role of the assistant alone for streamed text: the role is carried, and the text is shown as the assistant's
        RoleNotShown = "role_not_shown",
        /// a frame is no event of the agent's dialect, or one without a canonical form, or a call has no end that an older client needs: it is sent as RAW or CUSTOM, and not shown; or the agent's snapshot lacks an open call: the client drops it
        EventNotShown = "event_not_shown",
        /// nothing is kept of the conversation's earlier runs, so that the agent may not know its earlier messages: the client gets CUSTOM `diglot.conversation_lost`
        ConversationLost = "conversation_lost",
    }
}

impl EventLoss {
    /// Returns true if the content reaches the receiver, which does not show it.
    #[must_use]
    pub const fn is_carried(self) -> bool {
        matches!(
            self,
            EventLoss::ActivityNotShown
                | EventLoss::ReasoningNotShown
                | EventLoss::SubagentNotShown
                | EventLoss::InterruptNotShown
                | EventLoss::PartNotShown
                | EventLoss::TextNotShown
                | EventLoss::RoleNotShown
                | EventLoss::EventNotShown
        )
    }
}

/// Occurrences of each loss, in the order of [`EventLoss`].
pub type LossCounts = [u64; EventLoss::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_distinguish_carried_losses_which_break_no_rule() {
        for loss in EventLoss::ALL {
            assert_eq!(loss.is_carried(), loss.label().ends_with("_not_shown"), "{}", loss.label());
            assert!(!loss.is_carried() || loss.rule().is_none(), "{}", loss.label());
        }
    }
}
