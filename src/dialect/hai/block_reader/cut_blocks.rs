//! Holds the pieces of blocks whose text is cut. If they turn out to be blocks, the event with the last piece carries
//! the others as empty texts; otherwise they are text.

use super::BlockReader;
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::carry;
use crate::dialect::hai::blocks::STRING;
use crate::dialect::hai::cut_block::{CutBlock, CutRead};
use crate::event::{Event, Field, Json, JsonType, Members};

impl BlockReader {
    /// Holds a string that may be a piece of a block's text.
    pub(super) fn read_cut_block<'a>(
        &mut self,
        event: Event<'a>,
        own: Members<'a>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> CutRead<'a> {
        if self.cut.as_ref().is_some_and(|cut| !cut.is_of(&event)) {
            self.release_cut_block(dialect, sink);
        }
        let text = event.get(Field::Delta).filter(|delta| delta.json_type() == JsonType::String).and_then(Json::text);
        let cut = text.and_then(|text| {
            let mut cut = self.cut.take().or_else(|| CutBlock::begin(&text, &event))?;
            cut.add_text(&text);
            Some(cut)
        });
        if let Some(mut cut) = cut {
            if let Some(blocks) = cut.parse_blocks() {
                self.carry_pieces(*cut, dialect);
                return CutRead::Completed(event, own, blocks);
            }
            if cut.must_wait() {
                cut.hold(event, own);
                self.cut = Some(cut);
                return CutRead::Held;
            }
            self.cut = Some(cut);
        }
        self.release_cut_block(dialect, sink);
        CutRead::Other(event, own)
    }

    fn carry_pieces(&mut self, cut: CutBlock, dialect: &str) {
        for (mut piece, mut own) in cut.into_pieces() {
            let string = piece.remove(Field::Delta).unwrap_or(Json::EMPTY_STRING);
            own.push((carry::extension_key(STRING), string));
            piece.set(Field::Delta, Json::EMPTY_STRING);
            carry::pack(&mut piece, dialect, own);
            self.push_pending(piece);
        }
    }

    /// Sends the held pieces as text.
    pub(super) fn release_cut_block(&mut self, dialect: &str, sink: &mut dyn CanonicalSink) {
        let Some(cut) = self.cut.take() else { return };
        self.uses_blocks.get_or_insert(false);
        for (event, own) in cut.into_pieces() {
            self.read_text(event, own, dialect, sink);
        }
    }
}
