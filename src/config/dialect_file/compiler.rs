//! The state of a compilation, and the keys of the file.

use super::compiled::{DialectFile, DoubtfulTexts, PathChain, PayloadPath, ReadPlace, ReadTable};
use super::file_keys::FILE_KEYS;
use super::file_lines::FileLines;
use super::misplaced_keys::suggest_place;
use crate::codec::json::JsonStep;
use crate::config::dialect_text::{RESERVED_NAMES, is_dialect_name};
use crate::config::line_marks::KeyTest;
use crate::config::problem::{ConfigProblem, ConfigProblems, ProblemSeverity, SourcePosition, did_you_mean, nearest};
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode, TreeScalar, TreeScalarKind, join_key};
use crate::config::substitution::{SubstitutionError, expand, is_variable_name};
use crate::dialect::{self, FramePayload, MappedDialect, Mapping};
use crate::event::{EventType, Json};
use std::collections::BTreeSet;

/// Keys of other formats, with the way to write what they are for.
pub(super) const OTHER_KEYS: &[(&str, &str)] = &[
    ("if", "conditions are `when: {PATH: value}`, `has: PATH` and `lacks: PATH`"),
    ("status", "an answer with an error status needs no rule; `error:` at the top says where its message is"),
    ("url", "the URL is the `upstream` of the route; `path:` stands behind its path"),
    ("method", "remove it: every request is a POST"),
];

/// Maximum number of mistakes, and of warnings, that are found in one pass. The line of each is searched in the file.
const MAX_PROBLEMS: usize = 100;

/// Keys whose values have names that other places read.
const NAMING_KEYS: [&str; 3] = ["set", "append", "keep"];

/// A node with its path in the file.
#[derive(Clone, Copy)]
pub(super) struct PlacedNode<'t> {
    pub(super) node: &'t TreeNode,
    pub(super) path: &'t str,
}

/// The values that a template or a condition can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathUse {
    Frame { has_item: bool },
    Request { has_item: bool },
}

impl PathUse {
    pub(super) const fn has_item(self) -> bool {
        match self {
            PathUse::Frame { has_item } | PathUse::Request { has_item } => has_item,
        }
    }

    pub(super) const fn with_item(self) -> Self {
        match self {
            PathUse::Frame { .. } => PathUse::Frame { has_item: true },
            PathUse::Request { .. } => PathUse::Request { has_item: true },
        }
    }
}

pub(super) struct DialectCompiler<'c> {
    name: &'c str,
    pub(super) text: &'c str,
    lookup: &'c dyn Fn(&str) -> Option<String>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<ConfigProblem>,
    pub(super) texts: DoubtfulTexts,
    pub(super) payload: Vec<JsonStep>,
    pub(super) places: Vec<ReadPlace>,
    pub(super) tables: Vec<ReadTable>,
    /// that of the path which was compiled last, unless its value is not in the frame or the request
    pub(super) last_chain: Option<PathChain>,
    /// the only words that a request has there, if there are few
    pub(super) last_words: Vec<&'static str>,
    /// that of the list whose element is `@item`
    pub(super) item_chain: Option<PathChain>,
    /// whether a value since this was reset is one that earlier runs of the thread kept
    pub(super) reads_thread: bool,
    pub(super) has_broken_frames: bool,
    /// whether the rules have fewer names of kept values than they should: one has `set`, `append` or `keep` without
    /// any, or there are no rules
    pub(super) lacks_names: bool,
    /// positions in [`Mapping::run_names`] of those that are read
    pub(super) read_names: BTreeSet<usize>,
    /// positions in [`Mapping::thread_names`] of those that are read
    pub(super) read_thread_names: BTreeSet<usize>,
    /// names of values for whose lack a problem is reported
    pub(super) missing_names: BTreeSet<String>,
    /// members of AG-UI's request that the agent's requests read, and their named places without `@`
    pub(super) read_of_request: BTreeSet<String>,
    pub(super) mapping: Mapping,
}

impl<'c> DialectCompiler<'c> {
    pub(super) fn new(name: &'c str, text: &'c str, lookup: &'c dyn Fn(&str) -> Option<String>) -> Self {
        DialectCompiler {
            name,
            text,
            lookup,
            problems: Vec::new(),
            warnings: Vec::new(),
            texts: DoubtfulTexts::default(),
            payload: Vec::new(),
            places: Vec::new(),
            tables: Vec::new(),
            last_chain: None,
            last_words: Vec::new(),
            item_chain: None,
            reads_thread: false,
            has_broken_frames: false,
            lacks_names: false,
            read_names: BTreeSet::new(),
            read_thread_names: BTreeSet::new(),
            missing_names: BTreeSet::new(),
            read_of_request: BTreeSet::new(),
            mapping: Mapping::default(),
        }
    }

    pub(super) fn finish(self, file: Option<DialectFile>) -> Result<DialectFile, ConfigProblems> {
        match file {
            Some(file) if self.problems.is_empty() => Ok(file),
            _ => Err(ConfigProblems::new(self.problems)),
        }
    }

    pub(super) fn compile(&mut self, root: &TreeNode, is_key: KeyTest) -> Option<DialectFile> {
        self.report_repeated_keys(root);
        let before = self.problem_count();
        self.check_misread_values(root, is_key);
        // A value that is a part of its key would be reported as missing, too.
        if self.problem_count() > before {
            return None;
        }
        let at = PlacedNode { node: root, path: "" };
        let NodeValue::Mapping(_) = root.value else {
            self.report("", position_of(root), "a dialect file is a mapping", "begin with `name: my-agent`");
            return None;
        };
        self.check_keys(at, FILE_KEYS);
        let name = self.compile_name(root);
        let payload = root.entry("payload").and_then(|payload| {
            let at = PlacedNode { node: &payload.value, path: "payload" };
            self.payload = self.plain_path(at)?;
            let NodeValue::Scalar(written) = &payload.value.value else { return None };
            let line = position_of(&payload.value)?.line;
            let slot = self.mapping.paths.add(&self.payload);
            self.mapping.payload = Some(FramePayload { slot, path: written.text.as_str().into() });
            Some(PayloadPath { steps: self.payload.clone(), written: written.text.clone(), line })
        });
        self.collect_names(root);
        match events_of(root) {
            Some(events) => self.compile_rules(PlacedNode { node: &events.value, path: "events" }),
            None => self.report(
                "",
                position_of(root),
                "the key `events` is missing",
                format!(
                    "add the rules for the agent's events, such as `events: [{{has: text, emit: {{type: {}, delta: \
                     \"{{text}}\"}}}}]`",
                    EventType::TextMessageChunk.wire()
                ),
            ),
        }
        self.mapping.finish_rules();
        self.check_ends(root);
        self.check_call_keys(root);
        self.check_call_names(root);
        if let Some(request) = root.entry("request") {
            self.compile_requests(PlacedNode { node: &request.value, path: "request" });
        }
        self.check_unread_names(root);
        if let Some(error) = root.entry("error") {
            self.compile_error(PlacedNode { node: &error.value, path: "error" });
        }
        let tests = root.entry("tests");
        let examples = tests.map(|tests| self.compile_examples(PlacedNode { node: &tests.value, path: "tests" }));
        let examples = examples.unwrap_or_default();
        self.check_texts(&examples);
        let dialect = MappedDialect { name: name?, mapping: std::mem::take(&mut self.mapping) };
        Some(DialectFile {
            dialect,
            payload,
            places: std::mem::take(&mut self.places),
            tables: std::mem::take(&mut self.tables),
            texts: std::mem::take(&mut self.texts.of_rules),
            lines: FileLines::new(root),
            examples,
            has_broken_frames: self.has_broken_frames,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    fn report_repeated_keys(&mut self, root: &TreeNode) {
        let mut repeated: Vec<(String, String, _, u64)> = Vec::new();
        root.skip_duplicate_keys("", &mut |path, entry, first| {
            let parent = path.strip_suffix(&entry.key).unwrap_or(path).trim_end_matches('.');
            // A missing dash repeats all keys of an element.
            let is_same_element = parent.ends_with(']') && repeated.iter().any(|(own, ..)| own == parent);
            if !is_same_element {
                repeated.push((parent.to_owned(), entry.key.clone(), entry.position, first));
            }
        });
        for (parent, key, position, first) in repeated {
            let hint = match parent.ends_with(']') {
                true if key == "emit" => "write a list if both are meant: `emit: [{…}, {…}]`".to_owned(),
                true => {
                    format!("keep one of the two, or write `- {key}: …` if the next element of the list begins here")
                }
                false => "keep one of the two".to_owned(),
            };
            let message = format!("the key is already on line {first}");
            self.report(&join_key(&parent, &key), position, message, hint);
        }
    }

    fn compile_name(&mut self, root: &TreeNode) -> Option<String> {
        let Some(entry) = root.entry("name") else {
            let hint = "add the name that routes use, such as `name: acme-llm`";
            self.report("", position_of(root), "the key `name` is missing", hint);
            return None;
        };
        let name = self.scalar_text(PlacedNode { node: &entry.value, path: "name" })?;
        let (message, hint) = match name.as_str() {
            name if !is_dialect_name(name) => (
                format!("`{name}` is not a valid dialect name"),
                "write at most 32 lower-case letters, digits and hyphens, such as `acme-llm`",
            ),
            name if RESERVED_NAMES.contains(&name) || dialect::find_by_name(name).is_some() => {
                (format!("the dialect `{name}` is built in"), "choose another name")
            }
            _ => return Some(name),
        };
        self.report("name", position_of(&entry.value), message, hint);
        None
    }

    /// Reports keys that do not exist.
    pub(super) fn check_keys(&mut self, at: PlacedNode<'_>, known: &[&str]) {
        let NodeValue::Mapping(entries) = &at.node.value else { return };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let path = join_key(at.path, &entry.key);
            // `when {PATH: word}` is a key with a brace in it.
            let word = entry.key.split([' ', ':', '{']).next().unwrap_or_default();
            if word != entry.key && known.contains(&word) {
                let hint = format!("write `{word}: …`: a colon and a space");
                self.report(&path, entry.position, format!("there is no `: ` after `{word}`"), hint);
                continue;
            }
            if self.reports_outdented_key(at, entry) {
                break;
            }
            let own = OTHER_KEYS.iter().find(|(key, _)| *key == entry.key).map(|(_, hint)| (*hint).to_owned());
            let hint = own.or_else(|| suggest_place(at.path, &entry.key, known));
            let hint = hint.unwrap_or_else(|| did_you_mean(&entry.key, known));
            self.lacks_names |= NAMING_KEYS.contains(&entry.key.as_str());
            self.report(&path, entry.position, "there is no such key here", hint);
        }
    }

    /// Reports an unknown key behind an empty one, below which it was meant to stand.
    pub(super) fn reports_outdented_key(&mut self, at: PlacedNode<'_>, entry: &MapEntry) -> bool {
        let Some(empty) = empty_above(at.node, entry) else { return false };
        let (key, outer) = (&entry.key, &empty.key);
        let message = format!("`{key}` stands beside `{outer}`, which is empty");
        let hint = format!("indent `{key}` and what belongs to it further than `{outer}`");
        self.report(&join_key(at.path, key), entry.position, message, hint);
        true
    }

    /// Returns the entries of a mapping, without those whose key stands twice.
    pub(super) fn mapping_entries<'t>(&mut self, at: PlacedNode<'t>, expected: &str) -> Vec<&'t MapEntry> {
        match &at.node.value {
            NodeValue::Mapping(entries) => entries.iter().filter(|entry| !entry.value.is_skipped.get()).collect(),
            _ => {
                let message = format!("must be a mapping, not {}", shape_of(at.node));
                self.report(at.path, position_of(at.node), message, format!("write {expected}"));
                Vec::new()
            }
        }
    }

    /// Returns the items of a list; a single value is a list of one.
    pub(super) fn list_items<'t>(&self, at: PlacedNode<'t>) -> Vec<(&'t TreeNode, String)> {
        match &at.node.value {
            NodeValue::List(items) => {
                items.iter().enumerate().map(|(index, item)| (item, format!("{}[{index}]", at.path))).collect()
            }
            _ => vec![(at.node, at.path.to_owned())],
        }
    }

    /// Returns a scalar as text, with its variables expanded.
    pub(super) fn scalar_text(&mut self, at: PlacedNode<'_>) -> Option<String> {
        let NodeValue::Scalar(scalar) = &at.node.value else {
            let message = format!("must be a text, not {}", shape_of(at.node));
            self.report(
                at.path,
                position_of(at.node),
                message,
                "write one value, in quotes if it has `{`, `#` or `: `",
            );
            return None;
        };
        self.expand(at, &scalar.text)
    }

    /// Expands variables. Text without any stays as it is, with its spaces.
    pub(super) fn expand(&mut self, at: PlacedNode<'_>, text: &str) -> Option<String> {
        if !text.contains("${") {
            return Some(text.to_owned());
        }
        let (message, hint) = match expand(text, self.lookup) {
            Ok(expanded) => return Some(expanded.text),
            Err(SubstitutionError::Unset(name)) => (
                format!("the environment variable `{name}` is not set"),
                format!(
                    "set it where Diglot is started, or give a default: `${{{name}:-default}}`; a value of the agent or the client is `{{{name}}}`, without `$`"
                ),
            ),
            Err(SubstitutionError::Unclosed) => ("`${` has no closing `}`".to_owned(), "write `${NAME}`".to_owned()),
            Err(SubstitutionError::Malformed(inside)) => {
                let hint = match inside.split_once(['-', ':', '=']) {
                    Some((name, default)) if is_variable_name(name) => {
                        let default = default.trim_start_matches(['-', '=']);
                        format!("a default stands behind `:-`: write `${{{name}:-{default}}}`")
                    }
                    _ => {
                        format!("write `${{NAME}}`; a value of the agent or the client is `{{{inside}}}`, without `$`")
                    }
                };
                (format!("`${{{inside}}}` is not a valid variable name"), hint)
            }
        };
        self.report(at.path, position_of(at.node), message, hint);
        None
    }

    pub(super) fn report(
        &mut self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.problems.len() < MAX_PROBLEMS {
            let problem = self.describe(path, position, message, hint);
            self.problems.push(problem);
        }
    }

    /// Reports what is valid, but probably not meant.
    pub(super) fn warn(
        &mut self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.has_all_warnings() {
            return;
        }
        let problem = self.describe(path, position, message, hint);
        // A mistake that an alias repeats is reported once.
        let is_same = |own: &ConfigProblem| (own.line, own.column) == (problem.line, problem.column);
        if !self.warnings.iter().any(|own| is_same(own) && own.message == problem.message) {
            self.warnings.push(ConfigProblem { severity: ProblemSeverity::Warning, ..problem });
        }
    }

    /// Removes the warnings of a place for which there is a better one.
    pub(super) fn drop_warnings(&mut self, path: &str) {
        self.warnings.retain(|warning| warning.path != path);
    }

    fn describe(
        &self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigProblem {
        let problem = ConfigProblem::for_file(self.name, message).with_location(path, position).with_hint(hint);
        problem.with_dialect_excerpt(self.text)
    }

    /// Moves the problems behind the first `count` to the key in which they are.
    pub(super) fn move_problems(&mut self, count: usize, position: Option<SourcePosition>) {
        for problem in &mut self.problems[count..] {
            let path = std::mem::take(&mut problem.path);
            *problem = problem.clone().with_location(&path, position).with_dialect_excerpt(self.text);
        }
    }

    pub(super) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Returns whether a further warning would not be kept.
    pub(super) fn has_all_warnings(&self) -> bool {
        self.warnings.len() == MAX_PROBLEMS
    }

    pub(super) fn report_at(&mut self, at: PlacedNode<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.report(at.path, position_of(at.node), message, hint);
    }
}

/// Returns the empty key that stands above another of the same mapping, as far left.
pub(super) fn empty_above<'t>(mapping: &'t TreeNode, entry: &MapEntry) -> Option<&'t MapEntry> {
    let NodeValue::Mapping(entries) = &mapping.value else { return None };
    let before = entries.iter().take_while(|own| !std::ptr::eq(*own, entry));
    let column = |entry: &MapEntry| entry.position.map(|position| position.column);
    let is_empty = |own: &&MapEntry| matches!(own.value.value, NodeValue::Empty) && column(own) == column(entry);
    before.filter(is_empty).last()
}

/// Returns the rules, also below a misspelt key, which is one mistake and not also one for each name that they set.
pub(super) fn events_of(root: &TreeNode) -> Option<&MapEntry> {
    let NodeValue::Mapping(entries) = &root.value else { return None };
    let is_misspelt =
        |entry: &&MapEntry| !FILE_KEYS.contains(&entry.key.as_str()) && nearest(&entry.key, FILE_KEYS) == ["events"];
    root.entry("events").or_else(|| entries.iter().find(is_misspelt))
}

pub(super) fn position_of(node: &TreeNode) -> Option<SourcePosition> {
    SourcePosition::from_location(node.defined)
}

pub(super) fn shape_of(node: &TreeNode) -> &'static str {
    match &node.value {
        NodeValue::Empty => "empty",
        NodeValue::Scalar(TreeScalar { kind: TreeScalarKind::Text, .. }) => "a text",
        NodeValue::Scalar(TreeScalar { kind: TreeScalarKind::Bool(_), .. }) => "true or false",
        NodeValue::Scalar(_) => "a number",
        NodeValue::List(_) => "a list",
        NodeValue::Mapping(_) => "a mapping",
    }
}

/// Returns a scalar as JSON, without reading placeholders.
pub(super) fn literal_json(scalar: &TreeScalar) -> Json<'static> {
    match &scalar.kind {
        TreeScalarKind::Text => Json::string(&scalar.text),
        TreeScalarKind::Bool(value) => Json::from_trusted(if *value { "true" } else { "false" }),
        TreeScalarKind::Unsigned(value) => Json::from_trusted(value.to_string()),
        TreeScalarKind::Signed(value) => Json::from_trusted(value.to_string()),
        TreeScalarKind::Float(value) => {
            let as_written = crate::codec::json::parse_value(&scalar.text).map(Json::into_owned);
            as_written.unwrap_or_else(|| {
                serde_json::Number::from_f64(*value).map_or(Json::NULL, |number| Json::from_trusted(number.to_string()))
            })
        }
    }
}
