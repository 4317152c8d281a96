//! What the engine did besides translating: repairs and losses, each with a name from a closed list.

macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The label in metrics and reports.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
            }
        }
    };
}

closed! {
    /// Something that was mended so that the real client accepts the stream. Nothing is lost by one.
    Repair {
        /// the stream did not begin with RUN_STARTED
        RunStartedSupplied = "run_started_supplied",
        /// the agent's ids of thread or run gave way to the request's, and were carried
        IdsReplaced = "ids_replaced",
        /// a use of a message, call or step that nobody had opened
        OpenerSupplied = "opener_supplied",
        /// something was still open at RUN_FINISHED
        CloserSupplied = "closer_supplied",
        /// an optional member was null as a whole
        NullDropped = "null_dropped",
        /// a required member was missing and has one obvious value
        MemberSupplied = "member_supplied",
        /// a value of the wrong JSON type had one obvious reading
        TypeConverted = "type_converted",
        /// a value that the real client would refuse went to `metadata.diglot`
        ValueCarried = "value_carried",
        /// an operation of a JSON Patch was brought into form
        PatchMended = "patch_mended",
        /// a type that the agent's dialect does not have left as CUSTOM
        UnknownType = "unknown_type",
        /// the same, and the type is one of another dialect: the route names the wrong one
        ForeignType = "foreign_type",
        /// a frame that is no event left as RAW
        MalformedFrame = "malformed_frame",
        /// a member stood in snake_case or twice
        Respelt = "respelt",
    }
}

closed! {
    /// Something that was left out on purpose. The list is short, and every entry is counted.
    Loss {
        /// an event after the terminal one
        AfterTerminal = "after_terminal",
        /// RUN_STARTED while the run was active
        SecondStart = "second_start",
        /// the start of something open, or the end of something that is not
        StrayBoundary = "stray_boundary",
        /// `data: [DONE]`
        DoneMarker = "done_marker",
        /// a content part that came in protobuf, of a kind that a later protocol defines
        UnknownPart = "unknown_part",
        /// what protobuf cannot say, in an event too large to carry it (`codec::proto`)
        Rounded = "rounded",
    }
}

/// Counts since the stream opened.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// by [`Repair`], in the order of its table
    pub repairs: [u64; Repair::ALL.len()],
    /// by [`Loss`], in the order of its table
    pub losses: [u64; Loss::ALL.len()],
    /// events from the agent, by label of its dialect
    pub read: Box<[u64]>,
    /// events to the client, by label of its dialect
    pub written: Box<[u64]>,
}

impl Report {
    /// Counts a repair.
    pub fn repair(&mut self, repair: Repair) {
        self.repairs[repair as usize] += 1;
    }

    /// Counts a loss.
    pub fn loss(&mut self, loss: Loss) {
        self.losses[loss as usize] += 1;
    }
}
