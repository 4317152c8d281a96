//! Events that must wait for later ones, or need others around them, before they are written.

use super::{EventWriter, OutputContext};
use crate::dialect::{CarryLocation, ReleasedEvent};
use crate::event::{Event, EventType, Field};

impl EventWriter {
    pub(super) fn write_mapped(
        &mut self,
        mut event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) {
        if event.kind == EventType::Custom && self.restore_custom(&event, to) {
            return;
        }
        // Each hop declares its own protocol version.
        if event.kind == EventType::RunStarted && self.peer.dialect.carry_location == CarryLocation::Metadata {
            event.remove(Field::ProtocolVersion);
        }
        self.write_buffered(event, canonical_type, to);
    }

    fn write_buffered(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        let Some(adapter) = &mut self.adapter else { return self.write_by_row(event, canonical_type, to) };
        for released in adapter.buffer(event, canonical_type, to.now_ms) {
            match released {
                ReleasedEvent::ByRow { event, canonical_type } => self.write_by_row(event, canonical_type, to),
                ReleasedEvent::Complete { row, outgoing } => self.write_complete(row, outgoing, to),
                ReleasedEvent::AsCustom(event) => self.write_as_custom(event, to),
            }
        }
    }
}
