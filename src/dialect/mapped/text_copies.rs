//! Finds the rules that only copy a text, so that a stream takes its shortcut for frames that differ in it alone.
//!
//! A frame may be repeated if the rules would do the same for any other text in it: no rule compares the text, names
//! something after it or looks it up in a table. Only names of members count, not whole paths: that leaves out more
//! than it must, and is easy to see.

use super::Mapping;
use super::rule::{EmittedEvent, RuleEffect};
use super::template::{ComparedWord, TextPart, ValueSource, ValueTemplate, ValueTest};
use crate::codec::json::{self, JsonStep};
use crate::event::lane::ChunkStreamKind;
use crate::event::{Field, MemberKey};
use std::borrow::Cow;

impl Mapping {
    /// Adds the names of the members on a path that a rule reads.
    pub(crate) fn add_read_members(&mut self, path: &[JsonStep]) {
        for step in path {
            let JsonStep::Member(name) = step else { continue };
            if !self.read_members.iter().any(|read| **read == **name) {
                self.read_members.push(Cow::Owned(name.to_string()));
            }
        }
    }

    /// Marks the events that only copy a delta, and keeps the names of the members with such deltas.
    pub(super) fn find_text_copies(&mut self) {
        let slots = self.paths.last_members();
        let (mut compared, mut copied) = (Vec::new(), Vec::new());
        for rule in &self.rules {
            let named = NamedSources { slots: &slots, list: rule.each.as_ref() };
            for condition in &rule.conditions {
                let ValueTest::OneOf(words) = &condition.test else { continue };
                if condition.source == ValueSource::Data && words.iter().any(is_json_text) {
                    return;
                }
                compared.extend(named.name(&condition.source));
            }
            // A frame with any other event is never repeated. A piece may be missing in one frame, and be in the next.
            let pieces = rule.effects.iter().filter_map(RuleEffect::emitted);
            for event in pieces.filter(|event| ChunkStreamKind::from_event(event.kind).is_some()) {
                // A rule with the whole text of a message has it in frames of its own.
                let whole = event.whole_text.iter().filter(|whole| !is_copy(whole));
                compared.extend(event.key.iter().chain(whole).flat_map(|value| named.names(value)));
                for (key, value) in &event.members {
                    let is_copied = *key == MemberKey::Known(Field::Delta) && is_copy(value);
                    if is_copied { &mut copied } else { &mut compared }.extend(named.names(value));
                }
            }
        }
        copied.retain(|name| !compared.contains(name));
        copied.sort_unstable();
        copied.dedup();
        self.copied_members = copied.into_iter().map(|name| Cow::Owned(name.to_owned())).collect();
        for event in self.rules.iter_mut().flat_map(|rule| &mut rule.effects).filter_map(RuleEffect::emitted_mut) {
            let is_copy = event.members.iter().map(|(_, value)| value).chain(&event.key).all(is_copy);
            event.copies_text = is_copy && is_delta_piece(event);
        }
    }
}

fn is_delta_piece(event: &EmittedEvent) -> bool {
    ChunkStreamKind::from_event(event.kind).is_some() && event.whole_text.is_none()
}

/// The names of the members to which the sources of a rule lead.
struct NamedSources<'m> {
    /// by slot of the frame
    slots: &'m [Option<&'m str>],
    /// the list of the rule
    list: Option<&'m ValueSource>,
}

impl<'m> NamedSources<'m> {
    fn name(&self, source: &'m ValueSource) -> Option<&'m str> {
        match source {
            ValueSource::Slot(slot) => self.slots.get(*slot).copied().flatten(),
            // An element has the name of its list.
            ValueSource::Item(path) => last_member(path).or_else(|| self.list.and_then(|list| self.name(list))),
            _ => None,
        }
    }

    /// Returns the names of the members from which a template takes anything.
    fn names(&self, template: &'m ValueTemplate) -> Vec<&'m str> {
        let mut sources = Vec::new();
        collect_sources(template, &mut sources);
        sources.into_iter().filter_map(|source| self.name(source)).collect()
    }
}

fn last_member(path: &[JsonStep]) -> Option<&str> {
    path.iter().rev().find_map(|step| if let JsonStep::Member(name) = step { Some(&**name) } else { None })
}

/// Collects all places that a template reads, those of its conditions included.
fn collect_sources<'m>(template: &'m ValueTemplate, sources: &mut Vec<&'m ValueSource>) {
    match template {
        ValueTemplate::Literal(_) => {}
        ValueTemplate::From(own) => sources.extend(own),
        ValueTemplate::Text(parts) => sources.extend(parts.iter().flat_map(TextPart::sources)),
        ValueTemplate::Object(members) => members.iter().for_each(|(_, value)| collect_sources(value, sources)),
        ValueTemplate::List(elements) => elements.iter().for_each(|value| collect_sources(value, sources)),
        ValueTemplate::If(conditions, value) => {
            sources.extend(conditions.iter().map(|condition| &condition.source));
            collect_sources(value, sources);
        }
        ValueTemplate::Table { from, otherwise, .. } => {
            collect_sources(from, sources);
            otherwise.iter().for_each(|value| collect_sources(value, sources));
        }
        ValueTemplate::Each { list, rules } => {
            sources.push(list);
            for rule in rules {
                sources.extend(rule.conditions.iter().map(|condition| &condition.source));
                collect_sources(&rule.value, sources);
            }
        }
        ValueTemplate::AsText(value) | ValueTemplate::TextOf(value) | ValueTemplate::AsJson(value) => {
            collect_sources(value, sources);
        }
    }
}

/// Returns whether the template gives for another text the other text.
fn is_copy(template: &ValueTemplate) -> bool {
    match template {
        ValueTemplate::Literal(_) | ValueTemplate::From(_) | ValueTemplate::Text(_) => true,
        ValueTemplate::AsText(inner) => matches!(**inner, ValueTemplate::From(_)),
        _ => false,
    }
}

/// Returns whether a word may be the data of a frame with members.
fn is_json_text(word: &ComparedWord) -> bool {
    word.text().is_none_or(|text| json::parse_value(text.trim()).is_some())
}
