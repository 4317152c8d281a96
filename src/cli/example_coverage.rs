//! The rules of a dialect file that no frame of its examples needs, and the places that none has: they are not tested,
//! and may have a misspelt path.

use super::condition_words::{explain_conditions, explain_word_type, find_list};
use super::example_run::ExampleRun;
use super::path_hint::{PathHint, list_members, nearest_values, propose, suggest};
use super::rule_faults::RuleFaults;
use crate::codec::json::{self, JsonStep};
use crate::config::dialect_file::{DialectExample, DialectFile, PayloadPath, ReadPlace, ReadTable, write_path};
use crate::config::{ConfigProblem, ProblemSeverity, quote_names};
use crate::dialect::{Condition, Mapping, MappingRule, ValueSource, ValueTest, find_value, has_value};
use crate::event::{Json, JsonType};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of steps of a payload that a hint names.
const PAYLOAD_DEPTH: usize = 4;

/// Paths of a member that may be meant as the `event:` line.
const EVENT_MEMBERS: [&str; 2] = ["event", "$.event"];

const NO_VALUE_HINT: &str = "write the value behind the colon; `has:` asks for any, and `lacks:` for none";

/// Collects what the streams of all examples have and use.
#[derive(Default)]
pub(super) struct ExampleCoverage {
    payload: Option<PayloadPath>,
    pub(super) places: Vec<ReadPlace>,
    /// texts of rules, as the places that they may be meant as
    texts: Vec<ReadPlace>,
    tables: Vec<ReadTable>,
    /// whether a frame has a mistake of its own, which is the cause of what is missing
    has_broken_frames: bool,
    has_streams: bool,
    event_lines: BTreeSet<String>,
    /// lines of the rules that applied
    pub(super) used_lines: BTreeSet<u64>,
    /// whether a frame has a value, by slot of the mapping's paths
    found_slots: Vec<bool>,
    /// those that are JSON
    pub(super) frames: Vec<Json<'static>>,
    /// positions of those without a rule
    pub(super) unknown_frames: BTreeSet<usize>,
    /// the `event:` lines of those
    pub(super) unknown_lines: BTreeSet<String>,
    /// positions of those to which a rule applied, by its line
    rule_frames: BTreeMap<u64, Vec<usize>>,
    faults: RuleFaults,
    /// the bodies of answers that are JSON
    answers: Vec<Json<'static>>,
}

impl ExampleCoverage {
    pub(super) fn new(file: &DialectFile) -> Self {
        let (payload, places, tables) = (file.payload.clone(), file.places.clone(), file.tables.clone());
        let (texts, has_broken_frames) = (file.texts.clone(), file.has_broken_frames);
        ExampleCoverage { payload, places, texts, tables, has_broken_frames, ..ExampleCoverage::default() }
    }

    /// Adds the frames of an example, and the rules that applied to them.
    pub(super) fn add_run(&mut self, example: &DialectExample, run: &ExampleRun, mapping: &Mapping) {
        self.has_streams = true;
        self.found_slots.resize(mapping.paths.len(), false);
        for frame in &run.frames {
            self.event_lines.extend(frame.event_line.clone());
            let values = mapping.paths.read(&frame.data);
            self.found_slots.iter_mut().zip(values.iter()).for_each(|(found, value)| *found |= value.is_some());
            self.used_lines.extend(&frame.trace.lines);
            let lines = &frame.trace.lines;
            if lines.is_empty() {
                self.unknown_lines.extend(frame.event_line.clone());
                self.unknown_frames.extend(frame.value().map(|_| self.frames.len()));
            }
            if let Some(value) = frame.value() {
                lines.iter().for_each(|line| self.rule_frames.entry(*line).or_default().push(self.frames.len()));
                self.frames.push(value.into_owned());
            }
        }
        self.faults.add_run(run, mapping, !example.thread.is_empty());
    }

    /// Adds the body of an answer, which may be a stream.
    pub(super) fn add_answer(&mut self, body: &str) {
        let mut lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let whole = json::parse_value(body.trim()).map(Json::into_owned);
        let first = || lines.find_map(|line| json::parse_value(line.trim()).map(Json::into_owned));
        self.answers.extend(whole.or_else(first));
    }

    /// Returns what no example uses: the payload, or else each rule that does something, and each place that a used one
    /// reads.
    pub(super) fn find_unused(&self, mapping: &Mapping, file: &Path, text: &str) -> Vec<ConfigProblem> {
        if self.has_broken_frames {
            return Vec::new();
        }
        let warning = |line: u64, column: u64, path: &str, message: String, hint: String| {
            let mut problem = ConfigProblem::for_path(file, message);
            (problem.line, problem.column) = (Some(line), Some(column));
            (problem.path, problem.hint) = (path.to_owned(), Some(hint));
            problem.severity = ProblemSeverity::Warning;
            problem.with_dialect_excerpt(text)
        };
        let indent_of = |line: u64| {
            let written = text.lines().nth(usize::try_from(line).unwrap_or_default().saturating_sub(1));
            written.map_or(0, |line| line.chars().take_while(|c| c.is_whitespace()).count()) as u64
        };
        let payload = self.payload.as_ref().filter(|_| self.has_streams);
        let meant = self.find_payload().filter(|_| self.has_streams);
        let proposal = meant.map(|meant| format!("`payload: {meant}`, below which all of them have one"));
        if let Some(payload) = payload.filter(|payload| !self.has_value_at(&payload.steps)) {
            let message = format!("no frame of the examples has `{}`, where all paths begin", payload.written);
            let hint = proposal.map_or_else(|| self.explain_payload(payload), |proposal| format!("write {proposal}"));
            return vec![warning(payload.line, indent_of(payload.line) + 1, "payload", message, hint)];
        }
        if let Some(proposal) = proposal {
            let (line, below, verb) = match payload {
                Some(payload) => (payload.line, format!(" below `{}`", payload.written), "write"),
                None => (1, String::new(), "add"),
            };
            let message = format!("no path of the rules has a value{below} in the frames of the examples");
            return vec![warning(line, 1, "payload", message, format!("{verb} {proposal}"))];
        }
        let of_rules = self.explain_rules(mapping).into_iter().map(|(index, message, hint)| {
            let line = mapping.rules[index].line;
            warning(line, indent_of(line) + 1, &format!("events[{index}]"), message, hint)
        });
        let mut warnings: Vec<_> = of_rules.collect();
        // A place that an alias repeats is one.
        let mut positions = BTreeSet::new();
        let is_used = |place: &&ReadPlace| place.rule_line.is_none_or(|line| self.used_lines.contains(&line));
        for place in self.places.iter().filter(is_used) {
            let everywhere = self.explain_missing_place(place);
            let noun = match place.rule_line {
                Some(_) if everywhere.is_none() => "frame of the examples for this rule",
                Some(_) => "frame of the examples",
                None => "answer of the examples",
            };
            if let Some(hint) = everywhere.or_else(|| self.explain_missing_for_rule(place))
                && positions.insert((place.line, place.column, &place.written))
            {
                let hint = hint.describe_for(place);
                let message = format!("no {noun} has a value at `{}`", place.written);
                warnings.push(warning(place.line, place.column, &place.path, message, hint));
            }
        }
        for table in &self.tables {
            let place = &self.places[table.place];
            if let Some((message, hint)) = self.explain_unused_table(table, place).filter(|_| is_used(&place)) {
                warnings.push(warning(table.line, table.column, &table.path, message, hint));
            }
        }
        for text in self.texts.iter().filter(|text| self.is_place_of_rule(text)) {
            let (message, hint) = explain_text(text);
            warnings.push(warning(text.line, text.column, &text.path, message, hint));
        }
        warnings.sort_by_key(|problem| (problem.line, problem.column));
        warnings
    }

    /// Returns the rules that no frame needs, and those that do something at the wrong time, each with its cause and a
    /// way out.
    fn explain_rules(&self, mapping: &Mapping) -> Vec<(usize, String, String)> {
        let mut found = Vec::new();
        for (index, rule) in mapping.rules.iter().enumerate().filter(|_| self.has_streams) {
            if !self.used_lines.contains(&rule.line) {
                let mistake = self.explain_condition_words(rule);
                let is_effective = !rule.effects.is_empty();
                let why =
                    mistake.or_else(|| is_effective.then(|| self.explain_rule(rule, &format!("events[{index}].each"))));
                found.extend(
                    why.map(|(cause, hint)| (index, format!("no frame of the examples is for this rule{cause}"), hint)),
                );
            } else if let Some((cause, hint)) = self.explain_joined_words(rule) {
                found.push((index, format!("a word of this rule has no frame{cause}"), hint));
            }
            let ignored = self.explain_ignored(rule);
            found.extend(
                ignored.map(|(cause, hint)| (index, format!("no frame of the examples is for this rule{cause}"), hint)),
            );
            let faults = self.faults.explain(rule.line).into_iter();
            found.extend(faults.map(|(message, hint)| (index, message, hint.to_owned())));
        }
        found
    }

    /// Suggests another path for a payload that no frame has.
    fn suggest_payload(&self, payload: &PayloadPath) -> PathHint {
        let mut inner = (1..payload.steps.len()).map(|skipped| &payload.steps[skipped..]);
        match inner.find(|steps| self.has_value_at(steps)) {
            Some(inner) => PathHint::Meant(vec![write_path("", inner)]),
            None => suggest(&payload.steps, 0, "", &self.frames.iter().collect::<Vec<_>>()),
        }
    }

    /// Returns whether a frame to which the rule of a text applied has a word at the place that it may be meant as.
    fn is_place_of_rule(&self, text: &ReadPlace) -> bool {
        let frames = text.rule_line.and_then(|line| self.rule_frames.get(&line));
        let is_word =
            |value: &Json<'_>| has_value(value) && !matches!(value.json_type(), JsonType::Array | JsonType::Object);
        frames.into_iter().flatten().any(|at| values_at(text, &self.frames[*at]).iter().any(is_word))
    }

    fn explain_payload(&self, payload: &PayloadPath) -> String {
        match self.suggest_payload(payload) {
            PathHint::Meant(meant) => format!("{} Otherwise add an example with it", propose(&meant)),
            other => format!("add an example with it{}", other.describe_behind()),
        }
    }

    fn has_value_at(&self, steps: &[JsonStep]) -> bool {
        self.frames.iter().any(|frame| find_value(steps, frame.as_borrowed()).is_some())
    }

    /// Returns the object below which all paths of the rules would have values, if none has one where they begin.
    fn find_payload(&self) -> Option<String> {
        let is_path =
            |place: &&ReadPlace| place.rule_line.is_some() && place.chain.len() == 1 && !place.written.starts_with('$');
        let paths: BTreeSet<&str> = self.places.iter().filter(is_path).map(|place| &*place.written).collect();
        if paths.len() < 2 {
            return None;
        }
        let payload = self.payload.as_ref().map_or(&[][..], |payload| &payload.steps);
        let steps: Vec<_> = self.places.iter().filter(is_path).filter_map(|place| place.chain.last()).collect();
        let mut objects = Vec::new();
        self.frames.iter().for_each(|frame| add_objects(frame, &[], &mut objects));
        let leads = |steps: &&Vec<JsonStep>| self.has_value_at(steps);
        let holds_all = |object: &&Vec<JsonStep>| {
            let inside =
                |steps: &[JsonStep]| [object.as_slice(), steps.strip_prefix(payload).unwrap_or(steps)].concat();
            steps.iter().all(|steps| self.has_value_at(&inside(steps)))
        };
        let meant = objects.iter().find(holds_all).filter(|_| !steps.iter().any(leads))?;
        Some(write_path("", meant))
    }

    /// Explains a rule that no frame needs, and the way out.
    fn explain_rule(&self, rule: &MappingRule, list_path: &str) -> (String, String) {
        self.explain_mistake(rule, list_path).unwrap_or_else(|| {
            let missing_list = self.explain_missing_list(rule, list_path);
            let missing = missing_list.or_else(|| self.explain_missing(rule));
            let (cause, hint) = missing.or_else(|| explain_conditions(rule)).unwrap_or_default();
            (cause, format!("add an example with such a frame, so that the rule is tested{hint}"))
        })
    }

    /// Explains a condition or a list that can never be what is meant.
    fn explain_mistake(&self, rule: &MappingRule, list_path: &str) -> Option<(String, String)> {
        if let (Some(ValueSource::Slot(slot)), Some(place)) =
            (&rule.each, self.places.iter().find(|place| place.path == list_path))
            && self.found_slots[*slot]
            && let [steps] = place.chain.as_slice()
            && let values = self.frames.iter().filter_map(|frame| find_value(steps, frame.as_borrowed()))
            && values.into_iter().all(|value| !matches!(value.json_type(), JsonType::Array | JsonType::Null))
        {
            let hint = format!("remove `each`, and write `{{{}}}` for the value itself", place.written);
            return Some((format!(": `{}` is no list", place.written), hint));
        }
        rule.conditions.iter().find_map(|condition| {
            let ValueTest::OneOf(words) = &condition.test else { return None };
            let path = &condition.path;
            if words.iter().all(|word| word.value.is_null()) {
                let hint = match self.find_list_before(rule, condition) {
                    Some(list) => format!("write a list: `{list}`"),
                    None => NO_VALUE_HINT.to_owned(),
                };
                return Some((format!(": `{path}` is compared with nothing"), hint));
            }
            let values = self.values_at(rule, condition)?;
            words.iter().filter_map(|word| word.value.text()).find_map(|word| {
                let cause = format!(": none has `{word}` at `{path}`");
                if word.starts_with('!') {
                    return Some((
                        cause,
                        "write all values that it may have, as a list: there is no negation".to_owned(),
                    ));
                }
                if let Some((_, inner)) = word.rsplit_once(": ").filter(|(_, inner)| values.contains(*inner)) {
                    return Some((cause, format!("write `{inner}` alone")));
                }
                find_list(&word, &values).map(|list| (cause, format!("write a list: `{list}`")))
            })
        })
    }

    /// Returns the texts that frames have at the place of a condition.
    fn values_at(&self, rule: &MappingRule, condition: &Condition) -> Option<BTreeSet<String>> {
        match condition.source {
            ValueSource::EventLine => Some(self.event_lines.clone()),
            _ => self
                .json_values_at(rule, condition)
                .map(|values| values.filter_map(|value| Some(value.text()?.into_owned())).collect()),
        }
    }

    /// Returns the values that frames have at the place of a condition in them.
    fn json_values_at(&self, rule: &MappingRule, condition: &Condition) -> Option<impl Iterator<Item = Json<'_>>> {
        let is_of_rule = |place: &&ReadPlace| place.rule_line == Some(rule.line) && *place.written == *condition.path;
        let place = self.places.iter().find(is_of_rule).filter(|_| matches!(condition.source, ValueSource::Slot(_)))?;
        let steps = place.chain.last()?;
        Some(self.frames.iter().filter_map(move |frame| find_value(steps, frame.as_borrowed())))
    }

    /// Explains a condition whose word has another type than the values of the frames.
    fn explain_condition_words(&self, rule: &MappingRule) -> Option<(String, String)> {
        rule.conditions.iter().find_map(|condition| {
            let ValueTest::OneOf(words) = &condition.test else { return None };
            let values: Vec<_> = self.json_values_at(rule, condition)?.collect();
            words.iter().find_map(|word| {
                let (found, hint) = explain_word_type(&word.value, &values)?;
                Some((format!(": they have {found} at `{}`", condition.path), hint))
            })
        })
    }

    /// Explains a word of a condition that is several, between which a comma is missing.
    fn explain_joined_words(&self, rule: &MappingRule) -> Option<(String, String)> {
        rule.conditions.iter().find_map(|condition| {
            let ValueTest::OneOf(words) = &condition.test else { return None };
            let values = self.values_at(rule, condition)?;
            words.iter().filter_map(|word| word.value.text()).find_map(|word| {
                let list = find_list(&word, &values)?;
                Some((format!(": none has `{word}` at `{}`", condition.path), format!("write a list: `{list}`")))
            })
        })
    }

    /// Returns the list that is meant by `why: done, expired`, in which `expired` is a key without a value.
    fn find_list_before(&self, rule: &MappingRule, condition: &Condition) -> Option<String> {
        let at = rule.conditions.iter().position(|own| std::ptr::eq(own, condition))?;
        rule.conditions[..at].iter().rev().find_map(|other| {
            let ValueTest::OneOf(words) = &other.test else { return None };
            let first = words.iter().find_map(|word| Some(word.value.text()?.into_owned()))?;
            let values = self.values_at(rule, other)?;
            let is_list = values.contains(&*condition.path) || values.contains(&first);
            is_list.then(|| format!("{}: [{first}, {}]", other.path, condition.path))
        })
    }

    /// Explains a rule whose list no frame has.
    fn explain_missing_list(&self, rule: &MappingRule, path: &str) -> Option<(String, String)> {
        let Some(ValueSource::Slot(slot)) = &rule.each else { return None };
        let place = self.places.iter().find(|place| place.path == path).filter(|_| !self.found_slots[*slot])?;
        let hint = self.explain_missing_place(place).unwrap_or(PathHint::Members(Vec::new()));
        Some((format!(": none has a list at `{}`", place.written), hint.describe_behind()))
    }

    /// Explains the first condition of a rule which no frame fulfils, and a way out.
    fn explain_missing(&self, rule: &MappingRule) -> Option<(String, String)> {
        let mut needed = rule.conditions.iter().filter(|condition| condition.test != ValueTest::Lacks);
        needed.find_map(|condition| match &condition.source {
            ValueSource::Slot(slot) if !self.found_slots[*slot] => {
                let path = &condition.path;
                let is_line = EVENT_MEMBERS.contains(&&**path) || self.has_line_of(condition);
                let is_line = is_line && !self.event_lines.is_empty();
                let is_of_rule = |place: &&ReadPlace| place.rule_line == Some(rule.line) && *place.written == **path;
                let meant =
                    match self.places.iter().find(is_of_rule).and_then(|place| self.explain_missing_place(place)) {
                        _ if is_line => ", or write `\"@event\"` for the `event:` line".to_owned(),
                        Some(hint) => hint.describe_behind(),
                        None => ", or correct the path".to_owned(),
                    };
                Some((format!(": none has `{path}`"), meant))
            }
            ValueSource::EventLine if self.event_lines.is_empty() => {
                let has_member = list_members(self.frames.iter()).contains("event");
                let meant = if has_member { ", or write `$.event` for the member `event`" } else { "" };
                Some((": none has an `event:` line".to_owned(), meant.to_owned()))
            }
            _ => self.explain_missing_word(rule, condition),
        })
    }

    /// Returns whether an `event:` line has a word of a condition.
    fn has_line_of(&self, condition: &Condition) -> bool {
        let ValueTest::OneOf(words) = &condition.test else { return false };
        words.iter().filter_map(|word| word.value.text()).any(|word| self.event_lines.contains(&*word))
    }

    /// Explains a condition whose place has other words in all frames.
    fn explain_missing_word(&self, rule: &MappingRule, condition: &Condition) -> Option<(String, String)> {
        let ValueTest::OneOf(words) = &condition.test else { return None };
        let values = self.values_at(rule, condition)?;
        let words: Vec<_> = words.iter().filter_map(|word| Some(word.value.text()?.into_owned())).collect();
        if words.is_empty() || words.iter().any(|word| values.contains(word)) {
            return None;
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let meant: BTreeSet<&str> = words.iter().flat_map(|word| nearest_values(word, &values)).collect();
        let meant: Vec<&str> = meant.into_iter().collect();
        let written: Vec<&str> = words.iter().map(String::as_str).collect();
        let hint = match meant.as_slice() {
            [] => String::new(),
            meant => format!(", or write {}, which some have", quote_names(meant, " or ")),
        };
        Some((format!(": none has {} at `{}`", quote_names(&written, " or "), condition.path), hint))
    }

    /// Returns a way out if nothing has a value at a place. Null is one: then the path is right.
    pub(super) fn explain_missing_place(&self, place: &ReadPlace) -> Option<PathHint> {
        let examples = if place.rule_line.is_some() { &self.frames } else { &self.answers };
        self.explain_missing_in(place, examples.iter())
    }

    /// Does the same for the frames to which the rule of a place applied. A condition, a place that is one of several,
    /// one with a word for none, and one deep in an object need no value.
    fn explain_missing_for_rule(&self, place: &ReadPlace) -> Option<PathHint> {
        let frames = self.rule_frames.get(&place.rule_line?)?;
        let is_one_of = |other: &ReadPlace| other.is_alternative && other.path == place.path;
        let keys = place.path.split(['.', '[']);
        let is_optional = keys.into_iter().any(|key| ["when", "has", "lacks", "from", "each"].contains(&key));
        let base = self.payload.as_ref().map_or(0, |payload| payload.steps.len());
        let is_deep = place.chain.iter().map(Vec::len).sum::<usize>() > base + 1;
        if is_optional || is_deep || self.places.iter().any(is_one_of) {
            return None;
        }
        self.explain_missing_in(place, frames.iter().map(|at| &self.frames[*at]))
    }

    fn explain_missing_in<'j>(
        &self,
        place: &ReadPlace,
        examples: impl Iterator<Item = &'j Json<'static>>,
    ) -> Option<PathHint> {
        let (steps, lists) = place.chain.split_last()?;
        let mut roots = Vec::new();
        examples.for_each(|example| collect_roots(lists, example, &mut roots));
        // A list that no frame has is a place of its own.
        if roots.is_empty() || roots.iter().any(|root| find_value(steps, root.as_borrowed()).is_some()) {
            return None;
        }
        let roots: Vec<_> = roots.iter().collect();
        let begins_there = place.rule_line.is_some() && lists.is_empty() && !place.written.starts_with('$');
        let Some(payload) = self.payload.as_ref().filter(|_| begins_there) else {
            let payload = self.payload.as_ref().filter(|_| lists.is_empty() && place.rule_line.is_some());
            let inside = |payload: &&PayloadPath| self.has_value_at(&[payload.steps.as_slice(), steps].concat());
            if let Some(payload) = payload.filter(inside) {
                let meant = format!("`{}`", write_path("", steps));
                return Some(PathHint::Sibling { payload: payload.written.clone(), meant });
            }
            let root = match (lists.is_empty(), place.written.starts_with('$')) {
                (true, true) => "$",
                (true, false) => "",
                (false, _) => "@item",
            };
            return Some(suggest(steps, 0, root, &roots));
        };
        let sibling = steps.strip_prefix(payload.steps.as_slice())?;
        if !self.has_value_at(sibling) {
            return Some(suggest(steps, payload.steps.len(), "", &roots));
        }
        let inside = sibling.strip_prefix(payload.steps.as_slice()).filter(|inside| !inside.is_empty());
        let meant = match inside {
            Some(inside) => format!("`{}`", write_path("", inside)),
            None => format!("`{}` for the member beside it", write_path("$", sibling)),
        };
        Some(PathHint::Sibling { payload: payload.written.clone(), meant })
    }
}

/// Explains a text that frames have as the name of a member.
fn explain_text(text: &ReadPlace) -> (String, String) {
    let root = if text.chain.len() > 1 { "@item." } else { "" };
    let (written, path) = (&text.written, format!("{root}{}", text.written));
    let message = format!("`{written}` is always this text, although frames for this rule have `{path}`");
    (message, format!("write `\"{{{path}}}\"` for its value"))
}

/// Adds the paths of the objects in an object, the outer ones first.
fn add_objects(value: &Json<'_>, path: &[JsonStep], found: &mut Vec<Vec<JsonStep>>) {
    let is_object = |value: &Json<'_>| value.json_type() == JsonType::Object;
    for (key, member) in json::parse_members(value).unwrap_or_default().iter().filter(|(_, value)| is_object(value)) {
        let inner = [path, &[JsonStep::Member(key.name().into())]].concat();
        if inner.len() <= PAYLOAD_DEPTH && !found.contains(&inner) {
            found.push(inner.clone());
            add_objects(member, &inner, found);
        }
    }
}

/// Collects the values where the last path of a chain begins: the frame, or the elements of a list in it.
pub(super) fn collect_roots(lists: &[Vec<JsonStep>], value: &Json<'_>, roots: &mut Vec<Json<'static>>) {
    let Some((steps, inner)) = lists.split_first() else { return roots.push(value.clone().into_owned()) };
    let list = find_value(steps, value.as_borrowed());
    let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
    elements.iter().for_each(|element| collect_roots(inner, element, roots));
}

/// Returns the values that a frame has at a place, of which there may be several in lists.
pub(super) fn values_at(place: &ReadPlace, frame: &Json<'_>) -> Vec<Json<'static>> {
    let Some((steps, lists)) = place.chain.split_last() else { return Vec::new() };
    let mut roots = Vec::new();
    collect_roots(lists, frame, &mut roots);
    let values = roots.iter().filter_map(|root| find_value(steps, root.as_borrowed()).map(Json::into_owned));
    values.collect()
}
