//! A text that a frame with its first piece carried whole, and that the frames behind it repeat.

use super::BlockReader;
use crate::dialect::carry;
use crate::dialect::hai::blocks::WHOLE;
use crate::event::{Event, Json};

impl BlockReader {
    /// Takes the text of which a frame has the first piece, unless it is the text of another frame.
    pub(crate) fn take_whole(&mut self, event: &mut Event<'_>, first: &Json<'_>) -> Option<Json<'static>> {
        let whole = carry::take(&mut event.members, WHOLE)?.into_owned();
        let (text, first) = (whole.text()?, first.text()?);
        // Notes are external input, and must not hide what the frame says.
        if !text.starts_with(&*first) {
            return None;
        }
        self.repeated_until = first.len();
        self.whole_text = text.into_owned();
        Some(whole)
    }

    /// Skips the next piece of a text that was read whole. Returns `false` for any other text.
    pub(crate) fn skip_repeated(&mut self, text: &Json<'_>) -> bool {
        let is_next = |piece: &str| !piece.is_empty() && self.whole_text[self.repeated_until..].starts_with(piece);
        let Some(piece) = text.text().filter(|piece| is_next(piece)) else { return false };
        self.repeated_until += piece.len();
        if self.repeated_until == self.whole_text.len() {
            self.whole_text = String::new();
            self.repeated_until = 0;
        }
        true
    }
}
