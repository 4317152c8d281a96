//! Values as a dialect file writes them.

use super::compiled::{PathChain, ReadTable};
use super::compiler::{DialectCompiler, PathUse, PlacedNode, literal_json, position_of};
use super::file_keys::RULE_KEYS;
use super::path_text::{is_named_place, is_place};
use super::request_places::RequestPlace;
use super::rule_overlaps::FirstMatch;
use super::value_mistakes::{
    CONVERSION_KEYS, TABLE_KEYS, find_conversion, find_mistake, find_outdented_form, find_path_mistake, is_compared,
    is_pattern, plain_variable, quote_path, value_of,
};
use crate::codec::json;
use crate::config::problem::SourcePosition;
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeScalar, TreeScalarKind, join_key};
use crate::dialect::{ComparedWord, Condition, ItemRule, TextPart, ValueSource, ValueTemplate, ValueTest};
use crate::event::{Json, JsonType};

pub(super) const EACH_KEYS: &[&str] = &["each", "as", "rules"];
pub(super) const ITEM_KEYS: &[&str] = &["when", "has", "lacks", "as"];

/// A condition that is known when the file is read, or one for each frame or element.
enum CompiledCondition {
    Always,
    Never,
    Of(Condition),
}

impl DialectCompiler<'_> {
    /// Compiles a value.
    pub(super) fn compile_value(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<ValueTemplate> {
        match &at.node.value {
            NodeValue::Empty => Some(ValueTemplate::Literal(Json::NULL)),
            NodeValue::Scalar(scalar) => match scalar.kind {
                TreeScalarKind::Text => self.compile_text(at, &scalar.text, scope),
                _ => Some(ValueTemplate::Literal(literal_json(scalar))),
            },
            NodeValue::List(items) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    let path = format!("{}[{index}]", at.path);
                    self.compile_value(PlacedNode { node: item, path: &path }, scope)
                });
                items.collect::<Vec<_>>().into_iter().collect::<Option<_>>().map(ValueTemplate::List)
            }
            NodeValue::Mapping(entries) => self.compile_mapping(at, entries, scope),
        }
    }

    fn compile_mapping(&mut self, at: PlacedNode<'_>, entries: &[MapEntry], scope: PathUse) -> Option<ValueTemplate> {
        let has_only = |keys: &[&str]| entries.iter().all(|entry| keys.contains(&entry.key.as_str()));
        let has = |key: &str| at.node.entry(key).is_some();
        if let Some((message, hint)) = find_mistake(at, entries) {
            self.report_at(at, message, hint);
            return None;
        }
        if let Some((inner, outer)) = find_outdented_form(entries) {
            let message = format!("`{}` stands beside `{}`, whose `each` lacks it", inner.key, outer.key);
            let hint = format!("indent `{}` as far as `each`", inner.key);
            self.report(&join_key(at.path, &inner.key), inner.position, message, hint);
            return None;
        }
        match entries {
            [only] if CONVERSION_KEYS.contains(&only.key.as_str()) => {
                let path = join_key(at.path, &only.key);
                let inner = Box::new(self.compile_value(PlacedNode { node: &only.value, path: &path }, scope)?);
                Some(match only.key.as_str() {
                    "as_text" => ValueTemplate::AsText(inner),
                    "as_json" => ValueTemplate::AsJson(inner),
                    _ => ValueTemplate::TextOf(inner),
                })
            }
            _ if has("from") && (has("table") || has("otherwise")) && has_only(TABLE_KEYS) => {
                self.compile_table(at, scope)
            }
            _ if has("each") && (has("as") || has("rules")) && has_only(EACH_KEYS) => self.compile_each(at, scope),
            _ if has("as") && entries.len() > 1 && has_only(ITEM_KEYS) => {
                let value = at.node.entry("as")?;
                let path = join_key(at.path, "as");
                let value = self.compile_value(PlacedNode { node: &value.value, path: &path }, scope)?;
                Some(match self.compile_conditions(at, scope) {
                    Some(conditions) => ValueTemplate::If(conditions, Box::new(value)),
                    None => ValueTemplate::From(Vec::new()),
                })
            }
            _ => {
                if let Some((entry, meant)) = find_conversion(entries) {
                    let message = format!("`{}` is a member of an object here", entry.key);
                    self.warn(at.path, position_of(at.node), message, format!("did you mean `{meant}`?"));
                }
                let members = entries.iter().filter(|entry| !entry.value.is_skipped.get()).map(|entry| {
                    let path = join_key(at.path, &entry.key);
                    let value = self.compile_value(PlacedNode { node: &entry.value, path: &path }, scope)?;
                    Some((entry.key.as_str().into(), value))
                });
                members.collect::<Vec<_>>().into_iter().collect::<Option<_>>().map(ValueTemplate::Object)
            }
        }
    }

    fn compile_table(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<ValueTemplate> {
        let mut part = |key: &str| {
            let entry = at.node.entry(key)?;
            let path = join_key(at.path, key);
            Some(self.compile_value(PlacedNode { node: &entry.value, path: &path }, scope).map(Box::new))
        };
        let otherwise = match part("otherwise") {
            Some(value) => Some(value?),
            None => None,
        };
        let from = part("from")??;
        self.add_otherwise(at, otherwise.as_deref(), scope);
        // The place that was read last.
        let read = match &*from {
            ValueTemplate::From(sources) if matches!(scope, PathUse::Frame { .. }) => match sources.as_slice() {
                [ValueSource::Slot(_)] => self.places.len().checked_sub(1),
                [ValueSource::Item(_)] if self.item_chain.is_some() => self.places.len().checked_sub(1),
                _ => None,
            },
            _ => None,
        };
        let is_place = matches!(&*from, ValueTemplate::From(sources) if sources.len() == 1);
        let known = std::mem::take(&mut self.last_words);
        let known = if is_place { known } else { Vec::new() };
        let is_constant = |text: &TreeScalar| !text.text.contains("${");
        if let (ValueTemplate::Literal(word), Some(NodeValue::Scalar(text))) = (&*from, value_of(at, "from"))
            && is_constant(text)
        {
            let word = word.unquoted();
            self.report_at(at, format!("`from: {word}` is always the same"), format!("write `from: \"{{{word}}}\"`"));
            return None;
        }
        let mut words = Vec::new();
        let mut rows = Vec::new();
        if let Some(table) = at.node.entry("table") {
            let path = join_key(at.path, "table");
            let table = PlacedNode { node: &table.value, path: &path };
            let entries = self.mapping_entries(table, "`table: {their-word: our-word}`");
            if entries.is_empty() && matches!(table.node.value, NodeValue::Mapping(_)) {
                self.report_at(
                    table,
                    "an empty table has no words",
                    "add some, or remove `table` for the value itself",
                );
            }
            for entry in entries {
                let path = join_key(&path, &entry.key);
                let at = PlacedNode { node: &entry.value, path: &path };
                let NodeValue::Scalar(word) = &entry.value.value else {
                    self.report_at(at, "must be one value", "write a text, a number, or true or false");
                    continue;
                };
                let before = self.problem_count();
                self.check_request_word(at, &entry.key, &known);
                self.move_problems(before, entry.position);
                rows.push((entry.key.clone(), word.text.clone()));
                words.push((Json::string(&entry.key), literal_json(word)));
                // A number or a boolean is a key as well.
                if let Some(number) = json::parse_value(&entry.key) {
                    words.push((number.into_owned(), literal_json(word)));
                }
            }
            if let Some((place, SourcePosition { line, column })) = read.zip(position_of(table.node)) {
                self.tables.push(ReadTable { place, rows, path, line, column });
            }
        }
        Some(ValueTemplate::Table { from, words, otherwise })
    }

    fn compile_each(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<ValueTemplate> {
        let path = join_key(at.path, "each");
        let list = self.compile_list_path(PlacedNode { node: &at.node.entry("each")?.value, path: &path }, scope)?;
        let inner = self.last_chain.take();
        let outer = std::mem::replace(&mut self.item_chain, inner);
        let rules = self.compile_elements(at, scope.with_item());
        self.item_chain = outer;
        Some(ValueTemplate::Each { list, rules: rules? })
    }

    /// Compiles the forms of a list's elements.
    fn compile_elements(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<Vec<ItemRule>> {
        if let Some(value) = at.node.entry("as") {
            let path = join_key(at.path, "as");
            let value = self.compile_value(PlacedNode { node: &value.value, path: &path }, scope)?;
            return Some(vec![ItemRule { index: 0, conditions: Vec::new(), value }]);
        }
        let rules_path = join_key(at.path, "rules");
        let written = PlacedNode { node: &at.node.entry("rules")?.value, path: &rules_path };
        if matches!(written.node.value, NodeValue::Mapping(_)) && written.node.entry("as").is_none() {
            let hint = "write `as: VALUE` for one form of all elements, or `rules: [{when: {PATH: word}, as: VALUE}]`";
            self.report_at(written, "must be a list of rules, each with `as`", hint);
            return None;
        }
        let rules = self.list_items(written);
        if rules.is_empty() {
            self.report_at(at, "an empty list of `rules` makes no element", "add one, such as `{as: \"{@item}\"}`");
        }
        let mut compiled = Vec::new();
        let mut earlier = Vec::new();
        for (index, (rule, path)) in rules.into_iter().enumerate() {
            let before = self.problem_count();
            let at = PlacedNode { node: rule, path: &path };
            self.mapping_entries(at, "`{when: {role: user}, as: …}`");
            if !matches!(rule.value, NodeValue::Mapping(_)) {
                continue;
            }
            self.check_keys(at, ITEM_KEYS);
            let Some(value) = rule.entry("as") else {
                // A misspelt key is not also a missing one.
                if self.problem_count() == before {
                    self.report_at(at, "the key `as` is missing", "add `as:` with the element that the list gets");
                }
                continue;
            };
            let value_path = join_key(&path, "as");
            let value = self.compile_value(PlacedNode { node: &value.value, path: &value_path }, scope);
            let conditions = self.compile_conditions(at, scope);
            if let (Some(value), Some(conditions)) = (value, conditions) {
                // A condition with a mistake is none.
                if self.problem_count() == before {
                    self.check_first_match(at, &conditions, &mut earlier, "element");
                    earlier.push(FirstMatch::new(at, &conditions));
                }
                compiled.push(ItemRule { index, conditions, value });
            }
        }
        Some(compiled)
    }

    /// Compiles `when`, `has` and `lacks`; `None` if a variable makes them impossible.
    pub(super) fn compile_conditions(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<Vec<Condition>> {
        let mut conditions = Vec::new();
        let mut is_possible = true;
        if let Some(when) = at.node.entry("when") {
            let path = join_key(at.path, "when");
            let expected = "`when: {type: message}`, with paths and the values that they must have";
            for entry in self.mapping_entries(PlacedNode { node: &when.value, path: &path }, expected) {
                let path = join_key(&path, &entry.key);
                if RULE_KEYS.contains(&entry.key.as_str()) && !is_compared(&entry.value) {
                    let message = format!("`{}` is a key of the rule, and no condition", entry.key);
                    self.report(&path, entry.position, message, "indent it as far as `when`");
                    continue;
                }
                let at = PlacedNode { node: &entry.value, path: &path };
                let (before, first_place) = (self.problem_count(), self.places.len());
                let source = self.compile_path(at, &entry.key, scope);
                self.move_problems(before, entry.position);
                if let Some(SourcePosition { line, column }) = entry.position {
                    let places = self.places[first_place..].iter_mut();
                    places.for_each(|place| (place.line, place.column) = (line, column));
                }
                let words = self.compile_words(at);
                let test = words.map(ValueTest::OneOf);
                let path = || entry.key.as_str().into();
                conditions.extend(source.zip(test).map(|(source, test)| Condition { source, path: path(), test }));
            }
        }
        for (key, test) in [("has", ValueTest::Has), ("lacks", ValueTest::Lacks)] {
            let Some(entry) = at.node.entry(key) else { continue };
            let path = join_key(at.path, key);
            for (item, path) in self.list_items(PlacedNode { node: &entry.value, path: &path }) {
                match self.compile_test(PlacedNode { node: item, path: &path }, scope, &test) {
                    Some(CompiledCondition::Of(condition)) => conditions.push(condition),
                    Some(CompiledCondition::Never) => is_possible = false,
                    Some(CompiledCondition::Always) | None => {}
                }
            }
        }
        self.check_contradiction(at, &conditions);
        is_possible.then_some(conditions)
    }

    fn compile_test(&mut self, at: PlacedNode<'_>, scope: PathUse, test: &ValueTest) -> Option<CompiledCondition> {
        let NodeValue::Scalar(written) = &at.node.value else {
            match &at.node.value {
                NodeValue::Mapping(entries) if let [MapEntry { key, value, .. }] = &**entries => {
                    let key = quote_path(key);
                    let hint = match &value.value {
                        NodeValue::Scalar(word) if *test == ValueTest::Has => {
                            format!("write the path alone, `{key}`, or `when: {{{key}: {}}}` for this value", word.text)
                        }
                        _ => format!("write the path alone, `{key}`"),
                    };
                    self.report_at(at, "must be a path, not a mapping", hint);
                }
                _ => drop(self.scalar_text(at)),
            }
            return None;
        };
        if written.text.contains("${") {
            let has_text = !self.expand(at, &written.text)?.is_empty();
            let holds = has_text == (*test == ValueTest::Has);
            return Some(if holds { CompiledCondition::Always } else { CompiledCondition::Never });
        }
        if let Some((path, word)) = written.text.split_once(": ").filter(|(path, _)| is_place(path)) {
            let hint = format!("write `when: {{{}: {word}}}`", quote_path(path));
            self.report_at(at, "must be a path, without a value", hint);
            return None;
        }
        let source = self.compile_path(at, &written.text, scope)?;
        Some(CompiledCondition::Of(Condition { source, path: written.text.as_str().into(), test: test.clone() }))
    }

    fn compile_words(&mut self, at: PlacedNode<'_>) -> Option<Vec<ComparedWord>> {
        let mut words = Vec::new();
        let known = std::mem::take(&mut self.last_words);
        for (item, path) in self.list_items(at) {
            match &item.value {
                NodeValue::Scalar(word) if word.text.contains("${") => {
                    let text = self.expand(PlacedNode { node: item, path: &path }, &word.text)?;
                    // A variable is a text, and may stand for a number or a boolean.
                    let value = json::parse_value(&text)
                        .filter(|value| matches!(value.json_type(), JsonType::Number | JsonType::Bool));
                    words.extend(value.map(|value| ComparedWord::new(value.into_owned())));
                    words.push(ComparedWord::new(Json::string(&text)));
                }
                NodeValue::Scalar(word) => {
                    if words.contains(&ComparedWord::new(literal_json(word))) {
                        let message = format!("`{}` stands twice in this list", word.text);
                        self.warn(
                            &path,
                            position_of(item),
                            message,
                            "remove it, or write the other value that is meant",
                        );
                    }
                    if is_pattern(&word.text) {
                        self.add_pattern(PlacedNode { node: item, path: &path }, &word.text);
                    }
                    self.check_request_word(PlacedNode { node: item, path: &path }, &word.text, &known);
                    words.push(ComparedWord::new(literal_json(word)));
                }
                NodeValue::Empty => words.push(ComparedWord::new(Json::NULL)),
                _ => {
                    let hint = "write a text, a number, true or false, or a list of them; `has` asks for any value";
                    self.report(&path, position_of(item), "must be a value to compare with", hint);
                    return None;
                }
            }
        }
        if words.is_empty() {
            self.report_at(at, "an empty list never holds", "write the values that it may have");
            return None;
        }
        Some(words)
    }

    pub(super) fn compile_one_path(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<ValueSource> {
        let text = self.scalar_text(at)?;
        self.compile_path(at, &text, scope)
    }

    /// Compiles the path of a list.
    pub(super) fn compile_list_path(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<ValueSource> {
        let source = self.compile_one_path(at, scope)?;
        let is_request = matches!(scope, PathUse::Request { .. });
        let has_no_list = |chain: &PathChain| RequestPlace::find(chain).is_ok_and(|place| place.elements().is_err());
        let is_text = self.last_chain.as_ref().is_some_and(|chain| is_request && has_no_list(chain));
        let is_text = is_text
            || matches!(
                source,
                ValueSource::EventLine
                    | ValueSource::Data
                    | ValueSource::ThreadId
                    | ValueSource::RunId
                    | ValueSource::UserText
                    | ValueSource::Reasoning
            );
        if is_text {
            self.report_at(at, "this is a text, and never a list", "name a list, such as `choices`");
            return None;
        }
        Some(source)
    }

    /// Reports a place that would be sent as it is written: in two braces, or without any.
    fn reports_lost_place(&mut self, at: PlacedNode<'_>, text: &str, scope: PathUse) -> bool {
        let named = text
            .strip_prefix('$')
            .filter(|name| name.contains('_') && is_named_place(name))
            .map(|name| format!("@{name}"));
        let is_bare = (text.starts_with("$.") || text.starts_with('@')) && is_place(text);
        if let Some(meant) = named.or_else(|| is_bare.then(|| text.to_owned())) {
            let message = format!("`{text}` without braces is this text itself");
            self.report_at(at, message, format!("write `\"{{{meant}}}\"`"));
            return true;
        }
        let doubled = text.split("{{").skip(1).find_map(|rest| rest.split_once("}}").map(|(inside, _)| inside));
        let is_frame = matches!(scope, PathUse::Frame { .. });
        // An agent may have templates of its own, but none begin with `@`.
        let is_lost = |place: &&str| match place.trim().strip_prefix('@') {
            Some(name) if place.trim() != *place => is_named_place(name),
            Some(_) => is_frame || is_place(place),
            None => is_frame && is_place(place),
        };
        let Some(place) = doubled.filter(is_lost) else { return false };
        let hint = match place.trim() {
            inner if inner != place => format!("write `{{{inner}}}` for the value"),
            _ => format!("write `{{{place}}}` for the value, or `{{{{ {place} }}}}` for a text in braces"),
        };
        self.report_at(at, format!("`{{{{{place}}}}}` is the text `{{{place}}}`, not a value"), hint);
        true
    }

    /// Compiles a text with places in braces.
    fn compile_text(&mut self, at: PlacedNode<'_>, written: &str, scope: PathUse) -> Option<ValueTemplate> {
        let text = self.expand(at, written)?;
        if text.is_empty() && !written.is_empty() {
            // A variable without a value leaves out its member.
            return Some(ValueTemplate::From(Vec::new()));
        }
        if self.reports_lost_place(at, &text, scope) {
            return None;
        }
        if let Some(name) = plain_variable(written) {
            let message = format!("`{written}` without braces is this text itself");
            self.warn(at.path, position_of(at.node), message, format!("write `${{{name}}}` for the variable"));
        }
        if scope.has_item() && text.starts_with("item.") && is_place(&text) {
            let message = format!("`{text}` without braces is this text itself");
            self.warn(
                at.path,
                position_of(at.node),
                message,
                format!("write `\"{{@{text}}}\"` for the element's member"),
            );
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text.as_str();
        while let Some(brace) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(brace);
            literal.push_str(before);
            if let Some(next) =
                after.strip_prefix("{{").map(|next| (next, '{')).or(after.strip_prefix("}}").map(|next| (next, '}')))
            {
                literal.push(next.1);
                rest = next.0;
                continue;
            }
            let Some((inside, next)) = after.strip_prefix('{').and_then(|inside| inside.split_once('}')) else {
                let hint = "close it, or write `{{` and `}}` for braces that are meant as such";
                self.report_at(at, format!("`{text}` has a brace without a partner"), hint);
                return None;
            };
            if !literal.is_empty() {
                parts.push(TextPart::Literal(std::mem::take(&mut literal).into()));
            }
            let mut sources = Vec::new();
            let first_place = self.places.len();
            for path in inside.split('|') {
                if let Some((message, hint)) = find_path_mistake(inside, path) {
                    self.report_at(at, message, hint);
                    return None;
                }
                sources.push(self.compile_path(at, path, scope)?);
            }
            self.places[first_place..].iter_mut().skip(1).for_each(|place| place.is_alternative = true);
            parts.push(TextPart::From(sources));
            rest = next;
        }
        literal.push_str(rest);
        if parts.is_empty() {
            self.add_request_text(at, &literal, scope);
            return Some(ValueTemplate::Literal(Json::string(&literal)));
        }
        if !literal.is_empty() {
            parts.push(TextPart::Literal(literal.into()));
        }
        Some(match parts.pop() {
            Some(TextPart::From(sources)) if parts.is_empty() => ValueTemplate::From(sources),
            last => ValueTemplate::Text(parts.into_iter().chain(last).collect()),
        })
    }
}
