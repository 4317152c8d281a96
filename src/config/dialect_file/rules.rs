//! The rules of a dialect file.

use super::compiler::{DialectCompiler, PathUse, PlacedNode, empty_above, position_of};
use super::file_keys::{CONTENT, EFFECT_KEYS, FAIL_KEYS, KEY, RULE_KEYS};
use super::misplaced_keys::suggest_place;
use crate::config::problem::did_you_mean;
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode, TreeScalarKind, join_key};
use crate::dialect::{EmittedEvent, MappingRule, MemberTemplate, RuleEffect, ValueTemplate, find_member};
use crate::event::kind::Slot;
use crate::event::lane::ChunkStreamKind;
use crate::event::schema::{ValueSchema, value_schema};
use crate::event::{EventType, Field, MemberKey, retired};

/// Events that come by themselves, or with an effect of their own.
pub(super) const NOT_EMITTED: &[EventType] = &[EventType::RunStarted, EventType::RunFinished, EventType::RunError];

fn has_conditions(rule: &MappingRule) -> bool {
    rule.each.is_some() || !rule.conditions.is_empty()
}

pub(super) fn ends_run(effect: &RuleEffect) -> bool {
    matches!(effect, RuleEffect::Done | RuleEffect::Fail { .. })
}

/// Returns the piece in place of which a file may write the whole life of a message, a thought or a call.
const fn chunk_of(kind: EventType) -> Option<EventType> {
    match kind {
        EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd => {
            Some(EventType::TextMessageChunk)
        }
        EventType::ReasoningMessageStart | EventType::ReasoningMessageContent | EventType::ReasoningMessageEnd => {
            Some(EventType::ReasoningMessageChunk)
        }
        EventType::ToolCallStart | EventType::ToolCallArgs => Some(EventType::ToolCallChunk),
        _ => None,
    }
}

/// Returns the member of an event that is a list of objects with such a member.
fn list_with_member(kind: EventType, name: &str) -> Option<&'static str> {
    let has_member = |slot: &&Slot| match value_schema(kind, slot) {
        ValueSchema::List(ValueSchema::Object(object)) | ValueSchema::NonEmpty(ValueSchema::Object(object)) => {
            object.members.iter().any(|member| member.name == name)
        }
        _ => false,
    };
    kind.all_slots().find(has_member).map(|slot| slot.field.camel())
}

/// Returns the first path that a rule asks for.
fn label_of(rule: &TreeNode) -> Box<str> {
    let first = ["has", "each"].iter().find_map(|key| {
        let node = match &rule.entry(key)?.value.value {
            NodeValue::List(paths) => paths.first()?,
            _ => &rule.entry(key)?.value,
        };
        let NodeValue::Scalar(path) = &node.value else { return None };
        Some(path.text.as_str().into())
    });
    first.unwrap_or_default()
}

impl DialectCompiler<'_> {
    pub(super) fn compile_rules(&mut self, at: PlacedNode<'_>) {
        let NodeValue::List(rules) = &at.node.value else {
            let hint = "write a list: `- when: {type: message}` and below it `emit:`";
            return self.report_at(at, "must be a list of rules", hint);
        };
        let mut last = None;
        let mut for_all = None;
        for (index, node) in rules.iter().enumerate() {
            let path = format!("{}[{index}]", at.path);
            let at = PlacedNode { node, path: &path };
            if let Some(last) = &last {
                let message = format!("this is never used, because {last} ends the run with any frame");
                let hint = "move it to the front, or add `when:`, `has:` or `lacks:` to the other";
                return self.report_at(at, message, hint);
            }
            let before = self.problem_count();
            let (first_place, first_text) = (self.places.len(), self.texts.of_rules.len());
            let Some(rule) = self.compile_rule(at) else { continue };
            if self.problem_count() == before {
                self.check_overlap(at, &rule);
            }
            self.finish_rule_places(&path, rule.line, first_place, first_text);
            // A condition with a mistake is none.
            let has_mistake = self.problem_count() > before;
            if rule.each.is_none() && rule.conditions.is_empty() && rule.effects.iter().any(ends_run) && !has_mistake {
                last = Some(path.clone());
            }
            if !has_conditions(&rule) && rule.effects.iter().any(|effect| effect.emitted().is_some()) {
                for_all.get_or_insert((path, position_of(node)));
            }
            self.mapping.rules.push(rule);
        }
        if let Some((path, position)) = for_all.filter(|_| self.mapping.rules.iter().any(has_conditions)) {
            let message = "the rule has no condition: every frame with its values becomes this event";
            self.warn(&path, position, message, "add `when:`, or `has:` with the path of a value that it needs");
        }
    }

    fn compile_rule(&mut self, at: PlacedNode<'_>) -> Option<MappingRule> {
        let before = self.problem_count();
        let entries = self.mapping_entries(at, "`when:` or `has:`, and `emit:` below it");
        self.check_keys(at, RULE_KEYS);
        let scope = PathUse::Frame { has_item: false };
        let each = match at.node.entry("each") {
            Some(entry) => {
                let path = join_key(at.path, "each");
                Some(self.compile_list_path(PlacedNode { node: &entry.value, path: &path }, scope)?)
            }
            None => None,
        };
        self.item_chain = self.last_chain.take().filter(|_| each.is_some());
        let scope = PathUse::Frame { has_item: each.is_some() };
        let conditions = self.compile_conditions(at, scope);
        // A misspelt or misplaced key is not also a missing one.
        let does_nothing = !entries.iter().any(|entry| EFFECT_KEYS.contains(&entry.key.as_str()));
        if does_nothing && self.problem_count() == before {
            let hint = "add `emit:` with an event, or `ignore: true` for frames that mean nothing to a user";
            self.report_at(at, "the rule does nothing", hint);
        }
        let mut effects = Vec::new();
        // It is empty because what belongs to it is not indented.
        let is_unknown = |entry: &&MapEntry| !RULE_KEYS.contains(&entry.key.as_str());
        let outer = entries.iter().copied().find(is_unknown).and_then(|entry| empty_above(at.node, entry));
        for entry in entries.into_iter().filter(|entry| !outer.is_some_and(|outer| std::ptr::eq(outer, *entry))) {
            let path = join_key(at.path, &entry.key);
            self.compile_effect(PlacedNode { node: &entry.value, path: &path }, &entry.key, scope, &mut effects);
        }
        // Values are set before events use them, and the run ends last.
        effects.sort_by_key(|effect| match effect {
            RuleEffect::Set(..) | RuleEffect::Append(..) | RuleEffect::Keep(..) => 0,
            RuleEffect::Emit(_) => 1,
            RuleEffect::Finish(_) => 2,
            RuleEffect::Done | RuleEffect::Fail { .. } => 3,
        });
        if effects.iter().filter(|effect| ends_run(effect)).count() > 1 {
            self.report_at(at, "the rule has both `done` and `fail`", "keep the one with which the run ends");
        }
        let has = |is_kind: fn(&RuleEffect) -> bool| effects.iter().any(is_kind);
        if has(|effect| matches!(effect, RuleEffect::Finish(_)))
            && has(|effect| matches!(effect, RuleEffect::Fail { .. }))
        {
            let hint = "remove `finish`, which says that the run has succeeded, or write two rules with conditions";
            self.report_at(at, "the rule has both `finish` and `fail`", hint);
        }
        if at.node.entry("ignore").is_some() && !effects.is_empty() {
            self.report_at(at, "the rule has `ignore` and does something", "remove `ignore`, or everything else");
        }
        let line = position_of(at.node).map_or(0, |position| position.line);
        Some(MappingRule { line, label: label_of(at.node), each, conditions: conditions?, effects })
    }

    fn compile_effect(&mut self, at: PlacedNode<'_>, key: &str, scope: PathUse, effects: &mut Vec<RuleEffect>) {
        match key {
            "emit" => {
                let events = self.list_items(at);
                if events.is_empty() {
                    self.report_at(at, "an empty list has no event", "add one, or write `ignore: true`");
                }
                for (event, path) in events {
                    effects.extend(
                        self.compile_event(PlacedNode { node: event, path: &path }, scope).map(RuleEffect::Emit),
                    );
                }
            }
            "set" | "append" | "keep" => self.compile_kept_values(at, key, scope, effects),
            "finish" => {
                let members = self.compile_members(at, EventType::RunFinished, &[], scope);
                effects.push(RuleEffect::Finish(members));
            }
            "done" | "ignore" => {
                let is_true = matches!(&at.node.value, NodeValue::Scalar(scalar)
                    if matches!(scalar.kind, TreeScalarKind::Bool(true)));
                if !is_true {
                    self.report_at(at, "must be true", format!("write `{key}: true`, or remove the key"));
                } else if key == "done" {
                    effects.push(RuleEffect::Done);
                }
            }
            "fail" => {
                let example = match &at.node.value {
                    NodeValue::Scalar(text) => &text.text,
                    _ => "{error.message}",
                };
                self.mapping_entries(at, &format!("`fail: {{message: \"{example}\"}}`, and `code:` if it has one"));
                self.check_keys(at, FAIL_KEYS);
                let mut part = |key: &str| {
                    let entry = at.node.entry(key)?;
                    let path = join_key(at.path, key);
                    let at = PlacedNode { node: &entry.value, path: &path };
                    let value = self.compile_value(at, scope);
                    // A code is often a word, which another frame may have as the name of a member.
                    let is_path = |text: &str| text == key || text.contains('.');
                    match key != "code" || matches!(&at.node.value, NodeValue::Scalar(text) if is_path(&text.text)) {
                        true => self.add_constant(at, value.as_ref()),
                        false => self.add_rule_text(at, value.as_ref()),
                    }
                    value
                };
                effects.push(RuleEffect::Fail { message: part("message"), code: part("code") });
            }
            _ => {}
        }
    }

    fn compile_kept_values(&mut self, at: PlacedNode<'_>, key: &str, scope: PathUse, effects: &mut Vec<RuleEffect>) {
        for entry in self.mapping_entries(at, &format!("`{key}: {{name: \"{{PATH}}\"}}`")) {
            let path = join_key(at.path, &entry.key);
            let at = PlacedNode { node: &entry.value, path: &path };
            let is_plain = !entry.key.is_empty() && entry.key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_plain {
                let hint = "write letters, digits and underscores, such as `conversation_id`";
                self.report(&path, entry.position, format!("`{}` is not a name", entry.key), hint);
                continue;
            }
            let Some(value) = self.compile_value(at, scope) else { continue };
            self.add_constant(at, Some(&value));
            let names = if key == "keep" { &self.mapping.thread_names } else { &self.mapping.run_names };
            let Some(name) = names.iter().position(|name| **name == *entry.key) else { continue };
            effects.push(match key {
                "set" => RuleEffect::Set(name, value),
                "append" => RuleEffect::Append(name, value),
                _ => RuleEffect::Keep(name, value),
            });
        }
    }

    fn compile_event_type(&mut self, at: PlacedNode<'_>) -> Option<EventType> {
        let Some(written) = at.node.entry("type") else {
            let NodeValue::Mapping(entries) = &at.node.value else { return None };
            if let Some(entry) = entries.iter().find(|entry| EFFECT_KEYS.contains(&entry.key.as_str())) {
                self.lacks_names = true;
                let hint = format!("write it as far left as `{}`", at.path.rsplit('.').next().unwrap_or_default());
                self.report(
                    &join_key(at.path, &entry.key),
                    entry.position,
                    format!("`{}` is a key of the rule, and no member of an event", entry.key),
                    hint,
                );
                return None;
            }
            let hint = format!("add AG-UI's event, such as `type: {}`", EventType::TextMessageChunk.wire());
            self.report_at(at, "the key `type` is missing", hint);
            return None;
        };
        let type_path = join_key(at.path, "type");
        let type_at = PlacedNode { node: &written.value, path: &type_path };
        let wire = self.scalar_text(type_at)?;
        let Some(kind) = EventType::from_wire(&wire) else {
            let known: Vec<&str> = EventType::ALL.iter().map(|kind| kind.wire()).collect();
            let hint = match retired::find_by_wire(&wire).map(|retired| retired.kind) {
                Some(kind) => {
                    let piece = chunk_of(kind).unwrap_or(EventType::ReasoningMessageChunk);
                    format!("AG-UI 1.0 has {} in its place; write {}", kind.wire(), piece.wire())
                }
                None => did_you_mean(&wire, &known),
            };
            self.report_at(type_at, format!("AG-UI has no event `{wire}`"), hint);
            return None;
        };
        let instead = match kind {
            EventType::RunStarted => Some("remove it: the run starts with the agent's first frame"),
            EventType::RunFinished => Some("write `finish: {}` or `done: true` in the rule"),
            EventType::RunError => Some("write `fail: {message: \"{PATH}\"}` in the rule"),
            _ => None,
        };
        if let Some(hint) = instead {
            self.report_at(type_at, format!("`{wire}` is not emitted by rules"), hint);
            return None;
        }
        Some(kind)
    }

    fn compile_event(&mut self, at: PlacedNode<'_>, scope: PathUse) -> Option<EmittedEvent> {
        let example = EventType::TextMessageChunk.wire();
        let entries = self.mapping_entries(at, &format!("`{{type: {example}, delta: \"{{PATH}}\"}}`"));
        if entries.is_empty() {
            return None;
        }
        let kind = self.compile_event_type(at)?;
        let is_piece = ChunkStreamKind::from_event(kind).is_some();
        let is_call = matches!(kind, EventType::ToolCallChunk | EventType::ToolCallEnd | EventType::ToolCallResult);
        let own_keys: &[&str] = match (is_piece, is_call) {
            (true, true) => &["type", KEY, CONTENT],
            (true, false) => &["type", CONTENT],
            (false, true) => &["type", KEY],
            (false, false) => &["type"],
        };
        let before = self.problem_count();
        let members = self.compile_members(at, kind, own_keys, scope);
        let mut part = |name: &str| {
            let entry = at.node.entry(name).filter(|_| own_keys.contains(&name))?;
            let path = join_key(at.path, name);
            let at = PlacedNode { node: &entry.value, path: &path };
            let value = self.compile_value(at, scope)?;
            self.check_own_member(at, kind, &value);
            Some(value)
        };
        let (key, whole_text) = (part(KEY), part(CONTENT));
        let delta = find_member(&members, Field::Delta);
        for (name, value) in [(KEY, key.as_ref()), (CONTENT, whole_text.as_ref()), (Field::Delta.camel(), delta)] {
            if let Some(entry) = at.node.entry(name).filter(|_| is_piece || is_call) {
                let at = PlacedNode { node: &entry.value, path: &join_key(at.path, name) };
                self.add_constant_text(at, value, name == KEY);
            }
        }
        let deltas = find_member(&members, Field::Delta).into_iter();
        let is_object = |value: &ValueTemplate| matches!(value, ValueTemplate::Object(_) | ValueTemplate::List(_));
        if is_piece && deltas.chain(&whole_text).any(is_object) {
            let hint = "write `\"{PATH}\"`, or `{as_text: VALUE}` for the JSON text of a list or mapping";
            self.report_at(at, format!("the text of {} is not a text", kind.wire()), hint);
        }
        self.mapping.has_whole_texts |= whole_text.is_some();
        let event = EmittedEvent { kind, members, key, whole_text, copies_text: false };
        // A misspelt member is not also a missing one.
        if self.problem_count() == before {
            self.check_constant_id(at, &event);
            self.check_members(at, &event, is_piece, is_call);
        }
        Some(event)
    }

    /// Compiles the members of an event, and reports those that AG-UI's event does not have.
    fn compile_members(
        &mut self,
        at: PlacedNode<'_>,
        kind: EventType,
        own_keys: &[&str],
        scope: PathUse,
    ) -> Vec<MemberTemplate> {
        let mut members = Vec::new();
        let expected = match kind {
            EventType::RunFinished => "`finish: {}`, or its members and their values",
            _ => "members and their values",
        };
        let is_unknown = |entry: &&MapEntry| {
            let field = Field::from_wire(&entry.key).filter(|field| field.camel() == entry.key);
            !own_keys.contains(&entry.key.as_str()) && field.and_then(|field| kind.slot(field)).is_none()
        };
        let entries = self.mapping_entries(at, expected);
        let outer = entries.iter().copied().find(is_unknown).and_then(|entry| empty_above(at.node, entry));
        for entry in entries {
            let path = join_key(at.path, &entry.key);
            // It is empty because what belongs to it is not indented.
            if outer.is_some_and(|outer| std::ptr::eq(outer, entry)) {
                continue;
            }
            if own_keys.contains(&entry.key.as_str()) {
                continue;
            }
            let field = Field::from_wire(&entry.key).filter(|field| field.camel() == entry.key);
            let Some(field) = field.filter(|field| kind.slot(*field).is_some()) else {
                if self.reports_outdented_key(at, entry) {
                    break;
                }
                if let Some(list) = list_with_member(kind, &entry.key) {
                    let message = format!("`{}` is a member of `{list}`, and stands beside it", entry.key);
                    self.report(&path, entry.position, message, format!("write `{list}: [{{{}: …}}]`", entry.key));
                    break;
                }
                let names = kind.all_slots().map(|slot| slot.field.camel());
                let known: Vec<&str> = names.chain(own_keys.iter().copied()).collect();
                let message = format!("{} has no member `{}`", kind.wire(), entry.key);
                let place = suggest_place(at.path, &entry.key, &known);
                let hint = place.unwrap_or_else(|| did_you_mean(&entry.key, &known));
                self.report(&path, entry.position, message, hint);
                continue;
            };
            let at = PlacedNode { node: &entry.value, path: &path };
            let value = self.compile_value(at, scope);
            if let Some((value, slot)) = value.as_ref().zip(kind.slot(field)) {
                self.check_member(at, kind, slot, value);
            }
            members.extend(value.map(|value| (MemberKey::Known(field), value)));
        }
        members
    }

    /// Warns about an id that all calls, messages or thoughts of a run have, so that two become one.
    fn check_constant_id(&mut self, at: PlacedNode<'_>, event: &EmittedEvent) {
        let (field, noun) = match event.kind {
            EventType::ToolCallChunk => (Field::ToolCallId, "calls"),
            EventType::TextMessageChunk => (Field::MessageId, "messages"),
            EventType::ReasoningMessageChunk => (Field::MessageId, "thoughts"),
            _ => return,
        };
        let find_constant = |name: &str, value: Option<&ValueTemplate>| {
            let is_literal = matches!(value, Some(ValueTemplate::Literal(_)));
            let entry = at.node.entry(name).filter(|_| is_literal)?;
            let is_variable = matches!(&entry.value.value, NodeValue::Scalar(text) if text.text.contains("${"));
            Some((join_key(at.path, name), position_of(&entry.value))).filter(|_| !is_variable)
        };
        let id = find_member(&event.members, field);
        if let Some((path, position)) = find_constant(field.camel(), id) {
            let message = format!("all {noun} of a run have this id, so that two become one");
            let hint = "write the path of the agent's id, such as \"{id}\", or remove the key if it has none";
            self.warn(&path, position, message, hint);
        } else if let Some((path, position)) = find_constant(KEY, event.key.as_ref()).filter(|_| id.is_some()) {
            let message = "all calls of a run have this key, so that pieces and results of one go to another";
            let hint = "write the path of what the frames of one call have in common, such as \"{index}\", or remove the key: the call has a `toolCallId`";
            self.warn(&path, position, message, hint);
        }
    }

    /// Reports an event that lacks a member without which it means nothing.
    fn check_members(&mut self, at: PlacedNode<'_>, event: &EmittedEvent, is_piece: bool, is_call: bool) {
        let has = |field: Field| find_member(&event.members, field).is_some();
        let wire = event.kind.wire();
        if is_piece {
            let opens = event.kind == EventType::ToolCallChunk && has(Field::ToolCallName);
            if !opens && !has(Field::Delta) && event.whole_text.is_none() {
                let hint = "add `delta:` with what is new, or `content:` with the whole so far";
                self.report_at(at, format!("{wire} has neither `delta` nor `content`"), hint);
            } else if has(Field::Delta) && event.whole_text.is_some() {
                let hint = "keep `delta` for what is new, or `content` for the whole so far";
                self.report_at(at, format!("{wire} has both `delta` and `content`"), hint);
            }
            return;
        }
        if is_call && !has(Field::ToolCallId) && event.key.is_none() {
            self.report_at(at, format!("{wire} does not say which call it is for"), "add `toolCallId:` or `key:`");
        }
        let is_made = |field: Field| is_call && matches!(field, Field::ToolCallId | Field::MessageId);
        let missing = event.kind.all_slots().find(|slot| slot.required && !has(slot.field) && !is_made(slot.field));
        if let Some(slot) = missing {
            let name = slot.field.camel();
            let hint = match chunk_of(event.kind) {
                Some(chunk) => {
                    format!("write {}, which begins and ends by itself, or add `{name}:`", chunk.wire())
                }
                None => format!("add `{name}:`"),
            };
            self.report_at(at, format!("{wire} lacks its member `{name}`"), hint);
        }
    }
}
