//! Translates one request: client dialect → canonical `RunAgentInput` → agent dialect.

use super::carry_policy::CarryPolicy;
use super::list_budget::ListBudget;
use super::mapped_body::{MappedBody, map_body};
use super::recap::RecapInput;
use super::request_messages::{INPUT_MESSAGES, read_input_messages, read_messages, refuse_excess, refuse_lookalikes};
pub(crate) use super::request_refusal::RefusalCause;
pub use super::request_refusal::RequestRefusal;
use super::request_refusal::refuse;
use super::run_guard::ConversationState;
use super::{
    AllowedTools, RunIds, aliases, allowed_tools, carry, content_parts, gateway_notes, input_repair, message,
    message_ids,
};
use crate::codec::json;
use crate::dialect::{
    CarryLocation, MemberCase, PeerDialect, PeerVersion, RequestTarget, RunInputFormat, ThreadState, ThreadValues,
    interrupts,
};
use crate::event::input::{ASSISTANT, MessageMembers, has_role};
use crate::event::{
    EventLoss, Field, Json, JsonType, LossCounts, MemberKey, Members, PROTOCOL_VERSION, RunAgentInput, find_member,
    get, remove, set,
};

/// A request ready for the agent.
#[derive(Debug)]
pub struct TranslatedRequest {
    /// the JSON body
    pub body: String,
    /// what is added to the route's URL and to its headers, for an agent whose dialect is described by a file
    pub(crate) target: RequestTarget,
    pub(crate) ids: RunIds,
    /// what the agent cannot accept or does not see
    pub losses: LossCounts,
    /// the initial state of the stream's guard
    pub conversation: ConversationState,
    /// with the client's ids; only for a resumable run
    pub(crate) recap_input: Option<RecapInput>,
    /// what earlier runs of the thread kept, for an agent whose dialect is described by a file
    pub(crate) thread: ThreadState,
}

impl TranslatedRequest {
    /// Returns about the memory that the run holds of its request till its end.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.conversation.retained_bytes
    }
}

/// Translates a request body. `fresh` supplies any ids missing from the request; the agent and every event of the run
/// receive them.
///
/// # Errors
/// Fails if the body is not a run input in the client's dialect.
pub fn translate_request(
    body: &[u8],
    client: PeerDialect,
    agent: PeerDialect,
    fresh: &RunIds,
) -> Result<TranslatedRequest, RequestRefusal> {
    translate_with_tools(body, client, agent, fresh, None)
}

/// Translates a request for a route that allows only some tools.
///
/// # Errors
/// Fails as [`translate_request`] does, and if a forbidden tool is offered.
pub fn translate_with_tools(
    body: &[u8],
    client: PeerDialect,
    agent: PeerDialect,
    fresh: &RunIds,
    tools: Option<&AllowedTools>,
) -> Result<TranslatedRequest, RequestRefusal> {
    translate_input(body, client, agent, fresh, tools, false, &|_| Some(ThreadValues::new()))
}

/// Translates a request. `is_kept` is true if a client may resume the run, which needs
/// [`TranslatedRequest::recap_input`]; `thread_values` returns what earlier runs of a thread kept,
/// and `None` for a thread that is unknown.
pub(crate) fn translate_input(
    body: &[u8],
    client: PeerDialect,
    agent: PeerDialect,
    fresh: &RunIds,
    tools: Option<&AllowedTools>,
    is_kept: bool,
    thread_values: &dyn Fn(&Json<'_>) -> Option<ThreadValues>,
) -> Result<TranslatedRequest, RequestRefusal> {
    let input = decode_body(body, client, fresh)?;
    let values = thread_values(&input.thread_id);
    translate_decoded(input, client, agent, tools, is_kept, values)
}

/// Translates a request that was decoded, as [`translate_input`] does.
pub(crate) fn translate_decoded(
    mut input: RunAgentInput<'_>,
    client: PeerDialect,
    agent: PeerDialect,
    tools: Option<&AllowedTools>,
    is_kept: bool,
    thread_values: Option<ThreadValues>,
) -> Result<TranslatedRequest, RequestRefusal> {
    // The client has the generated ids, the agent its own.
    let recap_input = is_kept.then(|| RecapInput {
        messages: Some(message::to_array(&input.messages, false).as_str().into()),
        state: get(&input.members, Field::State).map(|state| state.as_str().into()),
    });
    restore_reserved_ids(&mut input, client);
    let mut known = ConversationState::from_input(&input, agent);
    known.add_earlier_messages(client.earlier_messages(&input.messages));
    if let Some(tools) = tools {
        if let Some(refused) = tools.find_refusal(&input, client) {
            return Err(refused);
        }
        known.add_prior_calls(allowed_tools::collect_calls(&input.messages));
    }
    message_ids::restore_ids(&mut input.messages);
    message_ids::restore_calls(&mut input.messages);
    let ids = RunIds { thread_id: input.thread_id.clone().into_owned(), run_id: input.run_id.clone().into_owned() };
    let mut left_out = input_repair::repair_input(&mut input, agent)?;
    left_out += gateway_notes::remove_notes(&mut input, client, agent);
    let has_answers = input.messages.iter().any(|message| has_role(message, ASSISTANT));
    let mut thread = ThreadState::new(thread_values, has_answers);
    let (body, mut losses) = encode_input(input, agent);
    losses[EventLoss::Downgraded as usize] += left_out;
    let MappedBody { body, target } = map_body(body, agent, &mut thread, &mut losses)?;
    Ok(TranslatedRequest { body, target, ids, losses, conversation: known, recap_input, thread })
}

/// Translates a request with the gateway's notes, by which the way back restores what the agent's dialect lacks.
pub(crate) fn translate_with_notes(
    body: &[u8],
    client: PeerDialect,
    agent: PeerDialect,
    fresh: &RunIds,
) -> Result<String, RequestRefusal> {
    let mut input = decode_body(body, client, fresh)?;
    restore_reserved_ids(&mut input, client);
    message_ids::restore_ids(&mut input.messages);
    message_ids::restore_calls(&mut input.messages);
    Ok(encode_input(input, agent).0)
}

/// Restores the ids that the writer of the client's stream prefixes.
fn restore_reserved_ids(input: &mut RunAgentInput<'_>, client: PeerDialect) {
    if client.interrupt_form().is_some() {
        interrupts::restore_ids(&mut input.messages);
    }
}

fn decode_utf8(body: &[u8]) -> Result<&str, RequestRefusal> {
    match std::str::from_utf8(body) {
        Ok(text) if text.starts_with('\u{feff}') => {
            refuse("", "the body begins with a byte order mark; send plain UTF-8")
        }
        Ok(text) => Ok(text),
        Err(error) => refuse("", format!("the body is not valid UTF-8 at byte {}", error.valid_up_to())),
    }
}

/// Reads a request body into the canonical input. Fails if it is not UTF-8, or as [`decode_input`] does.
pub(crate) fn decode_body<'a>(
    body: &'a [u8],
    client: PeerDialect,
    fresh: &RunIds,
) -> Result<RunAgentInput<'a>, RequestRefusal> {
    decode_input(decode_utf8(body)?, client, fresh)
}

const CHECKED_MEMBERS: [Field; 5] = [Field::ThreadId, Field::RunId, Field::Messages, Field::Tools, Field::Resume];

/// Reads a request into the canonical input. Fails if it is not a JSON object, has no message list, or has an
/// unreadable member.
pub(crate) fn decode_input<'a>(
    body: &'a str,
    client: PeerDialect,
    fresh: &RunIds,
) -> Result<RunAgentInput<'a>, RequestRefusal> {
    let object = match json::parse_object(body) {
        Ok(object) => object,
        Err(error) => return refuse("", format!("the body is not a JSON object: {error}")),
    };
    let mut members = object.members;
    if let Some(kind) = object.kind {
        members.insert(0, (MemberKey::Other(json::TYPE.into()), kind));
    }
    aliases::read_field_names(client.dialect.field_aliases, &mut members);
    // Null members carry no data; the real client also drops them before sending.
    members.retain(|(_, value)| !value.is_null());
    refuse_lookalikes(&members, &CHECKED_MEMBERS, "")?;
    let thread_id = take_id(&mut members, Field::ThreadId, &fresh.thread_id)?;
    let run_id = take_id(&mut members, Field::RunId, &fresh.run_id)?;
    let mut lists = ListBudget::default();
    let mut messages = read_messages(&mut members, client, &mut lists)?;
    if !client.dialect.is_canonical() {
        unpack_input(&mut members, &mut messages, client.dialect.carry_location, &mut lists)?;
    }
    check_lists(lists, &members)?;
    // "binary" was retired in 1.0; older clients may still send it.
    for message in &mut messages {
        if let Some(media) = get(message, Field::Content).and_then(content_parts::read) {
            set(message, MemberKey::Known(Field::Content), media);
        }
    }
    let mut question_ids = Vec::new();
    if let Some(form) = client.interrupt_form() {
        question_ids = interrupts::apply_answers(form, &mut members, &mut messages);
        message_ids::restore_answers(&mut members, &question_ids);
    }
    if let Some(context) = get(&members, Field::Context).and_then(input_repair::convert_context) {
        set(&mut members, MemberKey::Known(Field::Context), context);
        check_lists(lists, &members)?;
    }
    for (field, expected, name) in
        [(Field::Tools, JsonType::Array, "an array"), (Field::Context, JsonType::Array, "an array")]
    {
        if get(&members, field).is_some_and(|value| value.json_type() != expected) {
            return refuse(format!("/{}", field.camel()), format!("must be {name}"));
        }
    }
    Ok(RunAgentInput { thread_id, run_id, messages, members, question_ids })
}

fn check_lists(mut lists: ListBudget, members: &Members<'_>) -> Result<(), RequestRefusal> {
    lists.take_input(members).map_err(|excess| refuse_excess("", excess))
}

/// Maximum length in bytes of the JSON of a run's id, and of its thread's.
const MAX_RUN_ID_LEN: usize = 64 << 10;

/// Takes an id of the run, which must be short: some clients get it with every event, and several parts of the gateway
/// keep it as long as the run.
fn take_id<'a>(members: &mut Members<'a>, field: Field, fresh: &Json<'static>) -> Result<Json<'a>, RequestRefusal> {
    match remove(members, field) {
        None => Ok(fresh.clone()),
        Some(value) if value.is_str("") => Ok(fresh.clone()),
        Some(value) if !matches!(value.json_type(), JsonType::String | JsonType::Number) => {
            refuse(format!("/{}", field.camel()), "must be a string")
        }
        Some(value) if value.as_str().len() > MAX_RUN_ID_LEN => {
            refuse(format!("/{}", field.camel()), format!("is longer than {MAX_RUN_ID_LEN} bytes, as JSON"))
        }
        Some(value) if value.json_type() == JsonType::String => Ok(value),
        Some(value) => Ok(Json::string(value.as_str())),
    }
}

fn unpack_input(
    members: &mut Members<'_>,
    messages: &mut Vec<MessageMembers<'static>>,
    location: CarryLocation,
    lists: &mut ListBudget,
) -> Result<(), RequestRefusal> {
    let (place, key) = location.carry_member().unwrap_or_default();
    // Only the last one is of the latest request. A member of this name that is no object is the message's own.
    let holds_input = |message: &&mut MessageMembers<'_>| {
        find_member(message, message::INPUT_MEMBER).is_some_and(|input| input.json_type() == JsonType::Object)
    };
    let held: Vec<_> = messages
        .iter_mut()
        .filter(holds_input)
        .filter_map(|message| carry::take(message, message::INPUT_MEMBER))
        .collect();
    let mut carried = match held.last() {
        Some(input) => json::parse_owned_members(input),
        None => carry::take(members, place).map(|held| {
            let found = carry::unwrap_canonical(&held, location);
            members.extend(found.rest.map(|own| (carry::extension_key(place), own)));
            found.canonical
        }),
    }
    .unwrap_or_default();
    if let Some(list) = carry::take(&mut carried, INPUT_MESSAGES).filter(|_| messages.is_empty()) {
        *messages = read_input_messages(&list, &format!("/{place}/{key}/{INPUT_MESSAGES}"), lists)?;
    }
    for (key, value) in carried {
        let key = key.into_canonical();
        // The ids and the messages are those of the request, on which the gates decide: no hop carries others.
        let is_own = matches!(key, MemberKey::Known(Field::ThreadId | Field::RunId | Field::Messages));
        if !is_own && !value.is_null() {
            set(members, key, value);
        }
    }
    Ok(())
}

/// Encodes the input; also returns what the agent cannot accept or does not see.
pub(crate) fn encode_input(input: RunAgentInput<'_>, agent: PeerDialect) -> (String, LossCounts) {
    let RunAgentInput { thread_id, run_id, messages, mut members, .. } = input;
    let carries = CarryPolicy::for_request(agent);
    let mut written = message::write_by_policy(messages, agent, &carries);
    // Each hop declares its own protocol version.
    remove(&mut members, Field::ProtocolVersion);
    let snake = agent.member_case == MemberCase::Snake;
    let defaults = [
        (Field::State, "{}"),
        (Field::Messages, ""),
        (Field::Tools, "[]"),
        (Field::Context, "[]"),
        (Field::ForwardedProps, "{}"),
    ];
    let mut top = vec![(MemberKey::Known(Field::ThreadId), thread_id), (MemberKey::Known(Field::RunId), run_id)];
    if agent.dialect.input == RunInputFormat::Current {
        top.push((MemberKey::Known(Field::ProtocolVersion), Json::string(PROTOCOL_VERSION)));
    }
    let mut rest = Vec::new();
    for (field, default) in defaults {
        if field == Field::Messages {
            rest.push((MemberKey::Known(field), Json::NULL));
            continue;
        }
        let value = remove(&mut members, field).unwrap_or_else(|| Json::from_trusted(default));
        rest.push((MemberKey::Known(field), value));
    }
    match agent.dialect.input {
        RunInputFormat::Current => {
            // A member with the agent's name for an id would be a second one.
            members.retain(|(key, _)| !agent.dialect.field_aliases.iter().any(|(_, name)| carry::is_named(key, name)));
            rest.extend(members);
        }
        RunInputFormat::SevenMembers | RunInputFormat::PlainMessages => {
            if is_answered(agent, get(&members, Field::Resume)) {
                let resume = remove(&mut members, Field::Resume);
                rest.extend(resume.map(|resume| (MemberKey::Known(Field::Resume), resume)));
            }
            if !written.unplaced.is_empty() {
                members.push((carry::extension_key(INPUT_MESSAGES), json::to_array(&written.unplaced)));
            }
            if !members.is_empty() && carries.try_carry() {
                carry_input(agent.dialect.carry_location, &members, &mut written.list, &mut rest);
            }
        }
    }
    if let Some((_, place)) = rest.iter_mut().find(|(key, _)| *key == MemberKey::Known(Field::Messages)) {
        *place = message::to_array(&written.list, snake);
    }
    top.extend(rest);
    aliases::write_field_names(agent.dialect.field_aliases, &mut top);
    let body = json::build_object(|object| top.iter().for_each(|member| object.copy_member(member, snake)));
    let mut losses = written.losses;
    losses[EventLoss::Downgraded as usize] = carries.lost_count();
    (body.as_str().to_owned(), losses)
}

/// Returns true if an agent gets answers to interrupts, which were added in 0.0.57. Only an agent that has interrupts
/// is answered, so one of an unknown version has them.
fn is_answered(agent: PeerDialect, answers: Option<&Json<'_>>) -> bool {
    let is_unknown = agent.is_auto || agent.peer_version == PeerVersion::Any;
    let has_interrupts = agent.dialect.is_versioned() && agent.peer_version >= PeerVersion::V0_0_57;
    has_interrupts || (is_unknown && answers.and_then(json::parse_elements).is_some_and(|answers| !answers.is_empty()))
}

/// Carries the remaining members on the last message, or on the request itself if it has no messages.
fn carry_input<'a>(
    location: CarryLocation,
    members: &Members<'_>,
    messages: &mut [MessageMembers<'_>],
    outgoing: &mut Vec<(MemberKey<'a>, Json<'a>)>,
) {
    match messages.last_mut() {
        Some(last) => message::add_carried_member(last, location, message::INPUT_MEMBER, json::to_object(members)),
        None => {
            let place = location.carry_member().map_or("", |(member, _)| member);
            outgoing.extend(
                carry::wrap_canonical(location, None, members, None).map(|held| (carry::extension_key(place), held)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};
    use crate::translate::request_messages::MESSAGES_LIMIT;

    fn fresh_ids() -> RunIds {
        RunIds::new("t-new", "r-new")
    }

    fn translate_body(
        body: &str,
        client: &'static crate::dialect::Dialect,
        agent: &'static crate::dialect::Dialect,
    ) -> String {
        translate_request(body.as_bytes(), PeerDialect::new(client), PeerDialect::new(agent), &fresh_ids())
            .expect("a request")
            .body
    }

    #[test]
    fn limits_messages_and_keeps_no_more_than_it_takes() {
        let refused = |count: usize| {
            let body = format!(r#"{{"messages":[{}1]}}"#, "1,".repeat(count - 1));
            translate_request(body.as_bytes(), PeerDialect::new(&AG_UI), PeerDialect::new(&HAI), &fresh_ids())
                .expect_err("no messages")
                .to_string()
        };
        assert_eq!(refused(MESSAGES_LIMIT), "/messages/0: must be an object");
        assert_eq!(refused(1_000_000), "/messages: has 1000000 messages; at most 10000 are taken");
        let list = Json::from_trusted("[1,2,3]");
        let (elements, count) = json::parse_first_elements(&list, 2).expect("an array");
        assert_eq!((elements.iter().map(Json::as_str).collect::<String>().as_str(), count), ("12", 3));
    }

    #[test]
    fn round_trips_an_ag_ui_request_through_hai() {
        let body = concat!(
            r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","parentRunId":"p","state":{"n":1.10},"messages":["#,
            r#"{"id":"1","role":"user","content":[{"type":"text","text":"看图"},{"type":"image","source":{"type":"url","value":"u"}}]},"#,
            r#"{"id":"2","role":"reasoning","content":"想"},"#,
            r#"{"id":"3","role":"assistant","content":"好","metadata":{"hai":{"timestamp":5,"extra":{"k":1}},"x":2}}],"#,
            r#""tools":[],"context":[],"forwardedProps":{"a":12345678901234567890}}"#
        );
        let hai = translate_body(body, &AG_UI, &HAI);
        let expected = concat!(
            r#"{"threadId":"t","runId":"r","state":{"n":1.10},"messages":["#,
            r#"{"id":"1","role":"user","content":[{"type":"text","text":"看图"},{"type":"image","source":{"type":"url","value":"u"}}]},"#,
            r#"{"id":"3","role":"assistant","content":"好","timestamp":5,"extra":{"k":1,"ag-ui":{"metadata":{"x":2},"preceding":[{"id":"2","role":"reasoning","content":"想"}],"input":{"parentRunId":"p"}}}}],"#,
            r#""tools":[],"context":[],"forwardedProps":{"a":12345678901234567890}}"#
        );
        assert_eq!(hai, expected);
        let back: serde_json::Value = serde_json::from_str(&translate_body(&hai, &HAI, &AG_UI)).expect("JSON");
        let mut original: serde_json::Value = serde_json::from_str(body).expect("JSON");
        original["messages"][2]["metadata"] = serde_json::json!({"x":2,"hai":{"timestamp":5,"extra":{"k":1}}});
        assert_eq!(back, original);
    }

    /// Otherwise the agent would receive two threads, and the gates would have checked the other one.
    #[test]
    fn carried_members_do_not_replace_the_thread_the_run_or_the_messages() {
        let carried = r#"{"threadId":"other","runId":"other","messages":[],"parentRunId":"p"}"#;
        let rows = [
            format!(
                r#""messages":[{{"id":"1","role":"user","content":"x","extra":{{"ag-ui":{{"input":{carried}}}}}}}]"#
            ),
            format!(r#""messages":[{{"id":"1","role":"user","content":"x"}}],"extra":{{"ag-ui":{carried}}}"#),
        ];
        for row in rows {
            let body = format!(r#"{{"threadId":"t","runId":"r",{row}}}"#);
            let expected = concat!(
                r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","state":{},"messages":[{"id":"1","role":"user","content":"x"}],"#,
                r#""tools":[],"context":[],"forwardedProps":{},"parentRunId":"p"}"#
            );
            assert_eq!(translate_body(&body, &HAI, &AG_UI), expected);
        }
    }

    #[test]
    fn accepts_a_sparse_snake_case_hai_request() {
        let body = r#"{"thread_id":"t","messages":[{"id":"1","role":"user","content":"hi"}],"context":"in a car","forwarded_props":null}"#;
        assert_eq!(
            translate_body(body, &HAI, &AG_UI),
            concat!(
                r#"{"threadId":"t","runId":"r-new","protocolVersion":"1.0","state":{},"#,
                r#""messages":[{"id":"1","role":"user","content":"hi"}],"tools":[],"#,
                r#""context":[{"description":"context","value":"in a car"}],"forwardedProps":{}}"#
            )
        );
    }

    #[test]
    fn refusals_name_the_json_pointer() {
        let rows: &[(&[u8], &str, &str)] = &[
            (b"{", "", "not a JSON object: EOF"),
            (b"[]", "", "expected a JSON object"),
            (b"{} {}", "", "trailing characters at line 1 column 4"),
            (b"\xef\xbb\xbf{}", "", "byte order mark"),
            (b"{\"a\":\"\xff\"}", "", "not valid UTF-8 at byte 6"),
            (b"{}", "/messages", "is missing"),
            (b"{\"messages\":{}}", "/messages", "must be an array"),
            (b"{\"messages\":[1]}", "/messages/0", "must be an object"),
            (b"{\"messages\":[{\"id\":\"1\",\"role\":\"king\"}]}", "/messages/0/role", "`king`; it must be one of"),
            (b"{\"messages\":[{\"role\":\"user\"}]}", "/messages/0/id", "is missing"),
            (b"{\"messages\":[],\"threadId\":{}}", "/threadId", "must be a string"),
            (b"{\"messages\":[],\"tools\":{}}", "/tools", "must be an array"),
        ];
        for (body, pointer, reason) in rows {
            let refused = translate_request(body, PeerDialect::new(&AG_UI), PeerDialect::new(&HAI), &fresh_ids())
                .expect_err("refused");
            assert_eq!(refused.pointer, *pointer, "{refused}");
            assert!(refused.reason.contains(reason), "{refused}");
        }
    }
}
