//! Verification rules: one table of names, severities and sentences.

/// The consequence of breaking a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSeverity {
    /// the real client rejects the run
    Violation,
    /// no client enforces it yet, or the client ignores the unknown content
    Warning,
}

impl RuleSeverity {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            RuleSeverity::Violation => "violation",
            RuleSeverity::Warning => "warning",
        }
    }
}

macro_rules! rules {
    ($($name:ident $severity:ident $label:literal $text:literal;)+) => {
        /// A rule. Sections refer to `specs/ag-ui-1.0.md`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its sentence in `text`")]
        pub enum Rule { $($name,)+ }

        impl Rule {
            /// Lists every rule in table order.
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)+];

            /// Returns the name used in reports, stable across releases.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Rule::$name => $label,)+ }
            }

            /// Returns the severity of a violation.
            #[must_use]
            pub const fn severity(self) -> RuleSeverity {
                match self { $(Rule::$name => RuleSeverity::$severity,)+ }
            }

            /// Returns the rule in one sentence.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Rule::$name => $text,)+ }
            }
        }
    };
}

rules! {
    // Reader.
    NotJson Violation "not-json" "the data of a frame must be one JSON text (§3.2 Reader)";
    NotAnObject Violation "not-an-object" "an event must be a JSON object (§3.2 Reader)";
    NoType Violation "no-type" "an event must have a `type` that is a string and not empty (§3.2 Reader)";
    EmptyData Violation "empty-data" "a `data:` line must not be empty (§4.2)";
    DoneMarker Violation "done-marker" "the stream must end without a `[DONE]` marker (§4.2)";
    NotSeparated Violation "not-separated" "events must be separated by two line feeds: the client accepts no other separator (§4.2)";
    MarkedLine Violation "marked-line" "a line must not begin with a byte order mark, except the first: it is dropped (§4.2)";
    FrameTooLarge Violation "frame-too-large" "an event must not be larger than 10 MiB (§4.2)";
    PartialFrame Violation "partial-frame" "a protobuf stream must end after a whole frame (§3.2 Reader)";
    // Values.
    MissingMember Violation "missing-member" "a required member must be present (§1.1, §2)";
    WrongValue Violation "wrong-value" "a known member must have a value of its described type (§3.1, class 3)";
    // Order.
    NotStarted Violation "not-started" "the first event must be the start of a run or an error (§3.2 Verify)";
    AlreadyActive Violation "already-active" "a run must not be started while one is active (§3.2 Verify)";
    AfterFinish Violation "after-finish" "only another start or an error may follow the end of a run (§3.2 Verify)";
    AfterError Violation "after-error" "only another start may follow an error (§3.2 Verify)";
    AlreadyOpen Violation "already-open" "an item must not be started while it is open (§3.2 Verify)";
    NotOpen Violation "not-open" "an item must be open when it is continued or ended (§3.2 Verify)";
    StillOpen Violation "still-open" "every item must be closed before the run finishes (§3.2 Verify)";
    OtherOwner Violation "other-owner" "a `subagentRunId` must be that of the opener (§3.2 Ownership)";
    SubagentReused Violation "subagent-reused" "a subagent id must be unique in a run (§3.2 Verify)";
    UnknownParent Violation "unknown-parent" "the parent of a subagent must have been started in this run (§3.2 Verify)";
    ChunkWithoutName Violation "chunk-without-name" "the first chunk must name the item that it opens (§3.2 Chunks)";
    ChunkConflict Violation "chunk-conflict" "a later chunk must not contradict the first one (§3.2 Chunks)";
    ChunkAmbiguous Violation "chunk-ambiguous" "a chunk without an id needs exactly one open stream of its kind (§3.2 Chunks)";
    // Content that the client drops, strips or tolerates.
    UnknownEvent Warning "unknown-event" "the client drops an event of an unknown type (§3.1, class 1)";
    UnknownMember Warning "unknown-member" "the client strips an unknown member (§3.1, class 2)";
    UnknownVariant Warning "unknown-variant" "the client removes an unknown variant of a union (§3.1, class 2)";
    NullMember Warning "null-member" "an optional member must be absent rather than null (§1.1)";
    RetiredShape Warning "retired-shape" "the form is not part of 1.0; the client converts it until 2027 (§1.3)";
    TooComplex Warning "too-complex" "an event beyond the limits of this program was not checked (200 levels, 256 members)";
    // Required by the specification, but not yet enforced by any client.
    Truncated Warning "truncated" "a run must end with a terminal event (§3.3)";
    NoEvents Warning "no-events" "the client accepts it, although it is not a run (§3.3)";
    Unterminated Warning "unterminated" "an event must end with an empty line; a proxy may drop this one (§4.2)";
    LineEndings Warning "line-endings" "lines must end with a line feed alone (§4.2)";
    SecondTerminal Warning "second-terminal" "a run must have only one terminal event (§7.4)";
    IdsDiffer Warning "ids-differ" "a run must end with the same ids as it began (§3.3)";
    OtherThread Warning "other-thread" "the runs of a stream must belong to one thread (§3.3)";
    DuplicateInterrupt Warning "duplicate-interrupt" "interrupt ids must be unique in a run (§2, §3.3)";
    PendingCall Warning "pending-call" "a pending call must be a call of this run without a result (§2, §3.3)";
    UnknownCall Warning "unknown-call" "a result should belong to a call in the stream (§3.3)";
    UnfitPatch Warning "unfit-patch" "a patch must fit what the client holds, which otherwise leaves it out (§3.4)";
    InvalidArguments Warning "invalid-arguments" "the arguments of a finished call must be one JSON text (§3.3)";
    CustomName Warning "custom-name" "a custom name must have a prefix: names without one are reserved for the protocol (§4.3)";
    // Other dialects.
    WrongDialect Violation "wrong-dialect" "at least one event must be of this dialect";
    ForeignEvent Warning "foreign-event" "the dialect does not read the event";
    Mended Warning "mended" "the gateway has to repair this to read it";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_sentences_cite_their_section() {
        let names: HashSet<_> = Rule::ALL.iter().map(|rule| rule.label()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            let ours = matches!(rule, Rule::TooComplex | Rule::WrongDialect | Rule::ForeignEvent | Rule::Mended);
            assert_eq!(rule.text().contains('§'), !ours, "{}", rule.label());
        }
    }
}
