//! Predicts whether the real client would accept a recorded stream, and reports other violations of the specification.
//!
//! ```text
//!   bytes ─▶ frames ─▶ [reader of the dialect] ─▶ values ─▶ chunks unfolded ─▶ order     ─▶ findings
//!            with lines                           (strip)                  └─▶ producer checks
//! ```
//!
//! The stages are those of `@ag-ui/client` 1.0.0 (`specs/ag-ui-1.0.md` §3.1), in the same order, so the verdict is the
//! client's: a stream with a violation is rejected, one without is accepted. A stream in another dialect first passes
//! through the gateway's own reader and is then checked by the same rules; the reader's repairs are reported too.

mod frame;
mod rule;
mod finding;
mod value;
mod chunks;
mod order;
mod producer_checks;
mod checks;
#[cfg(test)]
mod tests;

pub(crate) use finding::Finding;
pub use finding::VerifySummary;
pub use rule::{Rule, RuleSeverity};

use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::translate::foreign_stream::UnknownFrames;
use checks::EventChecks;
use frame::{BlockSplitter, BlockTooLarge, SplitFrame, StandardSplitter};

/// Verifies one stream incrementally.
///
/// ```
/// use diglot::{dialect::{self, PeerDialect}, translate::verify::Verifier};
///
/// let mut verifier = Verifier::new(PeerDialect::new(dialect::find_by_name("ag-ui").expect("a dialect")));
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

#[derive(Debug)]
enum InputSplitter {
    Client(BlockSplitter),
    Standard(Box<StandardSplitter>),
    Lines {
        line: u64,
    },
    /// the first line is not an event, so the client finds none unless another line is one
    NotEvents {
        line: u64,
        first: Option<FirstLine>,
    },
    Failed {
        line: u64,
    },
}

/// A line that is no JSON, such as a damaged event or a line of another program.
#[derive(Clone, Debug)]
struct FirstLine {
    number: u64,
    text: String,
}

impl Verifier {
    /// Creates a verifier for a stream in this dialect, read with its options.
    #[must_use]
    pub fn new(side: PeerDialect) -> Self {
        let splitter = if side.dialect.is_canonical() {
            InputSplitter::Client(BlockSplitter::default())
        } else {
            InputSplitter::Standard(Box::new(StandardSplitter::from_line(1)))
        };
        Verifier { splitter, checks: EventChecks::new(side) }
    }

    /// Verifies the next bytes of an event stream and appends the findings.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Finding>) {
        let Verifier { splitter, checks } = self;
        let pushed = match splitter {
            InputSplitter::Client(blocks) => blocks.push(bytes, &mut |block| checks.check_block(&block, out)),
            InputSplitter::Standard(frames) => {
                let pushed = frames.push(bytes, &mut |frame| checks.check_frame(frame, out));
                checks.report_marked_lines(frames.take_marked_lines(), out);
                pushed
            }
            InputSplitter::Lines { .. } | InputSplitter::NotEvents { .. } | InputSplitter::Failed { .. } => Ok(()),
        };
        if pushed == Err(BlockTooLarge) {
            self.report_too_large(out);
        }
    }

    /// Reports a frame that is too large, so that the rest cannot be read.
    pub(crate) fn report_too_large(&mut self, out: &mut Vec<Finding>) {
        if !matches!(self.splitter, InputSplitter::Failed { .. }) {
            let line = self.current_line();
            self.splitter = InputSplitter::Failed { line };
            self.checks.report_stream_problem(Rule::FrameTooLarge, line, "the rest of the input was not read", out);
        }
    }

    /// Reports that the input ends within a protobuf frame.
    pub(crate) fn report_partial_frame(&mut self, out: &mut Vec<Finding>) {
        let line = self.current_line() + 1;
        self.checks.report_stream_problem(Rule::PartialFrame, line, "the recording was cut off", out);
    }

    /// Verifies one protobuf message as JSON, counted as one line.
    pub(crate) fn push_message(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match self.splitter {
            InputSplitter::Lines { line } => line + 1,
            _ => 1,
        };
        self.splitter = InputSplitter::Lines { line };
        self.checks.check_frame(SplitFrame::from_data(text, line), out);
    }

    /// Verifies one line of NDJSON, without its line end.
    pub(crate) fn push_line(&mut self, text: &str, out: &mut Vec<Finding>) {
        let line = match &mut self.splitter {
            InputSplitter::Client(blocks) => blocks.skip_partial(),
            InputSplitter::Standard(frames) => frames.current_line(),
            InputSplitter::Lines { line } | InputSplitter::NotEvents { line, .. } | InputSplitter::Failed { line } => {
                *line + 1
            }
        };
        if let InputSplitter::NotEvents { line: last, first } = &mut self.splitter {
            *last = line;
            let Some(first) = first.take_if(|_| self.checks.may_be_event(text)) else { return };
            self.checks.check_frame(SplitFrame::from_data(&first.text, first.number), out);
        } else if !(text.trim().is_empty() || self.checks.summary.events > 0 || self.checks.may_be_event(text)) {
            // For example, a JSON document: the client ends the run without an event.
            let is_part_of_document = text.trim().starts_with(['{', '[']) && !text.contains("\"type\"");
            let is_damaged = !is_part_of_document && json::parse_value(text).is_none();
            let first = is_damaged.then(|| FirstLine { number: line, text: text.trim().to_owned() });
            self.splitter = InputSplitter::NotEvents { line, first };
            return;
        }
        self.splitter = InputSplitter::Lines { line };
        if !text.trim().is_empty() {
            self.checks.check_frame(SplitFrame::from_data(text.trim(), line), out);
        }
    }

    /// Marks the end of the input and appends the findings that only the end can show.
    pub fn finish(&mut self, out: &mut Vec<Finding>) {
        let Verifier { splitter, checks } = self;
        match splitter {
            InputSplitter::Client(blocks) => {
                if let Some(block) = blocks.finish() {
                    checks.check_block(&block, out);
                }
            }
            InputSplitter::Standard(frames) => {
                frames.finish(&mut |frame| checks.check_frame(frame, out));
                checks.report_marked_lines(frames.take_marked_lines(), out);
            }
            InputSplitter::Lines { .. } | InputSplitter::NotEvents { .. } | InputSplitter::Failed { .. } => {}
        }
        self.checks.finish(matches!(self.splitter, InputSplitter::Failed { .. }), out);
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn summary(&self) -> &VerifySummary {
        &self.checks.summary
    }

    /// Returns the frames, if the dialect knows none of them.
    pub(crate) fn unknown_frames(&self) -> Option<&UnknownFrames> {
        self.checks.unknown_frames()
    }

    fn current_line(&self) -> u64 {
        match &self.splitter {
            InputSplitter::Client(blocks) => blocks.current_line(),
            InputSplitter::Standard(frames) => frames.current_line(),
            InputSplitter::Lines { line } | InputSplitter::NotEvents { line, .. } | InputSplitter::Failed { line } => {
                *line
            }
        }
    }
}
