//! Writes the bytes of an event, charges the budget and assigns the id.

use super::{EventWriter, OutputContext, RunStateLimit};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{proto, sse};
use crate::event::{Event, EventLoss, EventType};
use crate::translate::StreamError;
use crate::translate::repeated_frames::{FoundValues, RepeatedFrames};
use std::cell::Cell;

/// Bytes that are enough for most frames, so that they are written without growing a buffer.
const USUAL_FRAME: usize = 512;

/// Maximum capacity in bytes of the buffer that a thread keeps.
const MAX_SPARE: usize = 64 << 10;

thread_local! {
    /// The buffer of a frame while it is written. All streams of a thread share it, so that one that waits holds none.
    static SPARE: Cell<String> = const { Cell::new(String::new()) };
}

impl EventWriter {
    /// Keeps the frame that begins at `before` if it fits into the budget.
    pub(super) fn commit_frame(
        &mut self,
        label: usize,
        kind: EventType,
        before: usize,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        let length = to.out.len() - before;
        // The end of a run closes all that is open, and the rules of a file may make any number of events of a frame.
        if to.out.len() - to.frame_start > self.frame_limit && !to.is_final_error {
            to.out.truncate(before);
            return Err(StreamError::TooMuchState(RunStateLimit::WrittenEvent { limit: self.frame_limit }));
        }
        if !self.growth.take(length) && !to.is_final_error {
            to.out.truncate(before);
            return Err(StreamError::TooMuchState(RunStateLimit::Growth));
        }
        match self.budget.charge(length) {
            Err(limit) if !to.is_final_error => {
                to.out.truncate(before);
                return Err(StreamError::OverBudget(limit));
            }
            // An event that the adapter buffered before the error would follow a gap.
            Err(_) if kind != EventType::RunError => to.out.truncate(before),
            _ => {
                to.report.events_written.add(label);
                self.count_frame();
                self.last_label = label;
            }
        }
        Ok(())
    }

    fn count_frame(&mut self) {
        self.frames_written += 1;
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
        let labels = repeated.write(frame, found, to.out);
        let length = to.out.len() - before;
        let fits = self.budget.fits(length) && self.growth.take(length);
        if !fits || self.budget.charge(length).is_err() {
            to.out.truncate(before);
            return false;
        }
        to.report.events_read.add(labels.label_read);
        to.report.events_written.add(labels.label_written);
        self.count_frame();
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

    pub(super) fn write_frame(&self, out: &mut Vec<u8>, wire: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        let mut data = SPARE.take();
        data.reserve(USUAL_FRAME);
        let mut object = ObjectWriter::begin(&mut data);
        object.string_member(json::TYPE, wire);
        fill(&mut object);
        object.end();
        self.write_data(out, wire, &data);
        if data.capacity() <= MAX_SPARE {
            data.clear();
            SPARE.set(data);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sse::SseLimits;
    use crate::dialect::{AG_UI, HAI, PeerDialect};
    use crate::event::{Field, Json};
    use crate::translate::{EventCounts, RunIds, Stream, TranslationReport};

    #[test]
    fn withholds_a_frame_that_is_three_times_as_long_as_one_of_an_agent() {
        for dialect in [&AG_UI, &HAI] {
            let client = PeerDialect::new(dialect);
            let mut report =
                TranslationReport { events_written: EventCounts::new(100), ..TranslationReport::default() };
            let mut out = Vec::new();
            let mut write = |length: usize| {
                let mut writer = EventWriter::new(client, None, 1000);
                let mut to = OutputContext {
                    out: &mut out,
                    frame_start: 0,
                    report: &mut report,
                    now_ms: 0,
                    is_final_error: false,
                };
                let event = Event::new(EventType::Custom).with(Field::Name, Json::string("n"));
                writer.write_event(event.with(Field::Value, Json::string(&"x".repeat(length))), &mut to)
            };
            assert_eq!(write(2900), Ok(()));
            let limit = RunStateLimit::WrittenEvent { limit: 3000 };
            assert_eq!(write(3000), Err(StreamError::TooMuchState(limit)));
            assert!(out.len() < 3000, "{}", out.len());
        }
    }

    /// Each piece of a message has its id for a HAI client.
    #[test]
    fn a_run_that_grows_too_much_ends_at_the_same_frame_however_its_bytes_arrive() {
        let id = "x".repeat(64 << 10);
        let first = format!("data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"{id}\",\"delta\":\"a\"}}\n\n");
        let more = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"delta\":\"a\"}\n\n".repeat(1000);
        let body =
            "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n".to_owned() + &first + &more;
        let ends = [body.len(), 16 << 10, 48, 1].map(|piece| {
            let limits = SseLimits { frame: 1 << 20, ..SseLimits::default() };
            let (agent, client) = (PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
            let mut stream = Stream::new(agent, client, Some(RunIds::new("t", "r")), limits);
            let mut out = Vec::new();
            let pushed = body.as_bytes().chunks(piece).try_for_each(|piece| stream.push(piece, 0, &mut out));
            assert_eq!(pushed, Err(StreamError::TooMuchState(RunStateLimit::Growth)));
            out.len()
        });
        assert!(ends[0] > 3 << 20 && ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }

    #[test]
    fn the_end_of_a_run_becomes_no_more_than_another_frame() {
        let side = PeerDialect::new(&AG_UI);
        let limits = SseLimits { frame: 1 << 20, ..SseLimits::default() };
        let mut stream = Stream::new(side, side, Some(RunIds::new("t", "r")), limits);
        let mut push = |event: String| {
            let mut out = Vec::new();
            let pushed = stream.push(format!("data: {event}\n\n").as_bytes(), 0, &mut out);
            (pushed, out.len())
        };
        push(r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#.to_owned()).0.expect("a start");
        for id in 0..4 {
            let id = format!("{id}{}", "x".repeat(900 << 10));
            push(format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"{id}","role":"assistant"}}"#))
                .0
                .expect("a start");
        }
        let (pushed, length) = push(r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#.to_owned());
        assert_eq!(pushed, Err(StreamError::TooMuchState(RunStateLimit::WrittenEvent { limit: 3 << 20 })));
        assert!(length <= 3 << 20, "{length}");
    }
}
