//! One request, translated: client dialect → `RunInput` → agent dialect.

use super::guard::Known;
use super::message::Carries;
use super::{Ids, Tools, carry, interrupt, message, names, part, spell, tools};
use crate::codec::json;
use crate::dialect::{Home, InputForm, Pin, Side, Spelling};
use crate::event::input::Message;
use crate::event::{Field, Json, Key, Members, PROTOCOL_VERSION, RunInput, Type, get, remove, set};
use std::fmt;

/// `description` of the one context entry that a context sent as plain text becomes.
const CONTEXT: &str = "context";

/// Most messages that one request may have.
pub const MESSAGES_LIMIT: usize = 10_000;

/// A request ready for the agent.
#[derive(Debug)]
pub struct Translated {
    /// the body, JSON
    pub body: String,
    /// the ids of the run
    pub ids: Ids,
    /// how many members and messages the agent cannot take, by its dialect's policy
    pub downgraded: u64,
    /// what the conversation holds already, for the guard of the run's stream
    pub known: Known,
    /// the canonical messages of the input with the ids that the client has for them, a JSON array, where they were to be kept
    pub messages: Option<Box<str>>,
}

/// Why a request is refused: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// JSON Pointer to the culprit; empty for the whole body
    pub pointer: String,
    /// what is wrong with it
    pub reason: String,
    /// whether it can be read, and offers a tool that is not allowed
    pub tool: bool,
}

impl Refused {
    /// A tool that is not allowed.
    pub(super) fn tool(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Refused { pointer: pointer.into(), reason: reason.into(), tool: true }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() { f.write_str(&self.reason) } else { write!(f, "{}: {}", self.pointer, self.reason) }
    }
}

impl std::error::Error for Refused {}

fn refused<T>(pointer: impl Into<String>, reason: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { pointer: pointer.into(), reason: reason.into(), tool: false })
}

/// Translates a request body. `fresh` gives ids where the request has none; the agent hears them, and every event of the
/// run carries them.
///
/// # Errors
/// When the body is no run input of the client's dialect.
pub fn translate(body: &[u8], client: Side, agent: Side, fresh: &Ids) -> Result<Translated, Refused> {
    translate_allowing(body, client, agent, fresh, None)
}

/// The same for a route that allows only some tools.
///
/// # Errors
/// As [`translate`], and when a tool is offered that is not allowed.
pub fn translate_allowing(
    body: &[u8],
    client: Side,
    agent: Side,
    fresh: &Ids,
    tools: Option<&Tools>,
) -> Result<Translated, Refused> {
    translated(body, client, agent, fresh, tools, false)
}

/// The same for a run that a client may come back to: [`Translated::messages`] are kept.
///
/// # Errors
/// As [`translate_allowing`].
pub fn translate_keeping(
    body: &[u8],
    client: Side,
    agent: Side,
    fresh: &Ids,
    tools: Option<&Tools>,
) -> Result<Translated, Refused> {
    translated(body, client, agent, fresh, tools, true)
}

fn translated(
    body: &[u8],
    client: Side,
    agent: Side,
    fresh: &Ids,
    tools: Option<&Tools>,
    keep: bool,
) -> Result<Translated, Refused> {
    let mut input = decode(text(body)?, client, fresh)?;
    // The client has the names that were made for it, the agent its own.
    let mut known = Known::of(&input.messages);
    if let Some(tools) = tools {
        if let Some(refused) = tools.refuse(&input, client) {
            return Err(refused);
        }
        known.made = tools::made(&input.messages);
    }
    let messages = keep.then(|| Box::from(message::to_array(&input.messages, false).as_str()));
    names::restore(&mut input.messages);
    let ids = Ids { thread_id: input.thread_id.clone().into_owned(), run_id: input.run_id.clone().into_owned() };
    let (body, downgraded) = encode(input, agent);
    Ok(Translated { body, ids, downgraded, known, messages })
}

fn text(body: &[u8]) -> Result<&str, Refused> {
    match std::str::from_utf8(body) {
        Ok(text) if text.starts_with('\u{feff}') => {
            refused("", "the body begins with a byte order mark; send plain UTF-8")
        }
        Ok(text) => Ok(text),
        Err(error) => refused("", format!("the body is no UTF-8 from byte {} on", error.valid_up_to())),
    }
}

/// Reads a request of a dialect into the canonical input.
///
/// # Errors
/// When it is no JSON object, has no list of messages, or a member that no rule can read.
pub fn decode<'a>(body: &'a str, client: Side, fresh: &Ids) -> Result<RunInput<'a>, Refused> {
    let object = match json::object(body) {
        Ok(object) => object,
        Err(error) => return refused("", format!("the body is no JSON object: {error}")),
    };
    let mut members = object.members;
    if let Some(kind) = object.kind {
        members.insert(0, (Key::Other(json::TYPE.into()), kind));
    }
    spell::read_names(client.dialect.names, &mut members);
    // Whole nulls say nothing; the real client drops them too before it sends.
    members.retain(|(_, value)| !value.is_null());
    let thread_id = id(&mut members, Field::ThreadId, &fresh.thread_id)?;
    let run_id = id(&mut members, Field::RunId, &fresh.run_id)?;
    let mut messages = read_messages(&mut members, client)?;
    if client.dialect.home != Home::Native {
        unpack_input(&mut members, &mut messages, client.dialect.home);
    }
    // "binary" was retired with 1.0; a client that has been there for longer may still send it.
    for message in &mut messages {
        if let Some(media) = get(message, Field::Content).and_then(part::read) {
            set(message, Key::Known(Field::Content), media);
        }
    }
    if client.asks_by().is_some() {
        interrupt::answer(&mut members, &mut messages);
    }
    if let Some(context) = get(&members, Field::Context).filter(|context| context.shape() == Type::String) {
        let context = context_of_text(context);
        set(&mut members, Key::Known(Field::Context), context);
    }
    for (field, expected, name) in [(Field::Tools, Type::Array, "an array"), (Field::Context, Type::Array, "an array")]
    {
        if get(&members, field).is_some_and(|value| value.shape() != expected) {
            return refused(format!("/{}", field.camel()), format!("must be {name}"));
        }
    }
    Ok(RunInput { thread_id, run_id, messages, members })
}

fn id<'a>(members: &mut Members<'a>, field: Field, fresh: &Json<'static>) -> Result<Json<'a>, Refused> {
    match remove(members, field) {
        None => Ok(fresh.clone()),
        Some(value) if value.is("") => Ok(fresh.clone()),
        Some(value) if value.shape() == Type::String => Ok(value),
        Some(value) if value.shape() == Type::Number => Ok(Json::string(value.as_str())),
        Some(_) => refused(format!("/{}", field.camel()), "must be a string"),
    }
}

fn read_messages(members: &mut Members<'_>, client: Side) -> Result<Vec<Message<'static>>, Refused> {
    let Some(list) = remove(members, Field::Messages) else {
        return refused("/messages", "is missing; it must be an array of messages");
    };
    let Some((elements, count)) = json::first_elements(&list, MESSAGES_LIMIT) else {
        return refused("/messages", "must be an array of messages");
    };
    if count > MESSAGES_LIMIT {
        return refused("/messages", format!("has {count} messages; at most {MESSAGES_LIMIT} are taken"));
    }
    let mut messages = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        let Some(mut message) = json::message(element) else {
            return refused(format!("/messages/{at}"), "must be an object");
        };
        spell::read_names(client.dialect.names, &mut message);
        message.retain(|(_, value)| !value.is_null());
        name_result(&mut message);
        check(&message, at, client)?;
        message::read(message, client, &mut messages);
    }
    Ok(messages)
}

fn check(message: &Members<'_>, at: usize, client: Side) -> Result<(), Refused> {
    let place = |field: Field| format!("/messages/{at}/{}", field.camel());
    let roles = client.dialect.message.roles;
    match get(message, Field::Role).map(|role| (role.shape(), role.text())) {
        None => return refused(place(Field::Role), format!("is missing; it must be one of {}", roles.join(", "))),
        Some((_, Some(role))) if roles.contains(&spell::canonical_role(client, &role)) => {}
        Some((_, role)) => {
            let said = role.map_or_else(|| "no string".to_owned(), |role| format!("`{}`", shorten(&role)));
            return refused(place(Field::Role), format!("is {said}; it must be one of {}", roles.join(", ")));
        }
    }
    for field in [Field::Id, Field::ToolCallId] {
        match get(message, field).map(Json::shape) {
            Some(Type::String) => {}
            None if field != Field::Id => {}
            None => return refused(place(field), "is missing; every message needs an id"),
            Some(_) => return refused(place(field), "must be a string"),
        }
    }
    if get(message, Field::ToolCalls).is_some_and(|calls| calls.shape() != Type::Array) {
        return refused(place(Field::ToolCalls), "must be an array");
    }
    Ok(())
}

/// A tool message without an id gets the one that the same result would have on the stream: seed 003 (用户确认) prints the
/// client's answer without.
fn name_result(message: &mut Members<'_>) {
    if get(message, Field::Id).is_none()
        && let Some(call) = get(message, Field::ToolCallId).filter(|call| call.shape() == Type::String)
    {
        let id = super::result_id(call);
        message.insert(0, (Key::Known(Field::Id), id));
    }
}

/// What a client said, cut to what an error message should repeat of it.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// A context that is a text: JSON inside it is taken for the list, anything else becomes its one entry.
fn context_of_text(context: &Json<'_>) -> Json<'static> {
    let text = context.text().unwrap_or_default();
    if text.trim().is_empty() {
        return Json::trusted("[]");
    }
    if let Some(list) = json::value(&text).filter(|value| value.shape() == Type::Array) {
        return list.into_owned();
    }
    let entry = json::build(|object| {
        object.member(Field::Description.camel(), Json::string(CONTEXT).as_str());
        object.member(Field::Value.camel(), context.as_str());
    });
    json::to_array(&[entry])
}

fn unpack_input(members: &mut Members<'_>, messages: &mut [Message<'static>], home: Home) {
    let place = home.place().map_or("", |(member, _)| member);
    let carried = match messages.iter_mut().rev().find_map(|message| carry::take(message, message::INPUT)) {
        Some(input) => json::members(&input).map(crate::event::owned),
        None => carry::take(members, place).map(|held| {
            let found = carry::unwrap(&held, home);
            members.extend(found.own.map(|own| (carry::own(place), own)));
            found.canonical
        }),
    };
    for (key, value) in carried.unwrap_or_default() {
        set(members, key, value);
    }
}

/// Writes the canonical input for a dialect; also says how much of it the agent cannot take.
#[must_use]
pub fn encode(input: RunInput<'_>, agent: Side) -> (String, u64) {
    let RunInput { thread_id, run_id, messages, mut members } = input;
    let carries = Carries::of_request(agent);
    let mut messages = message::write(messages, agent, &carries);
    // What a hop speaks is said by whoever speaks on it.
    remove(&mut members, Field::ProtocolVersion);
    let snake = agent.fields == Spelling::Snake;
    let defaults = [
        (Field::State, "{}"),
        (Field::Messages, ""),
        (Field::Tools, "[]"),
        (Field::Context, "[]"),
        (Field::ForwardedProps, "{}"),
    ];
    let mut top = vec![(Key::Known(Field::ThreadId), thread_id), (Key::Known(Field::RunId), run_id)];
    if agent.dialect.input == InputForm::Current {
        top.push((Key::Known(Field::ProtocolVersion), Json::string(PROTOCOL_VERSION)));
    }
    let mut said = Vec::new();
    for (field, default) in defaults {
        if field == Field::Messages {
            said.push((Key::Known(field), Json::NULL));
            continue;
        }
        let value = remove(&mut members, field).unwrap_or_else(|| Json::trusted(default));
        said.push((Key::Known(field), value));
    }
    match (agent.dialect.input, members.is_empty()) {
        (_, true) => {}
        (InputForm::Current, false) => said.extend(members),
        // Interrupts came with 0.0.57, and their answers with them.
        (InputForm::Seven, false) => {
            if agent.dialect.is_versioned() && agent.pin >= Pin::V0_0_57 {
                let resume = remove(&mut members, Field::Resume);
                said.extend(resume.map(|resume| (Key::Known(Field::Resume), resume)));
            }
            if !members.is_empty() && carries.carry() {
                carry_input(agent.dialect.home, &members, &mut messages, &mut said);
            }
        }
    }
    if let Some((_, place)) = said.iter_mut().find(|(key, _)| *key == Key::Known(Field::Messages)) {
        *place = message::to_array(&messages, snake);
    }
    top.extend(said);
    spell::write_names(agent.dialect.names, &mut top);
    let body = json::build(|object| top.iter().for_each(|member| object.copy(member, snake)));
    (body.as_str().to_owned(), carries.lost())
}

/// What the seven members cannot say rides on the last message; without one, on the request itself rather than nowhere.
fn carry_input<'a>(
    home: Home,
    members: &Members<'_>,
    messages: &mut [Message<'_>],
    said: &mut Vec<(Key<'a>, Json<'a>)>,
) {
    match messages.last_mut() {
        Some(last) => message::add_note(last, home, message::INPUT, json::to_object(members)),
        None => {
            let place = home.place().map_or("", |(member, _)| member);
            said.extend(carry::wrap(home, None, members, None).map(|held| (carry::own(place), held)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};

    fn fresh() -> Ids {
        Ids::new("t-new", "r-new")
    }

    fn through(
        body: &str,
        client: &'static crate::dialect::Dialect,
        agent: &'static crate::dialect::Dialect,
    ) -> String {
        translate(body.as_bytes(), Side::new(client), Side::new(agent), &fresh()).expect("a request").body
    }

    #[test]
    fn messages_are_bounded_and_no_more_are_kept_than_are_taken() {
        let refused = |count: usize| {
            let body = format!(r#"{{"messages":[{}1]}}"#, "1,".repeat(count - 1));
            translate(body.as_bytes(), Side::new(&AG_UI), Side::new(&HAI), &fresh())
                .expect_err("no messages")
                .to_string()
        };
        assert_eq!(refused(MESSAGES_LIMIT), "/messages/0: must be an object");
        assert_eq!(refused(1_000_000), "/messages: has 1000000 messages; at most 10000 are taken");
        let list = Json::trusted("[1,2,3]");
        let (elements, count) = json::first_elements(&list, 2).expect("an array");
        assert_eq!((elements.iter().map(Json::as_str).collect::<String>().as_str(), count), ("12", 3));
    }

    #[test]
    fn an_ag_ui_request_takes_the_seven_member_form_and_comes_back_whole() {
        let body = concat!(
            r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","parentRunId":"p","state":{"n":1.10},"messages":["#,
            r#"{"id":"1","role":"user","content":[{"type":"text","text":"看图"},{"type":"image","source":{"type":"url","value":"u"}}]},"#,
            r#"{"id":"2","role":"reasoning","content":"想"},"#,
            r#"{"id":"3","role":"assistant","content":"好","metadata":{"hai":{"timestamp":5,"extra":{"k":1}},"x":2}}],"#,
            r#""tools":[],"context":[],"forwardedProps":{"a":12345678901234567890}}"#
        );
        let hai = through(body, &AG_UI, &HAI);
        let expected = concat!(
            r#"{"threadId":"t","runId":"r","state":{"n":1.10},"messages":["#,
            r#"{"id":"1","role":"user","content":"看图","extra":{"ag-ui":{"content":[{"type":"text","text":"看图"},{"type":"image","source":{"type":"url","value":"u"}}]}}},"#,
            r#"{"id":"3","role":"assistant","content":"好","timestamp":5,"extra":{"k":1,"ag-ui":{"metadata":{"x":2},"preceding":[{"id":"2","role":"reasoning","content":"想"}],"input":{"parentRunId":"p"}}}}],"#,
            r#""tools":[],"context":[],"forwardedProps":{"a":12345678901234567890}}"#
        );
        assert_eq!(hai, expected);
        let back: serde_json::Value = serde_json::from_str(&through(&hai, &HAI, &AG_UI)).expect("JSON");
        let mut original: serde_json::Value = serde_json::from_str(body).expect("JSON");
        original["messages"][2]["metadata"] = serde_json::json!({"x":2,"hai":{"timestamp":5,"extra":{"k":1}}});
        assert_eq!(back, original);
    }

    #[test]
    fn a_hai_request_may_be_snake_case_and_sparse() {
        let body = r#"{"thread_id":"t","messages":[{"id":"1","role":"user","content":"hi"}],"context":"in a car","forwarded_props":null}"#;
        assert_eq!(
            through(body, &HAI, &AG_UI),
            concat!(
                r#"{"threadId":"t","runId":"r-new","protocolVersion":"1.0","state":{},"#,
                r#""messages":[{"id":"1","role":"user","content":"hi"}],"tools":[],"#,
                r#""context":[{"description":"context","value":"in a car"}],"forwardedProps":{}}"#
            )
        );
    }

    #[test]
    fn a_refusal_names_the_place() {
        let rows: &[(&[u8], &str, &str)] = &[
            (b"{", "", "no JSON object: EOF"),
            (b"[]", "", "expected a JSON object"),
            (b"{} {}", "", "trailing characters at line 1 column 4"),
            (b"\xef\xbb\xbf{}", "", "byte order mark"),
            (b"{\"a\":\"\xff\"}", "", "no UTF-8 from byte 6 on"),
            (b"{}", "/messages", "is missing"),
            (b"{\"messages\":{}}", "/messages", "must be an array"),
            (b"{\"messages\":[1]}", "/messages/0", "must be an object"),
            (b"{\"messages\":[{\"id\":\"1\",\"role\":\"king\"}]}", "/messages/0/role", "`king`; it must be one of"),
            (b"{\"messages\":[{\"role\":\"user\"}]}", "/messages/0/id", "is missing"),
            (b"{\"messages\":[],\"threadId\":{}}", "/threadId", "must be a string"),
            (b"{\"messages\":[],\"tools\":{}}", "/tools", "must be an array"),
        ];
        for (body, pointer, reason) in rows {
            let refused = translate(body, Side::new(&AG_UI), Side::new(&HAI), &fresh()).expect_err("refused");
            assert_eq!(refused.pointer, *pointer, "{refused}");
            assert!(refused.reason.contains(reason), "{refused}");
        }
    }
}
