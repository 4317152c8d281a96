//! Verification: whether the real client would accept a recorded stream, and what else the specification forbids in it.
//!
//! ```text
//!   bytes ─▶ frames ─▶ [reader of the dialect] ─▶ values ─▶ chunks unfolded ─▶ order     ─▶ findings
//!            with lines                           (strip)                  └─▶ promises
//! ```
//!
//! The stages are those of `@ag-ui/client` 1.0.0 (`specs/ag-ui-1.0.md` §3.1), in its order, so the verdict is the client's:
//! a stream with a violation is rejected, one without is accepted. A stream of another dialect goes through the gateway's
//! own reader first, and is held against the same rules as canonical events; what the reader had to mend is reported too.

mod checks;
mod chunks;
mod finding;
mod frame;
mod order;
mod producer_checks;
mod rule;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use finding::Finding;
pub use rule::{Rule, RuleSeverity};

use crate::codec::json;
use crate::dialect::{AG_UI, Dialect, PeerDialect};
use checks::EventChecks;
use frame::{BlockSplitter, BlockTooLarge, StandardSplitter};

/// What was counted of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifySummary {
    /// frames with data, or lines of NDJSON
    pub(crate) events: u64,
    /// findings that make the real client reject the run
    pub(crate) violations: u64,
    /// all others
    pub(crate) warnings: u64,
    /// the line and the rule of the first violation: from there on the client hears nothing
    pub(crate) first_violation: Option<(u64, Rule)>,
}

impl VerifySummary {
    /// Whether the real client accepts the stream.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.violations == 0
    }
}

/// Verifies one stream, piece by piece.
///
/// ```
/// use diglot::{dialect::{self, Side}, translate::verify::Verifier};
///
/// let mut verifier = Verifier::new(Side::new(dialect::by_name("ag-ui").expect("a dialect")));
/// let mut findings = Vec::new();
/// verifier.push(b"data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n", &mut findings);
/// verifier.finish(&mut findings);
/// assert_eq!(findings[0].rule.label(), "not-started");
/// assert!(!verifier.summary().is_accepted());
/// ```
#[derive(Debug)]
pub struct Verifier {
    splitter: InputSplitter,
    checks: EventChecks,
}

/// How the input becomes frames.
#[derive(Debug)]
enum InputSplitter {
    /// as the real client cuts it
    Client(BlockSplitter),
    /// as the standard says
    Standard(Box<StandardSplitter>),
    /// one event a line
    Lines { line: u64 },
    /// its first line is no event, so it is no NDJSON, and the client finds nothing in it
    NotEvents { line: u64 },
    /// nothing more can be read
    Failed { line: u64 },
}

impl Verifier {
    /// For a stream in this dialect, by the options with which it is read.
    #[must_use]
    pub fn new(side: PeerDialect) -> Self {
        let splitter = if is_canonical(side.dialect) {
            InputSplitter::Client(BlockSplitter::default())
        } else {
            InputSplitter::Standard(Box::new(StandardSplitter::from_line(1)))
        };
        Verifier { splitter, checks: EventChecks::new(side) }
    }

    /// Takes bytes of an event stream as they came and appends what is found.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Finding>) {
        let Verifier { splitter: cut, checks } = self;
        let pushed = match cut {
            InputSplitter::Client(blocks) => blocks.push(bytes, &mut |block| checks.check_block(&block, out)),
            InputSplitter::Standard(frames) => {
                frames.push(bytes, &mut |data, line| checks.check_frame(data, line, out))
            }
            InputSplitter::Lines { .. } | InputSplitter::NotEvents { .. } | InputSplitter::Failed { .. } => Ok(()),
        };
        if pushed == Err(BlockTooLarge) {
            self.report_too_large(out);
        }
    }

    /// A frame is too large, so that nothing behind it can be read.
    pub(crate) fn report_too_large(&mut self, out: &mut Vec<Finding>) {
        if !matches!(self.splitter, InputSplitter::Failed { .. }) {
            let line = self.current_line();
            self.splitter = InputSplitter::Failed { line };
            self.checks.report_stream_problem(Rule::FrameTooLarge, line, "the rest of the input was not read", out);
        }
    }

    /// Takes one message of protobuf as JSON. It counts as a line.
    pub(crate) fn push_message(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match self.splitter {
            InputSplitter::Lines { line } => line + 1,
            _ => 1,
        };
        self.splitter = InputSplitter::Lines { line };
        self.checks.check_frame(text, line, out);
    }

    /// Takes one line of NDJSON, without its line end.
    pub(crate) fn push_line(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match &mut self.splitter {
            InputSplitter::Client(blocks) => blocks.skip_partial(),
            InputSplitter::Standard(frames) => frames.current_line(),
            InputSplitter::Lines { line } | InputSplitter::NotEvents { line } | InputSplitter::Failed { line } => {
                *line + 1
            }
        };
        self.splitter = match self.splitter {
            InputSplitter::NotEvents { .. } => InputSplitter::NotEvents { line },
            _ if text.trim().is_empty() || self.checks.summary.events > 0 || is_event(text) => {
                InputSplitter::Lines { line }
            }
            // A JSON document, say: the client ends the run without an event.
            _ => InputSplitter::NotEvents { line },
        };
        if matches!(self.splitter, InputSplitter::Lines { .. }) && !text.trim().is_empty() {
            self.checks.check_frame(text.trim(), line, out);
        }
    }

    /// The input has ended: says what can be said only now.
    pub fn finish(&mut self, out: &mut Vec<Finding>) {
        let Verifier { splitter: cut, checks } = self;
        match cut {
            InputSplitter::Client(blocks) => {
                if let Some(block) = blocks.finish() {
                    checks.check_block(&block, out);
                }
            }
            InputSplitter::Standard(frames) => frames.finish(&mut |data, line| checks.check_frame(data, line, out)),
            InputSplitter::Lines { .. } | InputSplitter::NotEvents { .. } | InputSplitter::Failed { .. } => {}
        }
        self.checks.finish(matches!(self.splitter, InputSplitter::Failed { .. }), out);
    }

    /// What was counted so far.
    #[must_use]
    pub fn summary(&self) -> &VerifySummary {
        &self.checks.summary
    }

    fn current_line(&self) -> u64 {
        match &self.splitter {
            InputSplitter::Client(blocks) => blocks.current_line(),
            InputSplitter::Standard(frames) => frames.current_line(),
            InputSplitter::Lines { line } | InputSplitter::NotEvents { line } | InputSplitter::Failed { line } => *line,
        }
    }
}

/// Whether the real client itself reads the dialect.
fn is_canonical(dialect: &'static Dialect) -> bool {
    std::ptr::eq(dialect, &raw const AG_UI)
}

/// Whether a text is an object with a `type`.
fn is_event(text: &str) -> bool {
    json::parse_open_object(text).is_ok_and(|object| object.kind.is_some_and(|kind| kind.text().is_some()))
}
