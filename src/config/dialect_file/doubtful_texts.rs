//! Finds texts that are meant as paths, and words that look like patterns, by what the examples have.

use super::compiled::{ConstantText, DialectExample, ExampleInput, PathChain, ReadPlace};
use super::compiler::{DialectCompiler, PathUse, PlacedNode, position_of};
use super::path_text::{REQUEST_ROOTS, split_steps};
use super::request_places::RequestPlace;
use crate::codec::json::{self, JsonStep};
use crate::config::problem::SourcePosition;
use crate::config::spanned_tree::{NodeValue, join_key};
use crate::dialect::{ValueSource, ValueTemplate, has_value};
use crate::event::{Field, Json};

const OTHERWISE: &str = "otherwise";

/// Keys of a rule that ask for places.
const CONDITION_KEYS: [&str; 4] = ["when", "has", "lacks", "each"];

impl ConstantText {
    fn new(at: PlacedNode<'_>, text: &str) -> Self {
        let (path, position) = (at.path.to_owned(), position_of(at.node));
        ConstantText { path, position, text: text.to_owned(), is_name: false }
    }
}

impl DialectCompiler<'_> {
    /// Takes note of a text that is meant as a path only if a frame of its rule has a value there.
    pub(super) fn add_rule_text(&mut self, at: PlacedNode<'_>, value: Option<&ValueTemplate>) {
        let (NodeValue::Scalar(written), Some(ValueTemplate::Literal(literal))) = (&at.node.value, value) else {
            return;
        };
        let steps = split_steps(&written.text).filter(|steps| !steps.is_empty() && literal.is_str(&written.text));
        let (Some(steps), Some(SourcePosition { line, column })) = (steps, position_of(at.node)) else { return };
        let chain: PathChain = match &self.item_chain {
            Some(list) => list.iter().cloned().chain([steps]).collect(),
            None => vec![[self.payload.clone(), steps].concat()],
        };
        let (written, path) = (written.text.clone(), at.path.to_owned());
        let place = ReadPlace { chain, written, path, line, column, rule_line: None, is_alternative: false };
        self.texts.of_rules.push(place);
    }

    /// Takes note of the text that a table of a rule has for other words.
    pub(super) fn add_otherwise(&mut self, at: PlacedNode<'_>, value: Option<&ValueTemplate>, scope: PathUse) {
        if let Some(entry) = at.node.entry(OTHERWISE).filter(|_| matches!(scope, PathUse::Frame { .. })) {
            self.add_rule_text(PlacedNode { node: &entry.value, path: &join_key(at.path, OTHERWISE) }, value);
        }
    }

    /// Completes the places of a rule behind the first ones. A text of which a condition asks for the member is a name.
    pub(super) fn finish_rule_places(&mut self, path: &str, line: u64, first_place: usize, first_text: usize) {
        self.places[first_place..].iter_mut().for_each(|place| place.rule_line = Some(line));
        let condition_chain = |place: &ReadPlace| {
            let key = place.path.strip_prefix(path)?.strip_prefix('.')?.split(['.', '[']).next()?;
            CONDITION_KEYS.contains(&key).then(|| place.chain.clone())
        };
        let chains: Vec<_> = self.places[first_place..].iter().filter_map(condition_chain).collect();
        let mut texts = self.texts.of_rules.split_off(first_text);
        texts.retain(|text| !chains.contains(&text.chain));
        texts.iter_mut().for_each(|text| text.rule_line = Some(line));
        self.texts.of_rules.append(&mut texts);
    }

    /// Takes note of a text of a request that has the name of a member of AG-UI's, or of a named place.
    pub(super) fn add_request_text(&mut self, at: PlacedNode<'_>, text: &str, scope: PathUse) {
        let is_member = || RequestPlace::find(&vec![vec![JsonStep::Member(text.into())]]).is_ok();
        if matches!(scope, PathUse::Request { .. }) && (is_request_place(text) || is_member()) {
            self.texts.of_requests.push(ConstantText::new(at, text));
        }
    }

    /// Takes note of a named place of requests that is read, and of the messages in which it is.
    pub(super) fn mark_read_of_request(&mut self, name: &str, source: &ValueSource) {
        if matches!(source, ValueSource::UserText | ValueSource::NewMessages) {
            self.read_of_request.extend([name.to_owned(), Field::Messages.camel().to_owned()]);
        }
    }

    /// Takes note of a word of a condition that looks like a pattern.
    pub(super) fn add_pattern(&mut self, at: PlacedNode<'_>, word: &str) {
        self.texts.patterns.push(ConstantText::new(at, word));
    }

    /// Warns about texts that are not meant as such, by the examples.
    pub(super) fn check_texts(&mut self, examples: &[DialectExample]) {
        self.check_constants(examples);
        self.check_request_texts(examples);
        self.check_patterns(examples);
    }

    /// Warns about texts that are the names of what requests have, and what nothing reads.
    fn check_request_texts(&mut self, examples: &[DialectExample]) {
        let has_member = |example: &DialectExample, name: &str| {
            let ExampleInput::Request { input, .. } = &example.input else { return false };
            json::parse_member(input, name).is_some_and(|value| has_value(&value))
        };
        for ConstantText { path, position, text, .. } in std::mem::take(&mut self.texts.of_requests) {
            let is_named = is_request_place(&text);
            let is_known = is_named || examples.iter().any(|example| has_member(example, &text));
            if !is_known || self.read_of_request.contains(&text) || self.problem_count() > 0 {
                continue;
            }
            let message = match is_named {
                true => format!("`{text}` is always this text, and nothing reads `@{text}`"),
                false => format!("`{text}` is always this text, although requests of the examples have `{text}`"),
            };
            let root = if is_named { "@" } else { "" };
            self.warn(&path, position, message, format!("write `\"{{{root}{text}}}\"` for its value"));
        }
    }

    /// Warns about words that look like patterns, unless an example has them.
    fn check_patterns(&mut self, examples: &[DialectExample]) {
        for ConstantText { path, position, text, .. } in std::mem::take(&mut self.texts.patterns) {
            let quoted = Json::string(&text);
            let is_event = |line: &str| line.strip_prefix("event:").is_some_and(|name| name.trim() == text);
            let has_word = |example: &DialectExample| match &example.input {
                ExampleInput::Stream { bytes, .. } => bytes.contains(quoted.as_str()) || bytes.lines().any(is_event),
                ExampleInput::Request { input, .. } => input.as_str().contains(quoted.as_str()),
                ExampleInput::Answer { .. } => false,
            };
            if !examples.iter().any(has_word) {
                let message = format!("`{text}` is compared as it is written: there are no patterns");
                self.warn(&path, position, message, "write each value that it may have, as a list");
            }
        }
    }
}

/// Returns whether a word is a named place of requests without its `@`, and no word of a language.
fn is_request_place(text: &str) -> bool {
    text.contains('_') && REQUEST_ROOTS.iter().any(|root| root.strip_prefix('@') == Some(text))
}
