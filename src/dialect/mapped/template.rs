//! Values that a file dialect makes: literals with places for what a frame, a request or an earlier frame has.

use super::answered_calls::AnsweredCalls;
use super::list_allowance::ListAllowance;
use super::message_reasoning::{MessageReasoning, find_reasoning_id};
use super::path::find_value;
use crate::codec::json::{self, JsonStep};
use crate::dialect::memory_limits::ELEMENTS_LIMIT;
use crate::event::{Json, JsonType, MemberKey, needs_no_escape};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};

/// Length of an escape, such as `\u0041`, which stands for at least one byte.
const LONGEST_ESCAPE: usize = 6;

/// Initial capacity for a text, enough for most ids.
const USUAL_TEXT: usize = 64;

/// A place from which a value comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// a slot of the paths that are read from the frame, or from the request
    Slot(usize),
    /// a path into the element of `each`
    Item(Vec<JsonStep>),
    /// what an earlier frame of the run set, by position in [`super::Mapping::run_names`]
    Run(usize),
    /// what an earlier run of the thread kept, by position in [`super::Mapping::thread_names`]
    Thread(usize),
    /// the `event:` line
    EventLine,
    /// the data of the frame as text
    Data,
    ThreadId,
    RunId,
    /// text of the last user message
    UserText,
    /// the messages after the last one of the assistant
    NewMessages,
    /// the calls of the message that is the element of `each` to which the request has results
    AnsweredCalls,
    /// the reasoning of the message that is the element of `each`
    Reasoning,
}

/// A value as a file describes it. One that has no value leaves out its member or element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueTemplate {
    Literal(Json<'static>),
    /// the first of these that has a value
    From(Vec<ValueSource>),
    Text(Vec<TextPart>),
    Object(Vec<(Box<str>, ValueTemplate)>),
    /// The elements of an [`ValueTemplate::Each`] become elements of the list. It is left out if none has a value.
    List(Vec<ValueTemplate>),
    /// a value that is left out unless these hold
    If(Vec<Condition>, Box<ValueTemplate>),
    /// Without words, the value itself.
    Table {
        from: Box<ValueTemplate>,
        words: Vec<(Json<'static>, Json<'static>)>,
        otherwise: Option<Box<ValueTemplate>>,
    },
    Each {
        list: ValueSource,
        rules: Vec<ItemRule>,
    },
    /// the JSON text of a value that is no string
    AsText(Box<ValueTemplate>),
    /// the texts of content parts; other values as with [`ValueTemplate::AsText`]
    TextOf(Box<ValueTemplate>),
    /// the value that a string holds as JSON text; other strings stay
    AsJson(Box<ValueTemplate>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextPart {
    Literal(Box<str>),
    From(Vec<ValueSource>),
}

impl TextPart {
    pub(super) fn sources(&self) -> &[ValueSource] {
        match self {
            TextPart::From(sources) => sources,
            TextPart::Literal(_) => &[],
        }
    }
}

/// Makes an element of a list, if its conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemRule {
    /// position in the list of the file
    pub(crate) index: usize,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) value: ValueTemplate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) source: ValueSource,
    /// as the file writes it
    pub(crate) path: Box<str>,
    pub(crate) test: ValueTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueTest {
    OneOf(Vec<ComparedWord>),
    /// present, and not null, `""`, `[]` or `{}`
    Has,
    Lacks,
}

/// A value that a frame may have, ready to be compared with many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedWord {
    pub(crate) value: Json<'static>,
    /// its characters, if it is a string
    text: Option<Box<str>>,
}

/// The values that templates can use. Those that a kind of template cannot have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ValueScope<'s> {
    pub(crate) slots: &'s [Option<Json<'s>>],
    pub(crate) item: Option<&'s Json<'s>>,
    pub(crate) run: &'s [Option<Json<'static>>],
    pub(crate) thread: &'s [Option<Json<'static>>],
    pub(crate) event_line: Option<&'s str>,
    pub(crate) data: &'s str,
    pub(crate) thread_id: Option<&'s Json<'s>>,
    pub(crate) run_id: Option<&'s Json<'s>>,
    pub(crate) user_text: Option<&'s str>,
    pub(crate) new_messages: &'s [Json<'s>],
    pub(crate) answered_calls: Option<&'s AnsweredCalls<'s>>,
    pub(crate) reasoning: Option<&'s MessageReasoning<'s>>,
    pub(crate) left_out: Option<&'s LeftOutElements<'s>>,
    pub(crate) lists: Option<&'s ListAllowance>,
}

/// Counts elements of lists for which there is no rule.
#[derive(Debug, Default)]
pub(crate) struct LeftOutElements<'s> {
    count: Cell<u64>,
    /// the last user message, if its text is all that it has
    user_message: Option<&'s str>,
    is_user_message_left_out: Cell<bool>,
    is_user_text_sent: Cell<bool>,
    /// of messages of reasoning, which may be sent with others
    reasoning_ids: RefCell<Vec<String>>,
}

impl<'s> LeftOutElements<'s> {
    pub(super) fn new(user_message: Option<&'s str>) -> Self {
        LeftOutElements { user_message, ..LeftOutElements::default() }
    }

    fn add(&self, element: &Json<'_>) {
        if self.user_message == Some(element.as_str()) {
            self.is_user_message_left_out.set(true);
        } else if let Some(id) = find_reasoning_id(element) {
            self.reasoning_ids.borrow_mut().push(id);
        } else {
            self.count.set(self.count.get() + 1);
        }
    }

    /// Returns their number. The last user message and reasoning are none of them if they are elsewhere in the request.
    pub(super) fn total(&self, reasoning: &MessageReasoning<'_>) -> u64 {
        let is_lost = self.is_user_message_left_out.get() && !self.is_user_text_sent.get();
        let lost_reasoning = self.reasoning_ids.borrow().iter().filter(|id| !reasoning.is_sent(id)).count();
        self.count.get() + u64::from(is_lost) + lost_reasoning as u64
    }
}

impl<'s> ValueScope<'s> {
    pub(super) fn get(&self, source: &ValueSource) -> Option<Json<'s>> {
        let kept = |values: &'s [Option<Json<'s>>], at: usize| values.get(at)?.as_ref().map(Json::as_borrowed);
        match source {
            ValueSource::Slot(slot) => kept(self.slots, *slot),
            ValueSource::Run(at) => kept(self.run, *at),
            ValueSource::Thread(at) => kept(self.thread, *at),
            ValueSource::Item(path) => find_value(path, self.item?.as_borrowed()),
            ValueSource::EventLine => self.event_line.map(Json::string),
            ValueSource::Data => Some(Json::string(self.data)),
            ValueSource::ThreadId => self.thread_id.map(Json::as_borrowed),
            ValueSource::RunId => self.run_id.map(Json::as_borrowed),
            ValueSource::UserText => self.user_text.map(Json::string),
            ValueSource::NewMessages => Some(json::to_array(self.new_messages)),
            ValueSource::AnsweredCalls => Some(json::to_array(&self.answered_calls?.filter_calls(self.item?))),
            ValueSource::Reasoning => self.reasoning?.find(self.item?),
        }
    }

    /// Returns the first value that there is, and keeps in mind if it is the text of the user or reasoning, which is
    /// sent with it.
    pub(super) fn get_first(&self, sources: &[ValueSource]) -> Option<Json<'s>> {
        let (source, value) = match sources {
            [only] => (only, self.get(only)?),
            _ => sources.iter().find_map(|source| Some((source, self.get(source).filter(has_value)?)))?,
        };
        match source {
            ValueSource::UserText => self.left_out.iter().for_each(|left_out| left_out.is_user_text_sent.set(true)),
            ValueSource::Reasoning => {
                self.reasoning.zip(self.item).into_iter().for_each(|(reasoning, item)| reasoning.mark_sent(item));
            }
            _ => {}
        }
        Some(value)
    }

    /// Takes the bytes of a text that is copied, unless too many are.
    fn can_copy(&self, text: &str) -> bool {
        self.lists.is_none_or(|lists| lists.take_bytes(text.len()))
    }

    /// Returns the list at a place; any other value is none.
    pub(crate) fn list(&self, source: &ValueSource) -> Option<Json<'s>> {
        self.get(source).filter(|list| list.json_type() == JsonType::Array)
    }

    pub(crate) fn holds(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| match condition.source {
            // The line and the data are compared as they are, without a JSON string of them.
            ValueSource::EventLine => condition.test.holds_for_text(self.event_line),
            ValueSource::Data => condition.test.holds_for_data(self.data),
            ValueSource::Slot(slot) => match self.slots.get(slot) {
                Some(Some(value)) => condition.test.holds_for(value),
                _ => condition.test.holds_for_none(),
            },
            _ => match self.get(&condition.source) {
                Some(value) => condition.test.holds_for(&value),
                None => condition.test.holds_for_none(),
            },
        })
    }
}

impl ValueTest {
    fn holds_for(&self, value: &Json<'_>) -> bool {
        match self {
            ValueTest::OneOf(words) => find_word(words, value).is_some(),
            ValueTest::Has => has_value(value),
            ValueTest::Lacks => !has_value(value),
        }
    }

    #[inline]
    fn holds_for_none(&self) -> bool {
        matches!(self, ValueTest::Lacks)
    }

    /// Compares the data of a frame. Blanks around a word, such as the one that ends a stream, mean nothing.
    fn holds_for_data(&self, data: &str) -> bool {
        match self {
            ValueTest::OneOf(words) => [data, data.trim()].iter().any(|data| find_text(words, data).is_some()),
            _ => self.holds_for_text(Some(data)),
        }
    }

    fn holds_for_text(&self, text: Option<&str>) -> bool {
        match self {
            ValueTest::OneOf(words) => text.is_some_and(|text| find_text(words, text).is_some()),
            ValueTest::Has => text.is_some_and(|text| !text.is_empty()),
            ValueTest::Lacks => text.is_none_or(str::is_empty),
        }
    }
}

impl ComparedWord {
    pub(crate) fn new(value: Json<'static>) -> Self {
        ComparedWord { text: value.text().map(Into::into), value }
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// Returns the position of the word that a value is.
pub(super) fn find_word(words: &[ComparedWord], value: &Json<'_>) -> Option<usize> {
    let found = words.iter().position(|word| word.value.as_str() == value.as_str());
    // A text that is longer than any way to write a word is none, and need not be read.
    let may_be = |word: &ComparedWord| {
        word.text()
            .is_some_and(|text| value.as_str().len() <= text.len() * LONGEST_ESCAPE + Json::EMPTY_STRING.as_str().len())
    };
    // Most texts have no escapes, and are then the same only if they are written alike.
    let is_read = || words.iter().any(may_be) && value.has_escapes();
    found.or_else(|| if is_read() { find_text(words, &value.text()?) } else { None })
}

/// Returns the position of the word that is this text.
pub(super) fn find_text(words: &[ComparedWord], text: &str) -> Option<usize> {
    words.iter().position(|word| word.text() == Some(text))
}

/// Returns false for null, and for strings, lists and objects without content.
pub(crate) fn has_value(value: &Json<'_>) -> bool {
    let has_content = |end: char| !value.as_str()[1..].trim_start().starts_with(end);
    match value.json_type() {
        JsonType::Null => false,
        JsonType::String => !value.unquoted().is_empty(),
        JsonType::Array => has_content(']'),
        JsonType::Object => has_content('}'),
        JsonType::Bool | JsonType::Number => true,
    }
}

impl ValueTemplate {
    /// Makes the value; `None` if it has none. Null is a value only as a literal.
    pub(crate) fn make<'s>(&'s self, scope: &ValueScope<'s>) -> Option<Json<'s>> {
        if scope.lists.is_some_and(ListAllowance::is_exceeded) {
            return None;
        }
        match self {
            ValueTemplate::Literal(value) => scope.can_copy(value.as_str()).then(|| value.as_borrowed()),
            ValueTemplate::From(sources) => {
                scope.get_first(sources).filter(|value| !value.is_null() && scope.can_copy(value.as_str()))
            }
            ValueTemplate::Text(parts) => Some(make_text(parts, scope)),
            ValueTemplate::Object(members) => Some(json::build_object(|object| {
                for (name, template) in members {
                    if let Some(value) = template.make(scope).filter(|_| scope.can_copy(name)) {
                        object.copy_member(&(MemberKey::Other(Cow::Borrowed(name)), value), false);
                    }
                }
            })),
            ValueTemplate::List(elements) => {
                let mut made = Vec::new();
                for element in elements {
                    match element {
                        ValueTemplate::Each { list, rules } => add_elements(list, rules, scope, &mut made),
                        element => made.extend(element.make_element(scope).map(Json::into_owned)),
                    }
                }
                (!made.is_empty() || elements.is_empty()).then(|| json::to_array(&made))
            }
            ValueTemplate::If(conditions, value) => scope.holds(conditions).then(|| value.make(scope))?,
            ValueTemplate::Table { from, words, otherwise } => {
                let word = from.make(scope);
                let found = match &word {
                    Some(word) if words.is_empty() => Some(word.clone()).filter(has_value),
                    Some(word) => find_table_word(words, word).filter(|own| scope.can_copy(own.as_str())),
                    None => None,
                };
                found.or_else(|| otherwise.as_ref()?.make(scope))
            }
            ValueTemplate::Each { list, rules } => {
                let mut made = Vec::new();
                add_elements(list, rules, scope, &mut made);
                // A list without elements is left out: some agents refuse empty ones.
                (!made.is_empty()).then(|| json::to_array(&made))
            }
            ValueTemplate::AsText(inner) => to_text(inner.make(scope)?, scope),
            ValueTemplate::TextOf(inner) => {
                let value = inner.make(scope)?;
                match join_text_parts(&value) {
                    Some(text) => Some(Json::string(&text)),
                    None => to_text(value, scope),
                }
            }
            ValueTemplate::AsJson(inner) => {
                let value = inner.make(scope)?;
                let held = value.text().and_then(|text| json::parse_value(text.trim()).map(Json::into_owned));
                Some(held.unwrap_or(value))
            }
        }
    }

    /// Makes the element of a list; `None` also for an object of whose members none has a value.
    fn make_element<'s>(&'s self, scope: &ValueScope<'s>) -> Option<Json<'s>> {
        let is_object = matches!(self, ValueTemplate::Object(members) if !members.is_empty());
        self.make(scope).filter(|made| !is_object || has_value(made))
    }
}

/// Joins the texts of a list of content parts with line feeds; `None` for any other value, and for a list that is too
/// long to be one of parts.
pub(super) fn join_text_parts(value: &Json<'_>) -> Option<String> {
    let (parts, count) = json::parse_first_elements(value, ELEMENTS_LIMIT)?;
    if count > ELEMENTS_LIMIT {
        return None;
    }
    let texts = parts.iter().filter_map(|part| json::parse_member(part, "text")?.text().map(Cow::into_owned));
    Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}

/// Finds a word in a table of the file, which lists only a few.
fn find_table_word(words: &[(Json<'static>, Json<'static>)], word: &Json<'_>) -> Option<Json<'static>> {
    let is_its = |wire: &Json<'_>| wire.is_same(word);
    words.iter().find(|(wire, _)| is_its(wire)).map(|(_, own)| own.clone())
}

/// Makes the text of a value. That of a list or an object in another is longer with each, by its escapes.
fn to_text<'s>(value: Json<'s>, scope: &ValueScope<'_>) -> Option<Json<'s>> {
    let is_text = value.json_type() == JsonType::String;
    Some(value.into_string_value()).filter(|text| is_text || scope.can_copy(text.as_str()))
}

/// Makes a text. A place without a value adds nothing.
fn make_text(parts: &[TextPart], scope: &ValueScope<'_>) -> Json<'static> {
    let mut made = String::with_capacity(USUAL_TEXT);
    made.push('"');
    for part in parts {
        match part {
            TextPart::Literal(literal) if scope.can_copy(literal) => push_text(&mut made, literal),
            TextPart::Literal(_) => {}
            TextPart::From(sources) => {
                let value = scope.get_first(sources).filter(|value| !value.is_null());
                match value.filter(|value| scope.can_copy(value.as_str())) {
                    // Its characters are escaped already.
                    Some(value) if value.json_type() == JsonType::String => made.push_str(value.unquoted()),
                    Some(value) => push_text(&mut made, value.as_str()),
                    None => {}
                }
            }
        }
    }
    made.push('"');
    Json::from_trusted(made)
}

/// Appends a text to the content of a JSON string.
fn push_text(content: &mut String, text: &str) {
    match needs_no_escape(text) {
        true => content.push_str(text),
        false => content.push_str(Json::string(text).unquoted()),
    }
}

fn add_elements(list: &ValueSource, rules: &[ItemRule], scope: &ValueScope<'_>, made: &mut Vec<Json<'static>>) {
    let Some(list) = scope.list(list) else { return };
    let Some(lists) = scope.lists else { return };
    for element in lists.elements(&list) {
        let scope = ValueScope { item: Some(&element), ..*scope };
        match rules.iter().find(|rule| scope.holds(&rule.conditions)) {
            Some(rule) => made.extend(rule.value.make(&scope).map(Json::into_owned)),
            None => scope.left_out.into_iter().for_each(|left_out| left_out.add(&element)),
        }
        if lists.is_exceeded() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::work::steps_of;

    /// Many rules may compare a text to which a run appends with every frame.
    #[test]
    fn a_long_text_is_not_read_to_be_compared_with_short_words() {
        let words = [ComparedWord::new(Json::string("done"))];
        let long = Json::string(&"\n".repeat(100_000));
        assert_eq!(steps_of(|| assert_eq!(find_word(&words, &long), None)), 0);
        let escaped = Json::from_trusted(r#""\u0064\u006f\u006e\u0065""#);
        assert_eq!(find_word(&words, &escaped), Some(0));
    }
}
