//! Answers to interrupts in a client's request, which become the `resume` of the next run.

use super::{ID, PREFIX, strip_prefix};
use crate::codec::json;
use crate::dialect::interrupt_form::InterruptForm;
use crate::event::input::{
    ACTIVITY, ASSISTANT, CANCELLED, INTERRUPT_ID, MessageMembers, PAYLOAD, REASONING, RESOLVED, STATUS, TOOL, USER,
    has_role,
};
use crate::event::{Field, IdMap, Json, MemberKey, Members, get, remove, set};
use std::collections::HashSet;

/// The answers that a request brings.
#[derive(Default)]
struct InterruptAnswers {
    /// of `resume`, by interrupt
    entries: IdMap<Json<'static>>,
    /// positions of the questions as text that end the last run, and of the reply to one of them
    message_positions: HashSet<usize>,
}

/// Moves answers into `resume`, and removes the calls and messages that represent interrupts; returns the ids of those.
pub(crate) fn apply_answers(
    form: InterruptForm,
    members: &mut Members<'_>,
    messages: &mut Vec<MessageMembers<'static>>,
) -> Vec<Json<'static>> {
    let question_ids = collect_question_ids(form, messages);
    let before = get(members, Field::Resume).cloned().map(Json::into_owned);
    let mut all: Vec<_> = before.as_ref().and_then(json::parse_elements).unwrap_or_default();
    let known: IdMap<()> =
        all.iter().filter_map(|entry| Some((json::parse_member(entry, INTERRUPT_ID)?, ()))).collect();
    let InterruptAnswers { mut entries, message_positions } = collect_answers(form, messages, &known);
    if !entries.is_empty() {
        remove(members, Field::Resume);
        all.extend(entries.drain().filter(|(id, _)| !known.contains(id)).map(|(_, entry)| entry));
        set(members, MemberKey::Known(Field::Resume), json::to_array(&all));
    }
    let mut positions = 0..;
    messages.retain_mut(|message| {
        if positions.next().is_some_and(|at| message_positions.contains(&at)) {
            return false;
        }
        if has_role(message, TOOL) {
            return get(message, Field::ToolCallId).and_then(interrupt_id).is_none();
        }
        !(has_role(message, ASSISTANT) && remove_interrupt_calls(message) && is_empty_message(message))
    });
    question_ids
}

/// Returns the interrupts of all runs, oldest first. A client may send the answer to a call without the call.
fn collect_question_ids(form: InterruptForm, messages: &[MessageMembers<'_>]) -> Vec<Json<'static>> {
    let mut question_ids: IdMap<()> = IdMap::default();
    for message in messages {
        let answered = get(message, Field::ToolCallId).filter(|_| has_role(message, TOOL)).and_then(interrupt_id);
        let ids = interrupts_of_message(message).into_iter().chain(answered).chain(question_id(form, message));
        for id in ids {
            question_ids.insert(id, ());
        }
    }
    question_ids.drain().map(|(id, ())| id).collect()
}

/// Returns the `resume` entries for the last run. If there is an answer or a message, unanswered interrupts are
/// included, because the agent waits for all of them. `known` has those that the request itself resumes.
///
/// Only answers after the assistant's last reply or call count; earlier ones belong to earlier runs.
fn collect_answers(form: InterruptForm, messages: &[MessageMembers<'_>], known: &IdMap<()>) -> InterruptAnswers {
    let is_visible =
        |(_, message): &(usize, &MessageMembers<'_>)| !has_role(message, ACTIVITY) && !has_role(message, REASONING);
    let visible: Vec<_> = messages.iter().enumerate().filter(is_visible).collect();
    let since = visible.iter().rposition(|(_, message)| has_role(message, ASSISTANT)).map_or(0, |at| at + 1);
    let run = visible[..since].iter().rposition(|(_, message)| !has_role(message, ASSISTANT)).map_or(0, |at| at + 1);
    let (run, after) = (&visible[run..since], &visible[since..]);
    let mut entries = IdMap::default();
    for (_, message) in after {
        let id = get(message, Field::ToolCallId).filter(|_| has_role(message, TOOL)).and_then(interrupt_id);
        if let Some(id) = id {
            let resolved = resume_entry(&id, RESOLVED, answer_payload(message), get(message, Field::Metadata));
            // If there are several answers, the last one counts.
            entries.remove(&id);
            entries.insert(id, resolved);
        }
    }
    let questions: Vec<_> =
        run.iter().rev().map_while(|(at, message)| Some((*at, question_id(form, message)?))).collect();
    let mut message_positions: HashSet<_> = questions.iter().map(|(at, _)| *at).collect();
    let last_open = questions.iter().map(|(_, id)| id).find(|id| !known.contains(id) && !entries.contains(id));
    let reply = after.iter().find(|(_, message)| has_role(message, USER));
    if let Some((id, (at, reply))) = last_open.zip(reply) {
        let resolved = resume_entry(id, RESOLVED, answer_payload(reply), get(reply, Field::Metadata));
        entries.insert(id.clone(), resolved);
        message_positions.insert(*at);
    }
    if !after.is_empty() {
        let calls = run.iter().flat_map(|(_, message)| interrupts_of_message(message));
        for id in calls.chain(questions.into_iter().rev().map(|(_, id)| id)) {
            if !entries.contains(&id) {
                let cancelled = resume_entry(&id, CANCELLED, None, None);
                entries.insert(id, cancelled);
            }
        }
    }
    InterruptAnswers { entries, message_positions }
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
    strip_prefix(call, PREFIX)
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
