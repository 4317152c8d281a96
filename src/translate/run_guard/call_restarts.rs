//! Calls that start again while they are open ([`OpenArguments`](super::open_arguments::OpenArguments)).

use super::open_arguments::ArgumentsPiece;
use super::{EventConsumer, RunGuard};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field};
use crate::translate::report::TranslationReport;

impl RunGuard {
    /// Keeps a piece of arguments as it was copied.
    pub(crate) fn add_repeated_arguments(&mut self, piece: &str) -> usize {
        self.arguments.as_mut().map_or(0, |arguments| arguments.add(piece))
    }

    pub(crate) fn arguments_bytes(&self) -> usize {
        self.arguments.as_ref().map_or(0, |arguments| arguments.retained_bytes())
    }

    /// Returns the piece of arguments without what repeats those before its call's second start; another call starts
    /// before the piece if it belongs to one.
    pub(super) fn follow_restart<'a>(
        &mut self,
        mut event: Event<'a>,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) -> Option<Event<'a>> {
        let arguments =
            self.arguments.as_mut().filter(|own| own.has_restarts() && event.kind == EventType::ToolCallArgs);
        let Some(arguments) = arguments else { return Some(event) };
        match arguments.compare(&event) {
            None => {}
            Some(ArgumentsPiece::Repeated) => {
                report.count_loss(EventLoss::StrayBoundary);
                return None;
            }
            Some(ArgumentsPiece::Continues(text)) => event.set(Field::Delta, text),
            Some(ArgumentsPiece::Restarts { mut start, text }) => {
                event.set(Field::Delta, text);
                report.count_repair(EventRepair::CloserSupplied);
                let mut end = Event::new(EventType::ToolCallEnd);
                for field in [Field::ToolCallId, Field::SubagentRunId] {
                    event.get_owned(field).into_iter().for_each(|value| end.set(field, value));
                }
                self.admit_supplied(end, report, next);
                self.retained_bytes += self.conversation.client_ids.reopen_call(&mut start, &mut event, report);
                self.conversation.call_tracker.record_call(start.get(Field::ToolCallId));
                self.admit_supplied(start, report, next);
            }
        }
        Some(event)
    }
}
