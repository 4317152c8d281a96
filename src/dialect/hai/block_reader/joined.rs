//! Deltas that have several blocks, or one in an unusual form.

use super::BlockReader;
use crate::dialect::adapter::{CanonicalSink, UnreadableEvent};
use crate::dialect::carry;
use crate::dialect::hai::blocks::{REST, STRING};
use crate::dialect::hai::joined_blocks::parse_unusual_block;
use crate::event::{Event, Json, Members};

impl BlockReader {
    /// Reads the blocks of one delta, the first of which carries it.
    pub(super) fn read_blocks(
        &mut self,
        event: &Event<'_>,
        mut own: Members<'_>,
        delta: &Json<'_>,
        blocks: &[Json<'_>],
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        blocks.iter().enumerate().try_for_each(|(at, value)| {
            let mut own = std::mem::take(&mut own);
            match at {
                0 => own.push((carry::extension_key(STRING), delta.clone().into_owned())),
                _ => carry::add_note(&mut own, REST),
            }
            self.read_block(event.clone(), own, value, dialect, sink)
        })
    }

    pub(super) fn read_unusual_block(
        &mut self,
        event: &Event<'_>,
        own: Members<'_>,
        delta: &Json<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        let blocks = parse_unusual_block(delta).ok_or(UnreadableEvent)?;
        self.read_blocks(event, own, delta, &blocks, dialect, sink)
    }
}
