//! A dialect file as it is used.

use super::file_lines::FileLines;
use crate::codec::json::JsonStep;
use crate::config::problem::{ConfigProblem, SourcePosition};
use crate::dialect::MappedDialect;
use crate::event::Json;

/// A dialect file, compiled.
#[derive(Clone, Debug)]
pub(crate) struct DialectFile {
    pub(crate) dialect: MappedDialect,
    /// `None` if it is the whole frame
    pub(crate) payload: Option<PayloadPath>,
    /// what rules read from frames, and `error` from answers
    pub(crate) places: Vec<ReadPlace>,
    pub(crate) tables: Vec<ReadTable>,
    /// texts of rules, as the places that they may be meant as
    pub(crate) texts: Vec<ReadPlace>,
    pub(crate) lines: FileLines,
    /// run by `diglot check --test`
    pub(crate) examples: Vec<DialectExample>,
    /// whether a frame of an example has a mistake, of which a warning says more
    pub(crate) has_broken_frames: bool,
    /// what is valid, but probably not meant
    pub(crate) warnings: Vec<ConfigProblem>,
}

/// The path of a frame's content.
#[derive(Clone, Debug)]
pub(crate) struct PayloadPath {
    pub(crate) steps: Vec<JsonStep>,
    /// as the file writes it
    pub(crate) written: String,
    /// line of the file
    pub(crate) line: u64,
}

/// Paths that lead from one to the next: each but the last to a list, from whose elements the next begins.
pub(crate) type PathChain = Vec<Vec<JsonStep>>;

/// A place in frames from which a rule takes a value, or in answers from which `error` does.
#[derive(Clone, Debug)]
pub(crate) struct ReadPlace {
    pub(crate) chain: PathChain,
    /// as the file writes it
    pub(crate) written: String,
    /// key path in the file
    pub(crate) path: String,
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// that of the rule; `None` for `error`
    pub(crate) rule_line: Option<u64>,
    /// whether another place stands before it, from which the value is taken first
    pub(crate) is_alternative: bool,
}

/// A table for the value of a place.
#[derive(Clone, Debug)]
pub(crate) struct ReadTable {
    /// position in [`DialectFile::places`]
    pub(crate) place: usize,
    /// words of the agent, and what they become
    pub(crate) rows: Vec<(String, String)>,
    /// key path in the file
    pub(crate) path: String,
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// A text in a place where the value of a frame or a request is expected.
pub(super) struct ConstantText {
    pub(super) path: String,
    pub(super) position: Option<SourcePosition>,
    pub(super) text: String,
    /// whether it may be a text if the rule reads the member of this name elsewhere
    pub(super) is_name: bool,
}

/// Texts of a file that may be meant otherwise, which the examples show.
#[derive(Default)]
pub(super) struct DoubtfulTexts {
    pub(super) constants: Vec<ConstantText>,
    /// those that only frames of their own rule show
    pub(super) of_rules: Vec<ReadPlace>,
    pub(super) of_requests: Vec<ConstantText>,
    /// words of conditions that look like patterns
    pub(super) patterns: Vec<ConstantText>,
}

/// One example.
#[derive(Clone, Debug)]
pub(crate) struct DialectExample {
    pub(crate) name: String,
    /// JSON Pointer in the file
    pub(crate) pointer: String,
    /// line of the file
    pub(crate) line: u64,
    /// that of the first line of a stream, if the file has its lines as they are
    pub(crate) stream_line: Option<u64>,
    pub(crate) input: ExampleInput,
    /// values that earlier runs of the thread kept
    pub(crate) thread: Vec<(String, Json<'static>)>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExampleInput {
    /// the agent's bytes, the AG-UI events of the run with thread `t1` and run `r1`, and what it keeps for later ones
    Stream { bytes: String, events: Vec<Json<'static>>, keep: Option<Json<'static>> },
    /// an answer that is no stream, and AG-UI's events for a client of a route with `agent_errors: pass`
    Answer { status: u16, media_type: &'static str, body: String, events: Vec<Json<'static>> },
    /// AG-UI's request, and the agent's: its body, what is added to the route's URL, and the headers of the file
    Request { input: Json<'static>, body: Json<'static>, path: String, headers: Json<'static> },
}
