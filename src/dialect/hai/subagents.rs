//! Subagents as messages between agents. Notes hold the canonical events.
//!
//! ```text
//! SUBAGENT_STARTED    ──▶ the start of a message to it, and its only task {id, name}
//! SUBAGENT_FINISHED   ──▶ the end of that message
//! SUBAGENT_ERROR      ──▶ the task {id, name: "<name>: error: <message>", status: "error", error: {message, code}}, and the end
//! ```
//! A client of the seed shows a task by its id and name (§4.2), so an error is also in the name.

use super::collaboration::CollaborationStep;
use super::members::collaboration as words;
use super::placeholder;
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::event_parts::OutgoingEvent;
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, Members};

/// The sender's name if no subagent is active.
const ROOT_AGENT: &str = "agent";

/// The names of a run's subagents, by id.
#[derive(Debug, Default)]
pub(super) struct SubagentNames(IdMap<Json<'static>>);

impl SubagentNames {
    /// Returns the events for a subagent; one of them has the canonical event in a note.
    pub(crate) fn write_events<'a>(&mut self, event: Event<'a>) -> Vec<(CollaborationStep, OutgoingEvent<'a>)> {
        let id = event.get_or_empty(Field::SubagentRunId);
        let message = (MemberKey::Known(Field::MessageId), id.clone());
        if event.kind != EventType::SubagentStarted {
            let failed = (event.kind == EventType::SubagentError).then(|| self.failed_task(&id, &event));
            let content = failed.map(|task| {
                let delta = (MemberKey::Known(Field::Delta), task_delta(&task));
                (CollaborationStep::Content, placeholder::write_display_only(vec![message.clone(), delta]))
            });
            let end = placeholder::write_placeholder(event, Members::new(), vec![message]);
            return content.into_iter().chain([(CollaborationStep::End, end)]).collect();
        }
        let name = event.get_or_empty(Field::Name);
        let parent = event.get(Field::ParentSubagentRunId);
        let parent = parent.and_then(|parent| self.0.get(parent));
        let from = parent.map_or_else(|| Json::string(ROOT_AGENT), Json::clone);
        let task = json::build_object(|object| {
            object.member(Field::Id.camel(), id.as_str());
            object.member(Field::Name.camel(), name.as_str());
        });
        self.0.insert(id, name.clone());
        let start =
            vec![message.clone(), (carry::extension_key(words::FROM), from), (carry::extension_key(words::TO), name)];
        let content = vec![message, (MemberKey::Known(Field::Delta), task_delta(&task))];
        vec![
            (CollaborationStep::Start, placeholder::write_placeholder(event, Members::new(), start)),
            (CollaborationStep::Content, placeholder::write_display_only(content)),
        ]
    }

    /// Returns the task of a subagent that failed.
    fn failed_task(&self, id: &Json<'_>, event: &Event<'_>) -> Json<'static> {
        let [message, code] = [Field::Message, Field::Code].map(|field| event.get(field));
        let name = self.0.get(id).unwrap_or(id);
        let mut shown = format!("{}: {}", name.text().unwrap_or_default(), words::ERROR);
        if let Some(message) = message.and_then(Json::text).filter(|message| !message.is_empty()) {
            shown.push_str(": ");
            shown.push_str(&message);
        }
        let error = json::build_object(|object| {
            message.into_iter().for_each(|message| object.member(Field::Message.camel(), message.as_str()));
            code.into_iter().for_each(|code| object.member(Field::Code.camel(), code.as_str()));
        });
        json::build_object(|object| {
            object.member(Field::Id.camel(), id.as_str());
            object.member(Field::Name.camel(), Json::string(&shown).as_str());
            object.string_member(words::STATUS, words::ERROR);
            object.member(words::ERROR, error.as_str());
        })
    }
}

fn task_delta(task: &Json<'_>) -> Json<'static> {
    json::build_object(|object| object.member(words::TASK, task.as_str()))
}
