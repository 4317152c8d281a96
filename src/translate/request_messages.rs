//! Reads and checks the messages of a request, with those that earlier translations carried.
//!
//! Clients can change carried data, so it passes the same checks as the rest of the request.

use super::list_budget::{ListBudget, TooManyElements};
use super::request_refusal::{RequestRefusal, refuse};
use super::{aliases, message, value_aliases};
use crate::codec::json;
use crate::dialect::{AG_UI, PeerDialect};
use crate::event::input::MessageMembers;
use crate::event::{Field, Json, JsonType, MemberKey, Members, find_member, get, remove};

pub(crate) const MESSAGES_LIMIT: usize = 10_000;

/// Carries the messages whose role the agent's dialect lacks, on a request that has no others.
pub(super) const INPUT_MESSAGES: &str = "$messages";

/// A fault of a message, and the member that has it.
struct MessageFault {
    field: Field,
    reason: String,
}

const CHECKED_IN_MESSAGES: [Field; 4] = [Field::Id, Field::Role, Field::ToolCalls, Field::ToolCallId];

/// Reads the messages of a request.
///
/// # Errors
/// Fails if there is no list of messages, or if one cannot be read.
pub(super) fn read_messages(
    members: &mut Members<'_>,
    client: PeerDialect,
    lists: &mut ListBudget,
) -> Result<Vec<MessageMembers<'static>>, RequestRefusal> {
    let Some(list) = remove(members, Field::Messages) else {
        return refuse("/messages", "is missing; it must be an array of messages");
    };
    let elements = parse_list(&list, "/messages")?;
    let mut messages = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        let place = format!("/messages/{at}");
        let Some(mut message) = json::parse_message(element) else {
            return refuse(place, "must be an object");
        };
        aliases::read_field_names(client.dialect.field_aliases, &mut message);
        message.retain(|(_, value)| !value.is_null());
        supply_result_id(&mut message);
        refuse_lookalikes(&message, &CHECKED_IN_MESSAGES, &place)?;
        check_message(&message, client).map_err(|fault| refusal(&place, fault))?;
        let mut read = *lists;
        read.take_message(&message).map_err(|excess| refuse_excess(&place, excess))?;
        let carries_more = check_carried_messages(&message, client, &place, read)?;
        let first = messages.len();
        message::read(message, client, &mut messages);
        if carries_more {
            // Carried members replace those that were checked.
            for message in &messages[first..] {
                check_message(message, canonical_side()).map_err(|fault| refusal(&place, fault))?;
            }
        }
        // As read: a text may hold parts, and carried members may be lists.
        for message in &messages[first..] {
            lists.take_message(message).map_err(|excess| refuse_excess(&place, excess))?;
        }
        if messages.len() > MESSAGES_LIMIT {
            return refuse(place, format!("is, with what it carries, beyond the limit of {MESSAGES_LIMIT} messages"));
        }
    }
    if let Some(adapter) = client.dialect.message_adapter {
        adapter.separate_parts(&mut messages, client.dialect.name);
    }
    Ok(messages)
}

/// Reads the messages that a request without others carries.
///
/// # Errors
/// Fails if one of them cannot be read.
pub(super) fn read_input_messages(
    list: &Json<'_>,
    place: &str,
    lists: &mut ListBudget,
) -> Result<Vec<MessageMembers<'static>>, RequestRefusal> {
    let mut messages = Vec::new();
    for (at, element) in parse_list(list, place)?.iter().enumerate() {
        let message = parse_canonical(element, &format!("{place}/{at}"), lists)?;
        messages.push(crate::event::into_owned_members(message));
    }
    Ok(messages)
}

/// Refuses a member whose name differs from one of these only in case: agents that ignore case (Go's encoding/json)
/// would read it in place of the one that was checked.
pub(super) fn refuse_lookalikes(members: &Members<'_>, fields: &[Field], place: &str) -> Result<(), RequestRefusal> {
    for (key, _) in members {
        let MemberKey::Other(name) = key else { continue };
        // Of the letters outside ASCII, Go folds U+017F and U+212A.
        let folded = name.to_uppercase().replace('\u{212A}', "K");
        if fields.iter().any(|field| folded == field.camel().to_uppercase() || folded == field.snake().to_uppercase()) {
            return refuse(format!("{place}/{name}"), "differs only in case from a member that is checked");
        }
    }
    Ok(())
}

fn parse_list<'a>(list: &'a Json<'_>, place: &str) -> Result<Vec<Json<'a>>, RequestRefusal> {
    match json::parse_first_elements(list, MESSAGES_LIMIT) {
        Some((elements, count)) if count <= MESSAGES_LIMIT => Ok(elements),
        Some((_, count)) => refuse(place, format!("has {count} messages; at most {MESSAGES_LIMIT} are taken")),
        None => refuse(place, "must be an array of messages"),
    }
}

fn parse_canonical<'a>(
    element: &'a Json<'_>,
    place: &str,
    lists: &mut ListBudget,
) -> Result<Members<'a>, RequestRefusal> {
    let Some(message) = json::parse_message(element) else {
        return refuse(place, "must be an object");
    };
    check_message(&message, canonical_side()).map_err(|fault| refusal(place, fault))?;
    lists.take_message(&message).map_err(|excess| refuse_excess(place, excess))?;
    Ok(message)
}

/// Checks the messages before and after a message that it carries; returns true if it carries anything.
fn check_carried_messages(
    message: &Members<'_>,
    client: PeerDialect,
    place: &str,
    mut lists: ListBudget,
) -> Result<bool, RequestRefusal> {
    let Some((member, key)) = client.dialect.carry_location.carry_member() else {
        return Ok(false);
    };
    let Some(carried) = find_member(message, member).and_then(|extra| json::parse_member(extra, key)) else {
        return Ok(false);
    };
    for name in [message::PRECEDING, message::FOLLOWING] {
        let place = format!("{place}/{member}/{key}/{name}");
        if let Some(list) = json::parse_member(&carried, name) {
            for (at, element) in parse_list(&list, &place)?.iter().enumerate() {
                parse_canonical(element, &format!("{place}/{at}"), &mut lists)?;
            }
        }
    }
    Ok(true)
}

fn refusal(place: &str, fault: MessageFault) -> RequestRefusal {
    RequestRefusal::malformed(format!("{place}/{}", fault.field.camel()), fault.reason)
}

/// Refuses the list at or in `place` with which a request has too many elements.
pub(super) fn refuse_excess(place: &str, excess: TooManyElements) -> RequestRefusal {
    let list = excess.list.map_or_else(String::new, |list| format!("/{}", list.camel()));
    RequestRefusal::malformed(format!("{place}{list}"), excess.to_string())
}

/// Carried messages have the form of AG-UI, whatever the client's dialect is.
fn canonical_side() -> PeerDialect {
    PeerDialect::new(&AG_UI)
}

fn check_message(message: &Members<'_>, side: PeerDialect) -> Result<(), MessageFault> {
    let roles = side.dialect.message.roles;
    let fault = |field, reason: String| Err(MessageFault { field, reason });
    match get(message, Field::Role).map(|role| (role.json_type(), role.text())) {
        None => return fault(Field::Role, format!("is missing; it must be one of {}", roles.join(", "))),
        Some((_, Some(role))) if roles.contains(&value_aliases::canonical_role(side, &role)) => {}
        Some((_, role)) => {
            let found = role.map_or_else(|| "not a string".to_owned(), |role| format!("`{}`", shorten(&role)));
            return fault(Field::Role, format!("is {found}; it must be one of {}", roles.join(", ")));
        }
    }
    for field in [Field::Id, Field::ToolCallId] {
        match get(message, field).map(Json::json_type) {
            Some(JsonType::String) => {}
            None if field != Field::Id => {}
            None => return fault(field, "is missing; every message needs an id".to_owned()),
            Some(_) => return fault(field, "must be a string".to_owned()),
        }
    }
    if get(message, Field::ToolCalls).is_some_and(|calls| calls.json_type() != JsonType::Array) {
        return fault(Field::ToolCalls, "must be an array".to_owned());
    }
    Ok(())
}

/// Gives a tool message without an id the id that its result has in the stream (seed 003, 用户确认).
fn supply_result_id(message: &mut Members<'_>) {
    if get(message, Field::Id).is_none()
        && let Some(call) = get(message, Field::ToolCallId).filter(|call| call.json_type() == JsonType::String)
    {
        let id = super::tool_result_id(call);
        message.insert(0, (MemberKey::Known(Field::Id), id));
    }
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use crate::dialect::{HAI, PeerDialect};
    use crate::translate::{AllowedTools, RunIds, request};

    fn refusal_of(messages: &str) -> String {
        let body = format!(r#"{{"threadId":"t","runId":"r","messages":[{messages}]}}"#);
        let (side, ids) = (PeerDialect::new(&HAI), RunIds::new("t-new", "r-new"));
        let tools = AllowedTools::new(["f"]);
        let refused = request::translate_with_tools(body.as_bytes(), side, side, &ids, Some(&tools));
        refused.expect_err("refused").to_string()
    }

    fn message_with(carried: &str) -> String {
        format!(r#"{{"id":"1","role":"user","content":"x","extra":{{"ag-ui":{{{carried}}}}}}}"#)
    }

    #[test]
    fn counts_carried_messages_with_the_others() {
        let list = |count: usize| vec![r#"{"id":"0","role":"system","content":""}"#; count].join(",");
        let carried = |count: usize| message_with(&format!(r#""preceding":[{}]"#, list(count)));
        assert_eq!(
            refusal_of(&carried(10_001)),
            "/messages/0/extra/ag-ui/preceding: has 10001 messages; at most 10000 are taken"
        );
        assert_eq!(
            refusal_of(&format!("{},{}", carried(6_000), carried(6_000))),
            "/messages/1: is, with what it carries, beyond the limit of 10000 messages"
        );
    }

    #[test]
    fn checks_carried_tools_and_calls_as_any_others() {
        let call = r#"[{"id":"c","type":"function","function":{"name":"f","name":"g","arguments":"{}"}}]"#;
        let carried = format!(r#""preceding":[{{"id":"0","role":"assistant","tool_calls":{call}}}]"#);
        let rows = [
            (carried, "/messages/0/toolCalls/0/function/name: occurs twice"),
            (
                format!(r#""role":"assistant","tool_calls":{call}"#),
                "/messages/0/toolCalls/0/function/name: occurs twice",
            ),
            (r#""input":{"tools":[{"name":"g"}]}"#.to_owned(), "/tools/0/name: the tool `g` is not allowed"),
        ];
        for (carried, reason) in rows {
            let refused = refusal_of(&message_with(&carried));
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}
