//! Finds rules that another one makes useless, or does again, and conditions that exclude each other.

use super::compiler::{DialectCompiler, PlacedNode, position_of};
use super::rules::ends_run;
use crate::config::problem::SourcePosition;
use crate::dialect::{ComparedWord, Condition, MappingRule, RuleEffect, ValueSource, ValueTest, has_value};

/// One of several forms, of which the first whose conditions hold is used.
pub(super) struct FirstMatch {
    /// key path in the file
    path: String,
    position: Option<SourcePosition>,
    conditions: Vec<Condition>,
    /// whether one behind it has been reported
    is_reported: bool,
}

impl FirstMatch {
    pub(super) fn new(at: PlacedNode<'_>, conditions: &[Condition]) -> Self {
        FirstMatch {
            path: at.path.to_owned(),
            position: position_of(at.node),
            conditions: conditions.to_vec(),
            is_reported: false,
        }
    }
}

/// Returns whether a condition holds wherever another does.
fn is_implied_by(condition: &Condition, other: &Condition) -> bool {
    condition.source == other.source
        && match (&other.test, &condition.test) {
            (ValueTest::OneOf(words), ValueTest::OneOf(allowed)) => words.iter().all(|word| allowed.contains(word)),
            (ValueTest::OneOf(words), ValueTest::Has) => words.iter().all(|word| has_value(&word.value)),
            (own, other) => own == other,
        }
}

/// Returns whether the earlier of two lists of conditions holds wherever the later one does.
fn covers(earlier: &[Condition], later: &[Condition]) -> bool {
    earlier.iter().all(|condition| later.iter().any(|other| is_implied_by(condition, other)))
}

/// Returns whether the earlier of two rules applies to all frames of the later one, whatever rules between them set.
fn applies_before(earlier: &MappingRule, later: &MappingRule) -> bool {
    let is_kept = |condition: &Condition| matches!(condition.source, ValueSource::Run(_) | ValueSource::Thread(_));
    !earlier.conditions.is_empty()
        && !earlier.conditions.iter().any(is_kept)
        && covers(&earlier.conditions, &later.conditions)
}

fn keeps_something(rule: &MappingRule) -> bool {
    let is_kept =
        |effect: &RuleEffect| matches!(effect, RuleEffect::Set(..) | RuleEffect::Append(..) | RuleEffect::Keep(..));
    rule.effects.iter().any(is_kept)
}

impl DialectCompiler<'_> {
    /// Reports a rule that never applies because the run has ended, or whose event an earlier one has already emitted.
    pub(super) fn check_overlap(&mut self, at: PlacedNode<'_>, rule: &MappingRule) {
        let rules = &self.mapping.rules;
        let earlier = rules.iter().enumerate().filter(|(_, earlier)| applies_before(earlier, rule));
        let (mut ending, mut same) = (None, None);
        for (index, earlier) in earlier {
            // The event may have a value that a rule in between keeps.
            let may_differ = rules[index..].iter().chain([rule]).any(keeps_something);
            let emits_same = |effect: &RuleEffect| effect.emitted().is_some() && rule.effects.contains(effect);
            if earlier.each.is_none() && earlier.effects.iter().any(ends_run) {
                ending.get_or_insert(earlier.line);
            }
            if !may_differ && earlier.each == rule.each && earlier.effects.iter().any(emits_same) {
                same.get_or_insert(earlier.line);
            }
        }
        if let Some(line) = ending {
            let message = format!("this is never used, because the rule of line {line} ends the run before it");
            self.report_at(at, message, "move it before that rule, or give that rule further conditions");
        } else if let Some(line) = same {
            let message = format!("the rule of line {line} emits the same for the same frames, so that it comes twice");
            self.report_at(at, message, "remove one of the two: all rules that hold for a frame apply to it");
        }
    }

    /// Reports conditions that exclude each other.
    pub(super) fn check_contradiction(&mut self, at: PlacedNode<'_>, conditions: &[Condition]) {
        let excludes = |own: &Condition, other: &Condition| {
            let is_empty = |word: &ComparedWord| !has_value(&word.value);
            own.source == other.source
                && match (&own.test, &other.test) {
                    (ValueTest::Has, ValueTest::Lacks) => true,
                    (ValueTest::OneOf(words), ValueTest::Lacks) => !words.iter().any(is_empty),
                    (ValueTest::OneOf(words), ValueTest::Has) => words.iter().all(is_empty),
                    (ValueTest::OneOf(words), ValueTest::OneOf(others)) => {
                        !words.iter().any(|word| others.contains(word))
                    }
                    _ => false,
                }
        };
        if conditions.iter().any(|own| conditions.iter().any(|other| excludes(own, other))) {
            self.report_at(
                at,
                "these conditions exclude each other, so the rule can never apply",
                "remove one of them",
            );
        }
    }

    /// Reports a form that is never used, because an earlier one is for all that it is for.
    pub(super) fn check_first_match(
        &mut self,
        at: PlacedNode<'_>,
        conditions: &[Condition],
        earlier: &mut [FirstMatch],
        noun: &str,
    ) {
        let found = earlier.iter_mut().find(|earlier| covers(&earlier.conditions, conditions));
        let Some(found) = found.filter(|found| !found.is_reported) else { return };
        found.is_reported = true;
        if found.conditions.is_empty() {
            let message = format!("this is for every {noun}, so that {} is never used", at.path);
            let hint = "move it to the end, or add `when:`, `has:` or `lacks:`";
            return self.report(&found.path, found.position, message, hint);
        }
        let message = format!("this is never used, because {} is for the same {noun}s", found.path);
        self.report_at(at, message, "move it to the front, or add `when:`, `has:` or `lacks:` to the other");
    }
}
