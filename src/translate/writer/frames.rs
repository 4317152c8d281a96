//! Writes the bytes of an event, charges the budget and assigns the id.

use super::{EventWriter, OutputContext};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{proto, sse};
use crate::event::{Event, EventLoss, EventType};
use crate::translate::StreamError;
use crate::translate::repeated_frames::{FoundValues, RepeatedFrames};

/// Bytes that are enough for most frames, so that they are written without growing a buffer.
const USUAL_FRAME: usize = 512;

impl EventWriter {
    /// Keeps the frame that begins at `before` if it fits into the budget.
    pub(super) fn commit_frame(
        &mut self,
        label: usize,
        kind: EventType,
        before: usize,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        match self.budget.charge(to.out.len() - before) {
            Err(limit) if !to.is_final_error => {
                to.out.truncate(before);
                return Err(StreamError::OverBudget(limit));
            }
            // An event that the adapter buffered before the error would follow a gap.
            Err(_) if kind != EventType::RunError => to.out.truncate(before),
            _ => {
                to.report.events_written[label] += 1;
                self.count_frame(label);
            }
        }
        Ok(())
    }

    fn count_frame(&mut self, label: usize) {
        self.frames_written += 1;
        self.last_label = label;
        if let Some(numbers) = &mut self.frame_ids {
            numbers.last_number += 1;
        }
    }

    /// Writes a frame that repeats an earlier one, if it fits into the budget.
    pub(crate) fn write_repeated(
        &mut self,
        repeated: &RepeatedFrames,
        frame: &str,
        found: &FoundValues,
        to: &mut OutputContext<'_>,
    ) -> bool {
        let before = to.out.len();
        self.write_frame_id(to.out);
        let effect = repeated.write(frame, found, to.out);
        let length = to.out.len() - before;
        if !self.budget.fits(length) || self.budget.charge(length).is_err() {
            to.out.truncate(before);
            return false;
        }
        to.report.events_read[effect.label_read] += 1;
        to.report.events_written[effect.label_written] += 1;
        self.count_frame(effect.label_written);
        true
    }

    pub(super) fn write_protobuf(event: &Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        match proto::encode_frame(to.out, event.kind, &event.members) {
            Ok(proto::WireFidelity::Exact | proto::WireFidelity::Carried) => {}
            Ok(proto::WireFidelity::Lossy) => to.report.count_loss(EventLoss::Rounded),
            Err(proto::EventTooLarge) => {
                return Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit: proto::FRAME_LIMIT }));
            }
        }
        Ok(())
    }

    pub(super) fn write_frame(&mut self, out: &mut Vec<u8>, wire: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.scratch.clear();
        self.scratch.reserve(USUAL_FRAME);
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
