//! Dialects that a file describes: rules that turn the frames of any agent into canonical events, and a template that
//! makes its request.
//!
//! ```text
//!   frame ─▶ PathTree: all paths in one scan ─▶ RuleIndex: rules in order ─▶ effects ─▶ pieces open and close items ─▶ canonical events
//! ```
//! [`crate::config`] compiles a file into a [`Mapping`]. There is no expression language: paths, tables, templates and
//! the named states of [`reader::MappedReader`] are all that a rule can use, so that no file can loop.

mod path;
mod answered_calls;
mod message_reasoning;
mod list_allowance;
mod template;
mod rule;
mod rule_index;
mod text_copies;
mod sent_text;
mod run_pieces;
mod frame_trace;
mod error_paths;
mod reader;
mod request_target;
mod request;

use crate::codec::json::PathTree;
pub(crate) use error_paths::{CONVERSATION_GONE, ErrorPaths, ForgetRule, FoundError};
pub(crate) use frame_trace::FrameTrace;
pub(crate) use path::find_value;
pub(crate) use reader::MappedReader;
pub(crate) use request::RequestFault;
pub(crate) use request_target::{RequestTarget, RequestTemplate, TargetTemplate, is_field_value};
pub(crate) use rule::{EmittedEvent, MappingRule, MemberTemplate, RuleEffect, find_member};
use rule_index::{RuleIndex, words_compared};
use std::borrow::Cow;
pub(crate) use template::{
    ComparedWord, Condition, ItemRule, TextPart, ValueSource, ValueTemplate, ValueTest, has_value,
};

/// A file dialect, compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// paths that rules read from a frame
    pub(crate) paths: PathTree,
    /// where paths begin; `None` if they begin in the frame itself
    pub(crate) payload: Option<FramePayload>,
    /// paths that the template of the request reads from AG-UI's
    pub(crate) request_paths: PathTree,
    /// in order; all that hold for a frame apply to it
    pub(crate) rules: Vec<MappingRule>,
    pub(crate) rule_index: RuleIndex,
    /// in order; the first whose conditions hold makes the request. Without any, the agent gets AG-UI's
    pub(crate) requests: Vec<RequestTemplate>,
    /// what an agent's errors have, and mean for the thread
    pub(crate) error: ErrorPaths,
    /// names of values that live as long as a run
    pub(crate) run_names: Vec<Box<str>>,
    /// names of values that the next runs of a thread get
    pub(crate) thread_names: Vec<Box<str>>,
    /// whether rules read the `event:` line
    pub(crate) reads_event_line: bool,
    /// whether a rule gives the whole of a text so far, which is then compared with what was sent
    pub(crate) has_whole_texts: bool,
    /// names of members that rules copy and do not compare
    pub(crate) copied_members: Vec<Cow<'static, str>>,
    /// names of all members that rules read
    pub(crate) read_members: Vec<Cow<'static, str>>,
}

/// The place of a frame's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FramePayload {
    pub(crate) slot: usize,
    /// as the file writes it
    pub(crate) path: Box<str>,
}

impl Mapping {
    /// Prepares the rules for reading frames. Call it when all are there.
    pub(crate) fn finish_rules(&mut self) {
        self.find_text_copies();
        self.rule_index = RuleIndex::new(&self.rules);
    }

    /// Returns whether a word with which a rule compares the whole data of frames begins with a text, and none is it.
    pub(crate) fn is_cut_word(&self, text: &str) -> bool {
        let words = || self.rules.iter().filter_map(|rule| words_compared(rule, &ValueSource::Data)).flatten();
        let texts = || words().filter_map(ComparedWord::text);
        texts().any(|word| word.starts_with(text)) && texts().all(|word| word != text)
    }
}

/// Values that the runs of a thread keep for later ones, by position in [`Mapping::thread_names`].
pub(crate) type ThreadValues = Vec<Option<crate::event::Json<'static>>>;

/// The effect of a run on the later ones of its thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ThreadChange {
    /// values that are new
    Keep(ThreadValues),
    /// The agent no longer knows the thread.
    Forget,
}

/// Values that the earlier runs of a thread kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadState {
    pub(crate) values: ThreadValues,
    /// whether there were earlier runs, of which nothing is known
    pub(crate) is_lost: bool,
}

impl ThreadState {
    /// Returns the state of a thread with these values, or of an unknown one. Its earlier runs are lost if the request
    /// has answers of them.
    pub(crate) fn new(kept: Option<ThreadValues>, has_answers: bool) -> Self {
        ThreadState { is_lost: has_answers && kept.is_none(), values: kept.unwrap_or_default() }
    }

    pub(crate) fn has_values(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }
}
