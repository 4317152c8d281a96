//! Writes the bytes of an event, charges the budget and assigns the id.

use super::{EventWriter, OutputContext};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{proto, sse};
use crate::event::{Event, EventLoss, EventType};

impl EventWriter {
    pub(super) fn commit_frame(&mut self, label: usize, kind: EventType, before: usize, to: &mut OutputContext<'_>) {
        if self.budget.admit(kind, to.out.len() - before) {
            to.report.events_written[label] += 1;
            if let Some(numbers) = &mut self.frame_ids {
                numbers.last_number += 1;
            }
        } else {
            to.out.truncate(before);
        }
    }

    pub(super) fn write_protobuf(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) {
        match proto::encode_frame(to.out, event.kind, &event.members) {
            Ok(proto::WireFidelity::Exact | proto::WireFidelity::Carried) => {}
            Ok(proto::WireFidelity::Lossy) => to.report.count_loss(EventLoss::Rounded),
            Err(proto::EventTooLarge) => self.is_full = true,
        }
    }

    pub(super) fn write_frame(&mut self, out: &mut Vec<u8>, wire: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.scratch.clear();
        let mut object = ObjectWriter::begin(&mut self.scratch);
        object.string_member(json::TYPE, wire);
        fill(&mut object);
        object.end();
        self.write_data(out, wire, &self.scratch);
    }

    /// Writes one frame. An event type that contains a line break is omitted from the `event:` line, and appears only
    /// in the data.
    pub(super) fn write_data(&self, out: &mut Vec<u8>, wire: &str, data: &str) {
        self.write_frame_id(out);
        if !self.peer.dialect.has_event_line || sse::write_frame_with(out, None, Some(wire), data).is_err() {
            sse::write_frame(out, data);
        }
    }

    pub(super) fn write_frame_id(&self, out: &mut Vec<u8>) {
        if let Some(numbers) = &self.frame_ids {
            sse::write_id(out, &numbers.token, numbers.last_number + 1);
        }
    }
}
