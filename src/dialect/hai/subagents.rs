//! Subagents as messages between agents: a subagent's start is shown as the start of a message to it, with a single
//! task, and its end as the end of that message. Notes hold the canonical events.

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
    /// Returns the events for a subagent; the first has the canonical event in a note.
    pub(crate) fn write_events<'a>(&mut self, event: Event<'a>) -> Vec<(CollaborationStep, OutgoingEvent<'a>)> {
        let id = event.get_or_empty(Field::SubagentRunId);
        let message = (MemberKey::Known(Field::MessageId), id.clone());
        if event.kind != EventType::SubagentStarted {
            return vec![(
                CollaborationStep::End,
                placeholder::write_placeholder(event, Members::new(), vec![message]),
            )];
        }
        let name = event.get_or_empty(Field::Name);
        let parent = event.get(Field::ParentSubagentRunId);
        let parent = parent.and_then(|parent| self.0.get(parent));
        let from = parent.map_or_else(|| Json::string(ROOT_AGENT), Json::clone);
        let task = json::build_object(|object| {
            object.member(Field::Id.camel(), id.as_str());
            object.member(Field::Name.camel(), name.as_str());
        });
        let delta = json::build_object(|object| object.member(words::TASK, task.as_str()));
        self.0.insert(id, name.clone());
        let start =
            vec![message.clone(), (carry::extension_key(words::FROM), from), (carry::extension_key(words::TO), name)];
        let content = vec![message, (MemberKey::Known(Field::Delta), delta)];
        vec![
            (CollaborationStep::Start, placeholder::write_placeholder(event, Members::new(), start)),
            (CollaborationStep::Content, placeholder::write_display_only(content)),
        ]
    }
}
