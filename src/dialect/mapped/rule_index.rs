//! Finds the rules that may apply to a frame by the value that tells most rules apart, such as its type.
//!
//! A file has a rule or two for each type of frame, and most frames have the same type. All other rules would compare
//! the type only to find that it is another.

use super::rule::MappingRule;
use super::template::{ComparedWord, Condition, ValueSource, ValueTest, find_text, find_word};
use crate::event::Json;

/// The rules by one value of the frame. It is the same for all rules, whatever they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleIndex {
    /// the place of the value; `None` if no rule compares one
    source: Option<ValueSource>,
    words: Vec<ComparedWord>,
    /// the rules that may apply, by word
    by_word: Vec<Vec<IndexedRule>>,
    /// those that may apply if the frame has another value, or none
    others: Vec<IndexedRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexedRule {
    position: usize,
    /// the slot of a value without which the rule does not apply
    needed: Option<usize>,
}

impl RuleIndex {
    pub(super) fn new(rules: &[MappingRule]) -> Self {
        let sources: Vec<_> = rules.iter().flat_map(compared_sources).collect();
        let count = |source: &ValueSource| sources.iter().filter(|own| **own == source).count();
        let source = sources.iter().copied().max_by_key(|source| count(source));
        let words_of = |rule| source.and_then(|source| words_compared(rule, source));
        let mut words: Vec<ComparedWord> = Vec::new();
        for word in rules.iter().filter_map(words_of).flatten() {
            if !words.contains(word) {
                words.push(word.clone());
            }
        }
        let rules_for = |word: Option<&ComparedWord>| -> Vec<IndexedRule> {
            let may_apply = |own: &[ComparedWord]| word.is_some_and(|word| own.contains(word));
            let positions = (0..rules.len()).filter(|at| words_of(&rules[*at]).is_none_or(may_apply));
            positions.map(|position| IndexedRule { position, needed: needed_slot(&rules[position]) }).collect()
        };
        let by_word = words.iter().map(|word| rules_for(Some(word))).collect();
        RuleIndex { source: source.cloned(), by_word, others: rules_for(None), words }
    }

    /// Returns the positions of the rules that may apply, in order.
    pub(super) fn find(&self, slots: &[Option<Json<'_>>], event_line: Option<&str>) -> impl Iterator<Item = usize> {
        let word = match &self.source {
            Some(ValueSource::Slot(slot)) => slots[*slot].as_ref().and_then(|value| find_word(&self.words, value)),
            Some(ValueSource::EventLine) => event_line.and_then(|line| find_text(&self.words, line)),
            _ => None,
        };
        let indexed = word.map_or(&self.others, |word| &self.by_word[word]);
        let may_apply = |rule: &&IndexedRule| rule.needed.is_none_or(|slot| slots[slot].is_some());
        indexed.iter().filter(may_apply).map(|rule| rule.position)
    }
}

fn needed_slot(rule: &MappingRule) -> Option<usize> {
    let needing = rule.conditions.iter().filter(|condition| condition.test != ValueTest::Lacks);
    let mut needed = needing.map(|condition| &condition.source).chain(&rule.each);
    needed.find_map(|source| if let ValueSource::Slot(slot) = source { Some(*slot) } else { None })
}

/// Returns the places in the frame whose values a rule compares with words.
fn compared_sources(rule: &MappingRule) -> impl Iterator<Item = &ValueSource> {
    let sources = rule.conditions.iter().filter(|condition| matches!(condition.test, ValueTest::OneOf(_)));
    let sources = sources.map(|condition| &condition.source);
    sources.filter(|source| matches!(source, ValueSource::Slot(_) | ValueSource::EventLine))
}

/// Returns the words, one of which the value must be if the rule is to apply.
fn words_compared<'r>(rule: &'r MappingRule, source: &ValueSource) -> Option<&'r [ComparedWord]> {
    rule.conditions.iter().find_map(|Condition { source: own, test }| match test {
        ValueTest::OneOf(words) if own == source => Some(&**words),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: ValueSource, words: &[&str]) -> MappingRule {
        let words = words.iter().map(|word| ComparedWord::new(Json::string(word))).collect();
        let conditions = vec![Condition { source, test: ValueTest::OneOf(words) }];
        MappingRule { line: 0, label: "".into(), each: None, conditions, effects: Vec::new() }
    }

    #[test]
    fn finds_all_rules_that_may_apply_in_their_order() {
        let always = MappingRule { conditions: Vec::new(), ..rule(ValueSource::EventLine, &[]) };
        let (first, second) = (ValueSource::Slot(1), ValueSource::Slot(0));
        let rules = [rule(first.clone(), &["a", "你"]), always, rule(second, &["a"]), rule(first, &["b", "a"])];
        let index = RuleIndex::new(&rules);
        let find = |text: Option<&'static str>| {
            index.find(&[Some(Json::NULL), text.map(Json::from_trusted)], Some("a")).collect::<Vec<_>>()
        };
        assert_eq!(find(Some(r#""a""#)), [0, 1, 2, 3]);
        assert_eq!(find(Some(r#""b""#)), [1, 2, 3]);
        assert_eq!(find(Some(r#""\u4f60""#)), [0, 1, 2]);
        assert_eq!([find(Some("1")), find(None)], [vec![1, 2], vec![1, 2]]);
        assert_eq!(index.find(&[None, None], Some("a")).collect::<Vec<_>>(), [1], "a rule needs its value");
        let by_line = RuleIndex::new(&[rule(ValueSource::EventLine, &["a"]), rule(ValueSource::Data, &["b"])]);
        let find = |line: Option<&str>| by_line.find(&[], line).collect::<Vec<_>>();
        assert_eq!([find(Some("a")), find(Some("b")), find(None)], [vec![0, 1], vec![1], vec![1]]);
        assert_eq!(RuleIndex::new(&[]).find(&[], None).count(), 0);
    }
}
