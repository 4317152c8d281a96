//! The ids that the client has for the agent's messages and calls.

use super::call_ids::{CallIdMap, is_call_start};
use super::question_ids::QuestionIds;
use super::restored_ids::restore_event_ids;
use super::{IdUse, MessageIdMap};
use crate::event::input::MessageMembers;
use crate::event::{Event, EventType, Json};
use crate::translate::report::TranslationReport;
use serde_json::Value;

const CALLS: &str = "call_ids";
const QUESTIONS: &str = "question_ids";

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::translate) enum CallProgress {
    Started,
    Ended,
    Answered,
}

#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct ClientIds {
    messages: MessageIdMap,
    calls: CallIdMap,
    /// most conversations have no interrupts
    questions: Option<Box<QuestionIds>>,
}

impl ClientIds {
    /// Creates the ids from the messages before a run, whose metadata contains the original ones, and from the
    /// interrupts that the client's user was asked.
    pub(crate) fn from_messages(
        messages: &[MessageMembers<'_>],
        question_ids: &[Json<'_>],
        id_use: IdUse,
    ) -> ClientIds {
        let calls = CallIdMap::from_messages(messages, id_use.clone());
        let questions = (!question_ids.is_empty()).then(|| Box::new(QuestionIds::from_questions(question_ids)));
        ClientIds { messages: MessageIdMap::from_messages(messages, id_use), calls, questions }
    }

    /// Renames the ids of an event; returns about the bytes of the calls' ids that it keeps. `has_one_list` is true if
    /// the client keeps all kinds of messages in one list.
    pub(crate) fn apply(
        &mut self,
        event: &mut Event<'_>,
        has_one_list: bool,
        progress: impl Fn(&Json<'_>) -> Option<CallProgress>,
        report: &mut TranslationReport,
    ) -> usize {
        // First, since the ids of some messages are made of the agent's ids of calls.
        if has_one_list {
            self.messages.apply(event, report);
        } else {
            // Messages that an earlier hop renamed get their ids back.
            restore_event_ids(event);
        }
        if event.kind == EventType::RunFinished
            && let Some(questions) = &mut self.questions
        {
            questions.rename_interrupts(event, report);
        }
        let kept = if is_call_start(event) {
            // The end says that the client may make the call (seed 000 §3.3.2); AG-UI would add to it (specs §3.4).
            let repeats = event.kind == EventType::ToolCallStart && self.messages.id_use.may_repeat();
            let complete = if repeats { CallProgress::Ended } else { CallProgress::Answered };
            self.calls.end_complete(event, |call| progress(call) >= Some(complete))
        } else {
            None
        };
        // The message of a call that is complete is that of the call.
        let names_message = has_one_list && kept.is_none() && self.messages.id_use.may_repeat();
        kept.unwrap_or_default() + self.calls.apply(event, names_message, report)
    }

    /// Renames the message of a content event whose missing start the guard adds.
    pub(crate) fn apply_opened(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        self.messages.apply_opened(event, report);
    }

    /// Begins another call with arguments that come behind the result of theirs; `start` is the added start.
    pub(crate) fn reopen_call(
        &mut self,
        start: &mut Event<'_>,
        piece: &mut Event<'_>,
        report: &mut TranslationReport,
    ) -> usize {
        self.calls.reopen(start, piece, report)
    }

    /// Renames the parent of an added start, whose call already has the client's id.
    pub(crate) fn apply_opener(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        self.messages.apply(event, report);
    }

    /// Returns about the bytes that it has allocated.
    pub(crate) fn heap_size(&self) -> usize {
        self.messages.heap_size()
            + self.calls.0.heap_size()
            + self.questions.as_ref().map_or(0, |questions| size_of::<QuestionIds>() + questions.0.heap_size())
    }

    /// Returns the ids as JSON, for recordings.
    pub(crate) fn to_recorded(&self) -> Value {
        let mut recorded = self.messages.to_recorded();
        recorded[CALLS] = self.calls.0.to_recorded();
        if let Some(questions) = &self.questions {
            recorded[QUESTIONS] = questions.0.to_recorded();
        }
        recorded
    }

    /// Reads what [`ClientIds::to_recorded`] returned, or before the ids of calls and questions were recorded.
    pub(crate) fn from_recorded(recorded: &Value) -> Option<ClientIds> {
        let calls = CallIdMap(match &recorded[CALLS] {
            Value::Null => MessageIdMap::default(),
            ids => MessageIdMap::from_recorded(ids)?,
        });
        let questions = match &recorded[QUESTIONS] {
            Value::Null => None,
            ids => Some(Box::new(QuestionIds(MessageIdMap::from_recorded(ids)?))),
        };
        Some(ClientIds { messages: MessageIdMap::from_recorded(recorded)?, calls, questions })
    }
}
