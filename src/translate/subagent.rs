//! Subagents, for a dialect in which agents tell each other what to do: the start of one is shown as a message to it with its
//! one task, its end as the end of that message. The canonical events are noted beside what is shown.

use super::noted;
use super::write::Said;
use crate::codec::json;
use crate::dialect::{Step, collaboration as words};
use crate::event::{Event, Field, Json, Key, Kind, Members};
use crate::translate::carry;

/// Who asks where no subagent does: the agent itself.
const AGENT: &str = "agent";

/// The subagents of a run, by id.
#[derive(Debug, Default)]
pub(super) struct Subagents(Vec<(Json<'static>, Json<'static>)>);

impl Subagents {
    /// The events that show what a subagent does; the first notes the canonical event.
    pub fn show<'a>(&mut self, event: Event<'a>) -> Vec<(Step, Said<'a>)> {
        let text = |field| event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        let id = text(Field::SubagentRunId);
        let message = (Key::Known(Field::MessageId), id.clone());
        if event.kind != Kind::SubagentStarted {
            return vec![(Step::End, noted::write(event, Members::new(), vec![message]))];
        }
        let name = text(Field::Name);
        let parent = event.get(Field::ParentSubagentRunId);
        let parent = parent.and_then(|parent| self.0.iter().find(|(own, _)| own.same(parent)));
        let from = parent.map_or_else(|| Json::string(AGENT), |(_, name)| name.clone());
        let task = json::build(|object| {
            object.member(Field::Id.camel(), id.as_str());
            object.member(Field::Name.camel(), name.as_str());
        });
        let delta = json::build(|object| object.member(words::TASK, task.as_str()));
        self.0.push((id, name.clone()));
        let start = vec![message.clone(), (carry::own(words::FROM), from), (carry::own(words::TO), name)];
        let content = vec![message, (Key::Known(Field::Delta), delta)];
        vec![
            (Step::Start, noted::write(event, Members::new(), start)),
            (Step::Content, noted::show(Members::new(), content)),
        ]
    }
}
