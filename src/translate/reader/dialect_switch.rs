//! The switch of an agent whose dialect is detected.

use super::EventReader;
use crate::dialect::PeerDialect;
use crate::event::Event;
use crate::translate::report::{EventCounts, EventSink, TranslationReport};

impl EventReader {
    /// Switches to another dialect if the signs up to this frame indicate it more strongly than the one in use.
    pub(super) fn detect(&mut self, data: &str, sink: &mut impl EventSink) {
        let Some(detector) = &mut self.detector else { return };
        let Some(sign) = detector.inspect(data) else { return detector.keep(data) };
        sink.report().switch_dialect(sign);
        let detector = self.detector.take();
        let mut object_arguments = std::mem::take(&mut self.object_arguments);
        *self = EventReader::new(PeerDialect::new(sign.dialect), self.run_id.take());
        // Reads the kept events to rebuild the state of open messages and calls; they have already been emitted.
        let mut discarded = DiscardingSink(TranslationReport {
            events_read: EventCounts::new(sign.dialect.other_label_index() + 1),
            ..TranslationReport::default()
        });
        detector
            .iter()
            .flat_map(|detector| detector.kept_events())
            .for_each(|data| self.read_frame(None, data, &mut discarded));
        // Events that wait were not emitted. AG-UI's arguments are text, which waits for nothing.
        if sign.dialect.is_canonical() {
            object_arguments.finish(false, sign.dialect.name, sink);
        } else {
            self.object_arguments = object_arguments;
        }
        self.detector = detector.filter(|detector| !detector.is_settled());
        if let Some(detector) = &mut self.detector {
            detector.keep(data);
        }
    }
}

struct DiscardingSink(TranslationReport);

impl EventSink for DiscardingSink {
    fn emit(&mut self, _: Event<'_>) {}

    fn report(&mut self) -> &mut TranslationReport {
        &mut self.0
    }
}
