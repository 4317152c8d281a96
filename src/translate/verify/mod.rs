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
mod finding;
mod frame;
mod lane;
mod order;
mod promise;
mod rule;
#[cfg(test)]
mod tests;
mod value;

pub use finding::Finding;
pub use rule::{Rule, Severity};

use crate::codec::json;
use crate::dialect::{AG_UI, Dialect, Side};
use checks::Checks;
use frame::{Blocks, Standard, TooLarge};

/// What was counted of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// frames with data, or lines of NDJSON
    pub events: u64,
    /// findings that make the real client reject the run
    pub violations: u64,
    /// all others
    pub warnings: u64,
    /// the line and the rule of the first violation: from there on the client hears nothing
    pub first: Option<(u64, Rule)>,
}

impl Summary {
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
    cut: Cut,
    checks: Checks,
}

/// How the input becomes frames.
#[derive(Debug)]
enum Cut {
    /// as the real client cuts it
    Client(Blocks),
    /// as the standard says
    Standard(Box<Standard>),
    /// one event a line
    Lines { line: u64 },
    /// its first line is no event, so it is no NDJSON, and the client finds nothing in it
    Nothing { line: u64 },
    /// nothing more can be read
    Broken { line: u64 },
}

impl Verifier {
    /// For a stream in this dialect, by the options with which it is read.
    #[must_use]
    pub fn new(side: Side) -> Self {
        let cut = if is_canonical(side.dialect) {
            Cut::Client(Blocks::default())
        } else {
            Cut::Standard(Box::new(Standard::from_line(1)))
        };
        Verifier { cut, checks: Checks::new(side) }
    }

    /// Takes bytes of an event stream as they came and appends what is found.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Finding>) {
        let Verifier { cut, checks } = self;
        let pushed = match cut {
            Cut::Client(blocks) => blocks.push(bytes, &mut |block| checks.block(&block, out)),
            Cut::Standard(frames) => frames.push(bytes, &mut |data, line| checks.frame(data, line, out)),
            Cut::Lines { .. } | Cut::Nothing { .. } | Cut::Broken { .. } => Ok(()),
        };
        if pushed == Err(TooLarge) {
            self.too_large(out);
        }
    }

    /// A frame is too large, so that nothing behind it can be read.
    pub fn too_large(&mut self, out: &mut Vec<Finding>) {
        if !matches!(self.cut, Cut::Broken { .. }) {
            let line = self.here();
            self.cut = Cut::Broken { line };
            self.checks.alone(Rule::FrameTooLarge, line, "the rest of the input was not read", out);
        }
    }

    /// Takes one message of protobuf as JSON. It counts as a line.
    pub fn message(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match self.cut {
            Cut::Lines { line } => line + 1,
            _ => 1,
        };
        self.cut = Cut::Lines { line };
        self.checks.frame(text, line, out);
    }

    /// Takes one line of NDJSON, without its line end.
    pub fn line(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match &mut self.cut {
            Cut::Client(blocks) => blocks.pass(),
            Cut::Standard(frames) => frames.here(),
            Cut::Lines { line } | Cut::Nothing { line } | Cut::Broken { line } => *line + 1,
        };
        self.cut = match self.cut {
            Cut::Nothing { .. } => Cut::Nothing { line },
            _ if text.trim().is_empty() || self.checks.summary.events > 0 || is_event(text) => Cut::Lines { line },
            // A JSON document, say: the client ends the run without an event.
            _ => Cut::Nothing { line },
        };
        if matches!(self.cut, Cut::Lines { .. }) && !text.trim().is_empty() {
            self.checks.frame(text.trim(), line, out);
        }
    }

    /// The input has ended: says what can be said only now.
    pub fn finish(&mut self, out: &mut Vec<Finding>) {
        let Verifier { cut, checks } = self;
        match cut {
            Cut::Client(blocks) => {
                if let Some(block) = blocks.finish() {
                    checks.block(&block, out);
                }
            }
            Cut::Standard(frames) => frames.finish(&mut |data, line| checks.frame(data, line, out)),
            Cut::Lines { .. } | Cut::Nothing { .. } | Cut::Broken { .. } => {}
        }
        self.checks.finish(matches!(self.cut, Cut::Broken { .. }), out);
    }

    /// What was counted so far.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.checks.summary
    }

    fn here(&self) -> u64 {
        match &self.cut {
            Cut::Client(blocks) => blocks.here(),
            Cut::Standard(frames) => frames.here(),
            Cut::Lines { line } | Cut::Nothing { line } | Cut::Broken { line } => *line,
        }
    }
}

/// Whether the real client itself reads the dialect.
fn is_canonical(dialect: &'static Dialect) -> bool {
    std::ptr::eq(dialect, &raw const AG_UI)
}

/// Whether a text is an object with a `type`.
fn is_event(text: &str) -> bool {
    json::open_object(text).is_ok_and(|object| object.kind.is_some_and(|kind| kind.text().is_some()))
}
