//! The repairs and losses that a translation can report, each with its label.

macro_rules! label_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $label:literal $(breaks $rule:literal)?,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Lists all values in table order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the label used in metrics and reports.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
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
        /// the stream did not begin with RUN_STARTED
        RunStartedSupplied = "run_started_supplied" breaks "the first event is the start of the run, or an error",
        /// the request's ids replaced the agent's thread or run id, which was carried
        IdsReplaced = "ids_replaced",
        /// the run's end named a different thread or run than its start; the ids were carried
        IdsDisagree = "ids_disagree" breaks "the end of a run names the thread and the run that its start named",
        /// a message, call or step was used without a start
        OpenerSupplied = "opener_supplied" breaks "a message, tool call or step is started before it is continued or ended",
        /// an item was still open at RUN_FINISHED
        CloserSupplied = "closer_supplied" breaks "every item is ended before the run finishes",
        /// an optional member was null
        NullDropped = "null_dropped" breaks "an optional member is absent rather than null",
        /// a required member was missing and has one obvious value
        MemberSupplied = "member_supplied" breaks "a required member is present",
        /// a value of the wrong JSON type had one obvious reading
        TypeConverted = "type_converted" breaks "a member has the type that the specification gives it",
        /// a value that the real client would reject was moved to `metadata.diglot`
        ValueCarried = "value_carried" breaks "a member has one of its specified values",
        /// a JSON Patch operation was corrected
        PatchMended = "patch_mended" breaks "a JSON Patch is valid under RFC 6902",
        /// a message shared its id with a message of another kind and was renamed to `<id>:<kind>`
        IdNamespaced = "id_namespaced",
        /// two interrupts in a run had the same id; the later one was carried
        InterruptRepeated = "interrupt_repeated" breaks "the ids of a run's interrupts are unique",
        /// a call listed as pending was never made or was already answered; the id was carried
        PendingUnknown = "pending_unknown" breaks "a pending tool call is a call of this run without a result",
        /// a result for an unknown call; it passes unchanged
        ResultUnknown = "result_unknown",
        /// a type unknown to the agent's dialect was sent as CUSTOM
        UnknownType = "unknown_type",
        /// a type of another dialect was sent as CUSTOM: the route may name the wrong dialect
        ForeignType = "foreign_type",
        /// a frame that is not an event was sent as RAW
        MalformedFrame = "malformed_frame" breaks "each frame is a JSON object with a type and its required members",
        /// a member was in snake_case or occurred twice
        KeyNormalized = "respelt",
    }
}

label_enum! {
    /// Data dropped on purpose. The list is short, and every entry is counted.
    EventLoss {
        /// an event after the terminal event
        AfterTerminal = "after_terminal" breaks "nothing follows the end of a run",
        /// RUN_STARTED while the run was active
        SecondStart = "second_start" breaks "a run is started only once",
        /// the start of an open item, or the end of one that is not open
        StrayBoundary = "stray_boundary" breaks "an item is started only while closed, and ended only while open",
        /// `data: [DONE]`
        DoneMarker = "done_marker",
        /// a member that the dialect or the route does not allow
        Stripped = "stripped",
        /// something that an older peer cannot receive in any form
        Downgraded = "downgraded",
        /// a content part from a later protocol, received in protobuf
        UnknownPart = "unknown_part",
        /// data without a protobuf form, in an event too large to carry it (`codec::proto`)
        Rounded = "rounded",
        /// a frame of another run, in a stream that outlives runs
        OtherRun = "other_run",
        /// a frame already received, in a resumed stream
        Repeated = "repeated",
    }
}
