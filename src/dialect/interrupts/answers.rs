//! Answers to interrupts in a client's request, which become the `resume` of the next run.

use super::{ID, PREFIX};
use crate::codec::json;
use crate::dialect::interrupt_form::InterruptForm;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING, TOOL, USER};
use crate::event::{Field, IdMap, Json, MemberKey, Members, get, remove, set};

const INTERRUPT_ID: &str = "interruptId";
const STATUS: &str = "status";
const PAYLOAD: &str = "payload";
const RESOLVED: &str = "resolved";
const CANCELLED: &str = "cancelled";

/// Moves answers into `resume`, and removes the calls and messages that represent interrupts.
pub(crate) fn apply_answers(
    form: InterruptForm,
    members: &mut Members<'_>,
    messages: &mut Vec<MessageMembers<'static>>,
) {
    let mut entries = collect_answers(form, messages);
    if !entries.is_empty() {
        let before = remove(members, Field::Resume).map(Json::into_owned);
        let mut all: Vec<_> = before.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let known: IdMap<()> =
            all.iter().filter_map(|entry| Some((json::parse_member(entry, INTERRUPT_ID)?, ()))).collect();
        all.extend(entries.drain().filter(|(id, _)| !known.contains(id)).map(|(_, entry)| entry));
        set(members, MemberKey::Known(Field::Resume), json::to_array(&all));
    }
    let mut is_question_open = false;
    messages.retain_mut(|message| {
        if has_role(message, TOOL) {
            return get(message, Field::ToolCallId).and_then(interrupt_id).is_none();
        }
        if has_role(message, USER) && is_question_open {
            is_question_open = false;
            return false;
        }
        if has_role(message, ASSISTANT) {
            is_question_open = question_id(form, message).is_some();
            return !(is_question_open || (remove_interrupt_calls(message) && is_empty_message(message)));
        }
        true
    });
}

/// Returns the `resume` entries for the last run. If there is an answer or a message, unanswered interrupts are included,
/// because the agent waits for all of them.
///
/// Only answers after the assistant's last reply or call count; earlier ones belong to earlier runs.
fn collect_answers(form: InterruptForm, messages: &[MessageMembers<'_>]) -> IdMap<Json<'static>> {
    let is_visible = |message: &&MessageMembers<'_>| !has_role(message, ACTIVITY) && !has_role(message, REASONING);
    let visible: Vec<_> = messages.iter().filter(is_visible).collect();
    let since = visible.iter().rposition(|message| has_role(message, ASSISTANT)).map_or(0, |at| at + 1);
    let run = visible[..since].iter().rposition(|message| !has_role(message, ASSISTANT)).map_or(0, |at| at + 1);
    let mut entries = IdMap::default();
    for message in &visible[since..] {
        let id = get(message, Field::ToolCallId).filter(|_| has_role(message, TOOL)).and_then(interrupt_id);
        if let Some(id) = id {
            let resolved = resume_entry(&id, RESOLVED, answer_payload(message), get(message, Field::Metadata));
            // If there are several answers, the last one counts.
            entries.remove(&id);
            entries.insert(id, resolved);
        }
    }
    if let Some(reply) = visible[since..].iter().find(|message| has_role(message, USER)) {
        // A reply to several questions answers each of them.
        for id in last_questions(form, &visible[run..since]) {
            let resolved = resume_entry(&id, RESOLVED, answer_payload(reply), get(reply, Field::Metadata));
            entries.insert(id, resolved);
        }
    }
    if visible.len() > since {
        for id in visible[run..since].iter().flat_map(|message| interrupts_of_message(message)) {
            if !entries.contains(&id) {
                let cancelled = resume_entry(&id, CANCELLED, None, None);
                entries.insert(id, cancelled);
            }
        }
    }
    entries
}

/// Returns the interrupts of the questions at the end of a run.
fn last_questions(form: InterruptForm, run: &[&MessageMembers<'_>]) -> Vec<Json<'static>> {
    let mut ids: Vec<_> = run.iter().rev().map_while(|message| question_id(form, message)).collect();
    ids.reverse();
    ids
}

/// Returns the interrupt that a message asks for.
fn question_id(form: InterruptForm, message: &MessageMembers<'_>) -> Option<Json<'static>> {
    if form != InterruptForm::Message || get(message, Field::ToolCalls).is_some() || !has_role(message, ASSISTANT) {
        return None;
    }
    interrupt_id(get(message, Field::Id)?)
}

fn resume_entry(id: &Json<'_>, status: &str, payload: Option<Json<'_>>, metadata: Option<&Json<'_>>) -> Json<'static> {
    json::build_object(|object| {
        object.member(INTERRUPT_ID, id.as_str());
        object.string_member(STATUS, status);
        payload.iter().for_each(|payload| object.member(PAYLOAD, payload.as_str()));
        metadata.into_iter().for_each(|metadata| object.member(Field::Metadata.camel(), metadata.as_str()));
    })
}

/// Parses an answer, which is a string in these dialects but may contain JSON. The `"true"` of HAI's document becomes
/// `true`; a user who declines (`"false"`) has also answered. Null means no payload.
fn answer_payload(message: &MessageMembers<'_>) -> Option<Json<'static>> {
    let content = get(message, Field::Content)?;
    let meant = content.text().and_then(|text| json::parse_value(&text).map(Json::into_owned));
    Some(meant.unwrap_or_else(|| content.clone().into_owned())).filter(|payload| !payload.is_null())
}

fn interrupts_of_message(message: &MessageMembers<'_>) -> Vec<Json<'static>> {
    let calls = get(message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default();
    calls.iter().filter_map(interrupt_of_call).collect()
}

fn interrupt_of_call(call: &Json<'_>) -> Option<Json<'static>> {
    interrupt_id(&json::parse_member(call, ID)?)
}

fn interrupt_id(call: &Json<'_>) -> Option<Json<'static>> {
    let text = call.text()?;
    let id = text.strip_prefix(PREFIX)?;
    // Preserves escapes where possible.
    Some(match call.as_str().strip_prefix('"').and_then(|inner| inner.strip_prefix(PREFIX)) {
        Some(rest) => Json::from_trusted(format!("\"{rest}")),
        None => Json::string(id),
    })
}

/// Returns true if there were any.
fn remove_interrupt_calls(message: &mut MessageMembers<'static>) -> bool {
    let Some(calls) = get(message, Field::ToolCalls).cloned() else {
        return false;
    };
    let all = json::parse_elements(&calls).unwrap_or_default();
    let left: Vec<_> = all.iter().filter(|call| interrupt_of_call(call).is_none()).map(Json::as_borrowed).collect();
    if left.len() == all.len() {
        return false;
    }
    if left.is_empty() {
        remove(message, Field::ToolCalls);
    } else {
        set(message, MemberKey::Known(Field::ToolCalls), json::to_array(&left));
    }
    true
}

fn is_empty_message(message: &MessageMembers<'_>) -> bool {
    get(message, Field::ToolCalls).is_none()
        && get(message, Field::Content).is_none_or(|content| content.is_null() || content.is_str(""))
}

fn has_role(message: &MessageMembers<'_>, role: &str) -> bool {
    get(message, Field::Role).is_some_and(|own| own.is_str(role))
}
