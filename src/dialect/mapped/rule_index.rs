//! Finds the rules that may apply to a frame by the value that tells most rules apart, such as its type.
//!
//! A file has a rule or two for each type of frame, and most frames have the same type. All other rules would compare
//! the type only to find that it is another.

use super::rule::MappingRule;
use super::template::{ComparedWord, Condition, ValueSource, ValueTest, find_text, find_word};
use crate::event::Json;

/// Maximum number of rules of all words together. A file with more is read rule by rule.
const MAX_INDEXED: usize = 100_000;

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
    /// the slot of a value without which, or with null, the rule does not apply
    needed: Option<usize>,
}

impl RuleIndex {
    pub(super) fn new(rules: &[MappingRule]) -> Self {
        let sources: Vec<_> = rules.iter().flat_map(compared_sources).collect();
        let count = |source: &ValueSource| sources.iter().filter(|own| **own == source).count();
        let source = sources.iter().copied().max_by_key(|source| count(source));
        let word_count = |rule| source.and_then(|source| words_compared(rule, source)).map_or(0, <[_]>::len);
        let source = source.filter(|_| rules.len() * rules.iter().map(word_count).sum::<usize>() <= MAX_INDEXED);
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
        let has_value = |slot: usize| slots[slot].as_ref().is_some_and(|value| !value.is_null());
        let may_apply = move |rule: &&IndexedRule| rule.needed.is_none_or(has_value);
        indexed.iter().filter(may_apply).map(|rule| rule.position)
    }
}

/// Returns the slot of a value that the rule needs, such as the last member for which it asks: a rule for frames of one
/// type asks for the member that only some of them have.
fn needed_slot(rule: &MappingRule) -> Option<usize> {
    let needs = |condition: &&Condition| match &condition.test {
        ValueTest::OneOf(words) => words.iter().all(|word| !word.value.is_null()),
        ValueTest::Has => true,
        ValueTest::Lacks => false,
    };
    let mut needed =
        rule.each.iter().chain(rule.conditions.iter().filter(needs).map(|condition| &condition.source).rev());
    needed.find_map(|source| if let ValueSource::Slot(slot) = source { Some(*slot) } else { None })
}

/// Returns the places in the frame whose values a rule compares with words.
fn compared_sources(rule: &MappingRule) -> impl Iterator<Item = &ValueSource> {
    let sources = rule.conditions.iter().filter(|condition| matches!(condition.test, ValueTest::OneOf(_)));
    let sources = sources.map(|condition| &condition.source);
    sources.filter(|source| matches!(source, ValueSource::Slot(_) | ValueSource::EventLine))
}

/// Returns the words, one of which the value must be if the rule is to apply.
pub(super) fn words_compared<'r>(rule: &'r MappingRule, source: &ValueSource) -> Option<&'r [ComparedWord]> {
    rule.conditions.iter().find_map(|Condition { source: own, test, .. }| match test {
        ValueTest::OneOf(words) if own == source => Some(&**words),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: ValueSource, words: &[&str]) -> MappingRule {
        let words = words.iter().map(|word| ComparedWord::new(Json::string(word))).collect();
        let conditions = vec![Condition { source, path: "".into(), test: ValueTest::OneOf(words) }];
        MappingRule { line: 0, label: "".into(), each: None, conditions, effects: Vec::new() }
    }

    #[test]
    fn finds_all_rules_that_may_apply_in_their_order() {
        let always = MappingRule { conditions: Vec::new(), ..rule(ValueSource::EventLine, &[]) };
        let (first, second) = (ValueSource::Slot(1), ValueSource::Slot(0));
        let rules = [rule(first.clone(), &["a", "你"]), always, rule(second, &["a"]), rule(first, &["b", "a"])];
        let index = RuleIndex::new(&rules);
        let find = |text: Option<&'static str>| {
            index.find(&[Some(Json::EMPTY_STRING), text.map(Json::from_trusted)], Some("a")).collect::<Vec<_>>()
        };
        assert_eq!(find(Some(r#""a""#)), [0, 1, 2, 3]);
        assert_eq!(find(Some(r#""b""#)), [1, 2, 3]);
        assert_eq!(find(Some(r#""\u4f60""#)), [0, 1, 2]);
        assert_eq!([find(Some("1")), find(None)], [vec![1, 2], vec![1, 2]]);
        for none in [None, Some(Json::NULL)] {
            let found: Vec<_> = index.find(&[none, None], Some("a")).collect();
            assert_eq!(found, [1], "a rule needs its value");
        }
        let null = ValueTest::OneOf(vec![ComparedWord::new(Json::NULL)]);
        let null = Condition { source: ValueSource::Slot(0), path: "".into(), test: null };
        let with_null = RuleIndex::new(&[MappingRule { conditions: vec![null], ..rule(ValueSource::Data, &[]) }]);
        assert_eq!(with_null.find(&[Some(Json::NULL)], None).count(), 1, "unless the value is null");
        let by_line = RuleIndex::new(&[rule(ValueSource::EventLine, &["a"]), rule(ValueSource::Data, &["b"])]);
        let find = |line: Option<&str>| by_line.find(&[], line).collect::<Vec<_>>();
        assert_eq!([find(Some("a")), find(Some("b")), find(None)], [vec![0, 1], vec![1], vec![1]]);
        assert_eq!(RuleIndex::new(&[]).find(&[], None).count(), 0);
    }

    #[test]
    fn a_file_with_too_many_words_is_read_rule_by_rule() {
        let words: Vec<String> = (0..8_000).map(|at| format!("w{at}")).collect();
        let many = rule(ValueSource::EventLine, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let mut rules = vec![rule(ValueSource::EventLine, &["a"]); 20];
        rules[7] = many;
        let index = RuleIndex::new(&rules);
        assert!(index.by_word.is_empty(), "not {} rules", index.by_word.len() * 20);
        assert!(index.find(&[], Some("w1")).eq(0..20));
    }
}
