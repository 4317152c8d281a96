//! Values that a file dialect makes: literals with places for what a frame, a request or an earlier frame has.

use super::path::{JsonStep, find_value};
use crate::codec::json;
use crate::event::{Json, JsonType, MemberKey};
use std::borrow::Cow;
use std::cell::Cell;

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
}

/// A value as a file describes it. One that has no value leaves out its member or element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueTemplate {
    Literal(Json<'static>),
    /// the first of these that has a value
    From(Vec<ValueSource>),
    Text(Vec<TextPart>),
    Object(Vec<(Box<str>, ValueTemplate)>),
    /// The elements of an [`ValueTemplate::Each`] become elements of the list.
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
    pub(crate) conditions: Vec<Condition>,
    pub(crate) value: ValueTemplate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) source: ValueSource,
    pub(crate) test: ValueTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueTest {
    OneOf(Vec<Json<'static>>),
    /// present, and not null, `""`, `[]` or `{}`
    Has,
    Lacks,
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
    /// counts elements of lists for which there is no rule
    pub(crate) left_out: Option<&'s Cell<u64>>,
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
        }
    }

    pub(super) fn get_first(&self, sources: &[ValueSource]) -> Option<Json<'s>> {
        match sources {
            [only] => self.get(only),
            _ => sources.iter().find_map(|source| self.get(source).filter(has_value)),
        }
    }

    /// Returns the list at a place; any other value is none.
    pub(crate) fn list(&self, source: &ValueSource) -> Option<Json<'s>> {
        self.get(source).filter(|list| list.json_type() == JsonType::Array)
    }

    pub(crate) fn holds(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| {
            let value = match condition.source {
                // The line and the data are compared as they are, without a JSON string of them.
                ValueSource::EventLine => return condition.test.holds_for_text(self.event_line),
                ValueSource::Data => return condition.test.holds_for_text(Some(self.data)),
                _ => self.get(&condition.source),
            };
            condition.test.holds_for(value.as_ref())
        })
    }
}

impl ValueTest {
    fn holds_for(&self, value: Option<&Json<'_>>) -> bool {
        match self {
            ValueTest::OneOf(words) => value.is_some_and(|value| {
                // Most texts have no escapes, and are then the same only if they are written alike.
                let has_escapes = value.as_str().contains('\\');
                let is_same_text = |word: &Json<'_>| has_escapes && word.text().is_some_and(|word| value.is_str(&word));
                words.iter().any(|word| word.as_str() == value.as_str() || is_same_text(word))
            }),
            ValueTest::Has => value.is_some_and(has_value),
            ValueTest::Lacks => !value.is_some_and(has_value),
        }
    }

    fn holds_for_text(&self, text: Option<&str>) -> bool {
        match self {
            ValueTest::OneOf(words) => text.is_some_and(|text| words.iter().any(|word| word.is_str(text))),
            ValueTest::Has => text.is_some_and(|text| !text.is_empty()),
            ValueTest::Lacks => text.is_none_or(str::is_empty),
        }
    }
}

/// Returns false for null, and for strings, lists and objects without content.
pub(crate) fn has_value(value: &Json<'_>) -> bool {
    match value.json_type() {
        JsonType::Null => false,
        JsonType::String => !value.unquoted().is_empty(),
        JsonType::Array => json::count_elements(value) > 0,
        JsonType::Object => value.as_str().bytes().any(|byte| byte == b':'),
        JsonType::Bool | JsonType::Number => true,
    }
}

impl ValueTemplate {
    /// Makes the value; `None` if it has none. Null is a value only as a literal.
    pub(crate) fn make<'s>(&self, scope: &ValueScope<'s>) -> Option<Json<'s>> {
        match self {
            ValueTemplate::Literal(value) => Some(value.clone()),
            ValueTemplate::From(sources) => scope.get_first(sources).filter(|value| !value.is_null()),
            ValueTemplate::Text(parts) => Some(make_text(parts, scope)),
            ValueTemplate::Object(members) => Some(json::build_object(|object| {
                for (name, template) in members {
                    if let Some(value) = template.make(scope) {
                        object.copy_member(&(MemberKey::Other(Cow::Borrowed(name)), value), false);
                    }
                }
            })),
            ValueTemplate::List(elements) => {
                let mut made = Vec::new();
                for element in elements {
                    match element {
                        ValueTemplate::Each { list, rules } => add_elements(list, rules, scope, &mut made),
                        element => made.extend(element.make(scope).map(Json::into_owned)),
                    }
                }
                Some(json::to_array(&made))
            }
            ValueTemplate::If(conditions, value) => scope.holds(conditions).then(|| value.make(scope))?,
            ValueTemplate::Table { from, words, otherwise } => {
                let word = from.make(scope);
                let found = match &word {
                    Some(word) if words.is_empty() => Some(word.clone()),
                    Some(word) => find_word(words, word),
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
            ValueTemplate::AsText(inner) => inner.make(scope).map(|value| value.to_string_value()),
            ValueTemplate::TextOf(inner) => inner.make(scope).map(|value| match join_text_parts(&value) {
                Some(text) => Json::string(&text),
                None => value.to_string_value(),
            }),
            ValueTemplate::AsJson(inner) => {
                let value = inner.make(scope)?;
                let held = value.text().and_then(|text| json::parse_value(text.trim()).map(Json::into_owned));
                Some(held.unwrap_or(value))
            }
        }
    }
}

/// Joins the texts of a list of content parts with line feeds; `None` for any other value.
pub(super) fn join_text_parts(value: &Json<'_>) -> Option<String> {
    let parts = json::parse_elements(value)?;
    let texts = parts.iter().filter_map(|part| json::parse_member(part, "text")?.text().map(Cow::into_owned));
    Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}

/// Finds a word in a table of the file, which lists only a few.
fn find_word(words: &[(Json<'static>, Json<'static>)], word: &Json<'_>) -> Option<Json<'static>> {
    let is_its = |wire: &Json<'_>| wire.is_same(word);
    words.iter().find(|(wire, _)| is_its(wire)).map(|(_, own)| own.clone())
}

/// Makes a text. A place without a value adds nothing.
fn make_text(parts: &[TextPart], scope: &ValueScope<'_>) -> Json<'static> {
    let mut text = String::new();
    for part in parts {
        match part {
            TextPart::Literal(literal) => text.push_str(literal),
            TextPart::From(sources) => {
                let value = scope.get_first(sources).filter(|value| !value.is_null());
                let Some(value) = value else { continue };
                text.push_str(&value.text().unwrap_or_else(|| Cow::Borrowed(value.as_str())));
            }
        }
    }
    Json::string(&text)
}

fn add_elements(list: &ValueSource, rules: &[ItemRule], scope: &ValueScope<'_>, made: &mut Vec<Json<'static>>) {
    let Some(list) = scope.list(list) else { return };
    for element in json::parse_elements(&list).unwrap_or_default() {
        let scope = ValueScope { item: Some(&element), ..*scope };
        match rules.iter().find(|rule| scope.holds(&rule.conditions)) {
            Some(rule) => made.extend(rule.value.make(&scope).map(Json::into_owned)),
            None => scope.left_out.into_iter().for_each(|count| count.set(count.get() + 1)),
        }
    }
}
