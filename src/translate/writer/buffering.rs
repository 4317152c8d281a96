//! Events that must wait for later ones, or need others around them, before they are written.

use super::{EventWriter, OutputContext};
use crate::dialect::{CarryLocation, PeerDialect, PeerVersion, ReleasedEvent};
use crate::event::{Event, EventType, Field};
use crate::translate::sequencer::SequencerOutput;

/// Buffering on one side of a route.
#[derive(Clone, Copy, Debug)]
pub(super) enum BufferingMode {
    /// none: every event is written at once
    None,
    /// events that the dialect's adapter holds back
    Adapter,
    /// everything but the open item
    Sequenced,
    /// none, but thinking gets a span
    WrapSpans,
}

impl BufferingMode {
    pub(super) fn for_peer(side: PeerDialect) -> Self {
        match side.peer_version {
            _ if side.dialect.adapter.is_some() => BufferingMode::Adapter,
            PeerVersion::Any | PeerVersion::V0_1 | PeerVersion::V0_0_35 => BufferingMode::Sequenced,
            PeerVersion::V0_0_39 | PeerVersion::V0_0_42 => BufferingMode::WrapSpans,
            _ => BufferingMode::None,
        }
    }
}

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
        match self.buffering {
            BufferingMode::None => self.write_by_row(event, canonical_type, to),
            BufferingMode::Adapter => self.write_buffered(event, canonical_type, to),
            BufferingMode::Sequenced => self.write_sequenced(event, canonical_type, to),
            BufferingMode::WrapSpans => self.write_in_span(event, canonical_type, to),
        }
    }

    /// Thinking without ids is only accepted in spans.
    fn write_in_span(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        if !self.span_wrapper.admits(&event, self.peer) {
            return self.write_unsupported(event, canonical_type, to);
        }
        let (before, after) = self.span_wrapper.wrap_message(&event, self.peer);
        before.into_iter().for_each(|made| self.write_by_row(made, Some(""), to));
        self.write_by_row(event, canonical_type, to);
        after.into_iter().for_each(|made| self.write_by_row(made, Some(""), to));
    }

    fn write_sequenced(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        let mut sequence = std::mem::take(&mut self.sequencer);
        sequence.push(event, &mut |leaves| match leaves {
            SequencerOutput::AsIs(event) => self.write_in_span(event, canonical_type, to),
            SequencerOutput::Synthetic(event) => self.write_by_row(event, Some(""), to),
            SequencerOutput::AsCustom(event) => self.write_as_custom(event, to),
        });
        self.sequencer = sequence;
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
