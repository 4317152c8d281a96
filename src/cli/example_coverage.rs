//! The rules of a dialect file that no frame of its examples needs, and the places that none has: they are not tested,
//! and may have a misspelt path.

use crate::codec::json::{self, JsonStep};
use crate::codec::sse::{SseDecoder, SseStep};
use crate::config::dialect_file::{DialectFile, PayloadPath, ReadPlace, ReadTable, write_path};
use crate::config::{ConfigProblem, ProblemSeverity, is_one_edit_off, nearest, quote_names};
use crate::dialect::{Condition, FrameTrace, Mapping, MappingRule, ValueSource, ValueTest, find_value};
use crate::event::{Json, JsonType};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of members of frames that a hint names.
const MAX_MEMBERS: usize = 20;

/// Maximum number of characters of words that have little in common with those of two other letters.
const SHORT_WORD: usize = 6;

/// Maximum number of steps of a payload that a hint names.
const PAYLOAD_DEPTH: usize = 4;

/// Paths of a member that may be meant as the `event:` line.
const EVENT_MEMBERS: [&str; 2] = ["event", "$.event"];

/// The way out of a path that leads nowhere.
enum PathHint {
    /// places with a similar name
    Meant(Vec<String>),
    /// the members that are there; none if nothing is
    Members(Vec<String>),
    /// It begins at the payload, and repeats its path, or is for a member beside it.
    Sibling { payload: String, meant: String },
}

impl PathHint {
    /// Writes the hint for the place of a value.
    fn describe_for(&self, place: &ReadPlace) -> String {
        let text = match self {
            PathHint::Meant(meant) => return format!("{} Otherwise add an example with it", propose(meant)),
            PathHint::Sibling { .. } => return self.describe_rest(),
            PathHint::Members(_) => format!("add an example with it, or correct the path{}", self.describe_rest()),
        };
        match place.is_alternative && place.written.chars().all(char::is_alphanumeric) {
            true => format!("{text}; `|` stands before the place that is read if the first has no value, not a filter"),
            false => text,
        }
    }

    /// Writes what follows upon the advice to add an example.
    fn describe_behind(&self) -> String {
        match self {
            PathHint::Meant(_) | PathHint::Sibling { .. } => format!("; {}", self.describe_rest()),
            PathHint::Members(_) => format!(", or correct the path{}", self.describe_rest()),
        }
    }

    fn describe_rest(&self) -> String {
        match self {
            PathHint::Meant(meant) => propose(meant),
            PathHint::Members(members) if members.is_empty() => String::new(),
            PathHint::Members(members) => format!("; there is {}", quote(members, ", ")),
            PathHint::Sibling { payload, meant } => {
                format!("paths begin at the payload `{payload}`: write {meant}")
            }
        }
    }
}

fn propose(meant: &[String]) -> String {
    format!("did you mean {}?", quote(meant, " or "))
}

fn quote(names: &[String], separator: &str) -> String {
    quote_names(&names.iter().map(String::as_str).collect::<Vec<_>>(), separator)
}

/// Collects what the streams of all examples have and use.
#[derive(Default)]
pub(super) struct ExampleCoverage {
    payload: Option<PayloadPath>,
    places: Vec<ReadPlace>,
    tables: Vec<ReadTable>,
    /// whether a frame has a mistake of its own, which is the cause of what is missing
    has_broken_frames: bool,
    has_streams: bool,
    event_lines: BTreeSet<String>,
    /// lines of the rules that applied
    used_lines: BTreeSet<u64>,
    /// whether a frame has a value, by slot of the mapping's paths
    found_slots: Vec<bool>,
    /// those that are JSON
    frames: Vec<Json<'static>>,
    /// the bodies of answers that are JSON
    answers: Vec<Json<'static>>,
}

impl ExampleCoverage {
    pub(super) fn new(file: &DialectFile) -> Self {
        let (payload, places, tables) = (file.payload.clone(), file.places.clone(), file.tables.clone());
        let has_broken_frames = file.has_broken_frames;
        ExampleCoverage { payload, places, tables, has_broken_frames, ..ExampleCoverage::default() }
    }

    /// Adds the frames of a stream.
    pub(super) fn add_stream(&mut self, bytes: &str, mapping: &Mapping) {
        self.has_streams = true;
        self.found_slots.resize(mapping.paths.len(), false);
        let mut decoder = SseDecoder::default();
        // The last frame of an example may lack its blank line.
        let bytes = format!("{bytes}\n\n");
        let mut rest = bytes.as_bytes();
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            self.event_lines.extend(frame.event.as_deref().map(str::to_owned));
            let values = mapping.paths.read(&frame.data);
            self.found_slots.iter_mut().zip(values.iter()).for_each(|(found, value)| *found |= value.is_some());
            self.frames.extend(json::parse_value(&frame.data).map(Json::into_owned));
        }
    }

    /// Adds the body of an answer, which may be a stream.
    pub(super) fn add_answer(&mut self, body: &str) {
        let mut lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let whole = json::parse_value(body.trim()).map(Json::into_owned);
        let first = || lines.find_map(|line| json::parse_value(line.trim()).map(Json::into_owned));
        self.answers.extend(whole.or_else(first));
    }

    /// Adds the rules that applied to a frame.
    pub(super) fn add_frame(&mut self, trace: &FrameTrace) {
        self.used_lines.extend(&trace.lines);
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
        if let Some(payload) = payload.filter(|payload| !self.has_value_at(&payload.steps)) {
            let message = format!("no frame of the examples has `{}`, where all paths begin", payload.written);
            let hint = suggest(&payload.steps, 0, "", &self.frames.iter().collect::<Vec<_>>());
            let hint = match hint {
                PathHint::Meant(meant) => format!("{} Otherwise add an example with it", propose(&meant)),
                other => format!("add an example with it{}", other.describe_behind()),
            };
            return vec![warning(payload.line, indent_of(payload.line) + 1, "payload", message, hint)];
        }
        if let Some(meant) = self.find_payload().filter(|_| self.has_streams) {
            let message = "no path of the rules has a value in the frames of the examples".to_owned();
            return vec![warning(
                1,
                1,
                "payload",
                message,
                format!("add `payload: {meant}`, below which all of them have one"),
            )];
        }
        let unused = mapping.rules.iter().enumerate().filter(|_| self.has_streams);
        let unused = unused.filter(|(_, rule)| !rule.effects.is_empty() && !self.used_lines.contains(&rule.line));
        let mut warnings: Vec<_> = unused
            .map(|(index, rule)| {
                let (cause, hint) = self.explain_rule(rule, &format!("events[{index}].each"));
                let message = format!("no frame of the examples is for this rule{cause}");
                warning(rule.line, indent_of(rule.line) + 1, &format!("events[{index}]"), message, hint)
            })
            .collect();
        // A place that an alias repeats is one.
        let mut positions = BTreeSet::new();
        let is_used = |place: &&ReadPlace| place.rule_line.is_none_or(|line| self.used_lines.contains(&line));
        for place in self.places.iter().filter(is_used) {
            if let Some(hint) = self.explain_missing_place(place)
                && positions.insert((place.line, place.column, &place.written))
            {
                let noun = if place.rule_line.is_some() { "frame" } else { "answer" };
                let hint = hint.describe_for(place);
                let message = format!("no {noun} of the examples has a value at `{}`", place.written);
                warnings.push(warning(place.line, place.column, &place.path, message, hint));
            }
        }
        for table in &self.tables {
            let place = &self.places[table.place];
            if let Some((message, hint)) = self.explain_unused_table(table, place).filter(|_| is_used(&place)) {
                warnings.push(warning(table.line, table.column, &table.path, message, hint));
            }
        }
        warnings.sort_by_key(|problem| (problem.line, problem.column));
        warnings
    }

    fn has_value_at(&self, steps: &[JsonStep]) -> bool {
        self.frames.iter().any(|frame| find_value(steps, frame.as_borrowed()).is_some())
    }

    /// Returns the object below which all paths of the rules would have values, if none has one where they begin.
    fn find_payload(&self) -> Option<String> {
        let is_path =
            |place: &&ReadPlace| place.rule_line.is_some() && place.chain.len() == 1 && !place.written.starts_with('$');
        let paths: BTreeSet<&str> = self.places.iter().filter(is_path).map(|place| &*place.written).collect();
        if self.payload.is_some() || paths.len() < 2 {
            return None;
        }
        let steps: Vec<_> = self.places.iter().filter(is_path).filter_map(|place| place.chain.last()).collect();
        let mut objects = Vec::new();
        self.frames.iter().for_each(|frame| add_objects(frame, &[], &mut objects));
        let leads = |steps: &&Vec<JsonStep>| self.has_value_at(steps);
        let holds_all = |object: &&Vec<JsonStep>| {
            steps.iter().all(|steps| self.has_value_at(&[object.as_slice(), steps.as_slice()].concat()))
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
                let hint = "write the value behind the colon; `has:` asks for any, and `lacks:` for none";
                return Some((format!(": `{path}` is compared with nothing"), hint.to_owned()));
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
                let parts: Vec<&str> = word.split('|').map(str::trim).collect();
                if parts.len() > 1 && parts.iter().any(|part| values.contains(*part)) {
                    return Some((cause, format!("write a list: `[{}]`", parts.join(", "))));
                }
                let (_, inner) = word.rsplit_once(": ").filter(|(_, inner)| values.contains(*inner))?;
                Some((cause, format!("write `{inner}` alone")))
            })
        })
    }

    /// Returns the texts that frames have at the place of a condition.
    fn values_at(&self, rule: &MappingRule, condition: &Condition) -> Option<BTreeSet<String>> {
        let is_of_rule = |place: &&ReadPlace| place.rule_line == Some(rule.line) && *place.written == *condition.path;
        match condition.source {
            ValueSource::EventLine => Some(self.event_lines.clone()),
            ValueSource::Slot(_) => {
                let steps = self.places.iter().find(is_of_rule)?.chain.last()?;
                let values = self.frames.iter().filter_map(|frame| find_value(steps, frame.as_borrowed()));
                Some(values.filter_map(|value| Some(value.text()?.into_owned())).collect())
            }
            _ => None,
        }
    }

    /// Explains a rule whose list no frame has.
    fn explain_missing_list(&self, rule: &MappingRule, path: &str) -> Option<(String, String)> {
        let Some(ValueSource::Slot(slot)) = &rule.each else { return None };
        let place = self.places.iter().find(|place| place.path == path).filter(|_| !self.found_slots[*slot])?;
        let hint = self.explain_missing_place(place).unwrap_or(PathHint::Members(Vec::new()));
        Some((format!(": none has a list at `{}`", place.written), hint.describe_behind()))
    }

    /// Explains a table of whose words no frame has one.
    fn explain_unused_table(&self, table: &ReadTable, place: &ReadPlace) -> Option<(String, String)> {
        let (steps, lists) = place.chain.split_last()?;
        let mut roots = Vec::new();
        self.frames.iter().for_each(|frame| collect_roots(lists, frame, &mut roots));
        let values = roots.iter().filter_map(|root| find_value(steps, root.as_borrowed()));
        let values =
            values.filter(|value| !matches!(value.json_type(), JsonType::Null | JsonType::Object | JsonType::Array));
        let values: BTreeSet<String> = values
            .map(|value| value.text().map_or_else(|| value.as_str().to_owned(), |text| text.into_owned()))
            .collect();
        if values.is_empty() || table.rows.iter().any(|(theirs, _)| values.contains(theirs)) {
            return None;
        }
        let values: Vec<&str> = values.iter().map(String::as_str).take(MAX_MEMBERS).collect();
        let reversed = table.rows.iter().find(|(_, ours)| values.contains(&ours.as_str()));
        let is_same = |theirs: &str, value: &str| theirs.eq_ignore_ascii_case(value);
        let meant: BTreeSet<&str> = table
            .rows
            .iter()
            .flat_map(|(theirs, _)| {
                let same = values.iter().copied().filter(|value| is_same(theirs, value));
                same.chain(nearest_values(theirs, &values)).collect::<Vec<_>>()
            })
            .collect();
        let meant: Vec<&str> = meant.into_iter().collect();
        let hint = match (reversed, meant.as_slice()) {
            (Some((theirs, ours)), _) => format!("the agent's word stands first: write `{ours}: {theirs}`"),
            (None, []) => "add a row for it, or an example with a word of the table".to_owned(),
            (None, meant) => format!("did you mean {}?", quote_names(meant, " or ")),
        };
        let found = quote_names(&values, ", ");
        Some((format!("no row is used: frames of the examples have {found} at `{}`", place.written), hint))
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
    fn explain_missing_place(&self, place: &ReadPlace) -> Option<PathHint> {
        let (steps, lists) = place.chain.split_last()?;
        let mut roots = Vec::new();
        let examples = if place.rule_line.is_some() { &self.frames } else { &self.answers };
        examples.iter().for_each(|example| collect_roots(lists, example, &mut roots));
        // A list that no frame has is a place of its own.
        if roots.is_empty() || roots.iter().any(|root| find_value(steps, root.as_borrowed()).is_some()) {
            return None;
        }
        let roots: Vec<_> = roots.iter().collect();
        let begins_there = place.rule_line.is_some() && lists.is_empty() && !place.written.starts_with('$');
        let Some(payload) = self.payload.as_ref().filter(|_| begins_there) else {
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

/// Explains a rule each of whose conditions may hold for a frame, but never all of them for one.
fn explain_conditions(rule: &MappingRule) -> Option<(String, String)> {
    let is_of_frame = |condition: &Condition| matches!(condition.source, ValueSource::Slot(_) | ValueSource::EventLine);
    (rule.conditions.len() > 1 && rule.conditions.iter().all(is_of_frame)).then(|| {
        (
            ": none fulfils all its conditions at once".to_owned(),
            ", or remove the condition that is too much".to_owned(),
        )
    })
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

/// Returns the values that a word may mean. Short words are alike by chance.
fn nearest_values<'v>(word: &str, values: &[&'v str]) -> Vec<&'v str> {
    let is_alike = |value: &&str| word.chars().count() > SHORT_WORD || is_one_edit_off(word, value);
    nearest_names(word, values).into_iter().filter(is_alike).collect()
}

/// Returns the names that a word may mean. Two letters are alike to any other two.
fn nearest_names<'v>(word: &str, names: &[&'v str]) -> Vec<&'v str> {
    let is_short = |name: &str| name.chars().count() < 3;
    nearest(word, names).into_iter().filter(|name| !is_short(word) || !is_short(name)).collect()
}

/// Suggests what a path may mean that leads nowhere, by the members of the objects to which its first steps lead.
/// `from` is the number of steps that the file does not write.
fn suggest(steps: &[JsonStep], from: usize, root: &str, examples: &[&Json<'_>]) -> PathHint {
    let find = |length: usize| examples.iter().filter_map(move |own| find_value(&steps[..length], own.as_borrowed()));
    let length = (0..steps.len()).rev().find(|length| find(*length).next().is_some()).unwrap_or_default();
    let Some(JsonStep::Member(wrong)) = steps.get(length) else { return PathHint::Members(Vec::new()) };
    let objects: Vec<_> = find(length).map(Json::into_owned).collect();
    let members = list_members(objects.iter());
    let names: Vec<&str> = members.iter().map(String::as_str).take(MAX_MEMBERS).collect();
    let complete = |member: &&str| {
        let mut meant = steps.to_vec();
        meant[length] = JsonStep::Member((*member).into());
        write_path(root, &meant[from..])
    };
    let meant: Vec<String> = nearest_names(wrong, &names).iter().map(complete).collect();
    match meant.is_empty() {
        false => PathHint::Meant(meant),
        true => PathHint::Members(members.into_iter().take(MAX_MEMBERS).collect()),
    }
}

/// Collects the values where the last path of a chain begins: the frame, or the elements of a list in it.
fn collect_roots(lists: &[Vec<JsonStep>], value: &Json<'_>, roots: &mut Vec<Json<'static>>) {
    let Some((steps, inner)) = lists.split_first() else { return roots.push(value.clone().into_owned()) };
    let list = find_value(steps, value.as_borrowed());
    let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
    elements.iter().for_each(|element| collect_roots(inner, element, roots));
}

/// Returns the names of the members of objects, also of those in texts.
fn list_members<'v>(values: impl Iterator<Item = &'v Json<'v>>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for value in values {
        let text = (value.json_type() == JsonType::String).then(|| value.text()).flatten();
        let object = json::parse_value(text.as_deref().unwrap_or_else(|| value.as_str()).trim());
        let members = object.as_ref().and_then(json::parse_members).unwrap_or_default();
        names.extend(members.iter().map(|(key, _)| key.name().to_owned()));
    }
    names
}
