//! Blocks whose JSON text is cut over several strings. The client of the seed parses a message's whole content after
//! each delta (§3.3.1, §4.1), so it shows such a block when its last piece has come.

use super::joined_blocks::parse_joined_blocks;
use crate::dialect::memory_limits::{self, MIN_BUFFER_LIMIT};
use crate::event::{Event, Json, Members, into_owned_members, message_id};

/// The beginning of a block's text, without spaces.
const BLOCK_START: &str = "{\"output\":";

/// The pieces of a message's text that may become blocks.
#[derive(Debug)]
pub(super) struct CutBlock {
    message_id: Json<'static>,
    text: String,
    depth: JsonDepth,
    pieces: Vec<(Event<'static>, Members<'static>)>,
    pieces_cost: usize,
}

/// The meaning of a delta.
pub(super) enum CutRead<'a> {
    Held,
    /// a string, or an object, that continues no block
    Other(Event<'a>, Members<'a>),
    /// the last piece of a string, and the blocks of the whole
    Completed(Event<'a>, Members<'a>, Vec<Json<'static>>),
}

impl CutBlock {
    /// Begins with a string that is, or may become, the text of blocks.
    pub(super) fn begin(text: &str, event: &Event<'_>) -> Option<Box<CutBlock>> {
        let may_begin = text.trim_ascii_start().starts_with('{') && may_begin_block(text);
        may_begin.then(|| {
            Box::new(CutBlock {
                message_id: message_id(&event.members),
                text: String::new(),
                depth: JsonDepth::default(),
                pieces: Vec::new(),
                pieces_cost: 0,
            })
        })
    }

    pub(super) fn is_of(&self, event: &Event<'_>) -> bool {
        self.message_id == message_id(&event.members)
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.depth.read(text);
        self.text.push_str(text);
    }

    /// Returns true if the text so far is the beginning of blocks, and not too long.
    pub(super) fn must_wait(&self) -> bool {
        !self.depth.is_complete() && may_begin_block(&self.text) && self.held_bytes() < MIN_BUFFER_LIMIT
    }

    pub(super) fn hold(&mut self, event: Event<'_>, own: Members<'_>) {
        self.pieces_cost += memory_limits::event_cost(&event);
        self.pieces.push((event.into_owned(), into_owned_members(own)));
    }

    /// Returns the blocks, if the text has ended and comes from several strings.
    pub(super) fn parse_blocks(&self) -> Option<Vec<Json<'static>>> {
        let is_cut = self.depth.is_complete() && !self.pieces.is_empty();
        is_cut.then(|| parse_joined_blocks(&Json::string(&self.text)))?
    }

    pub(super) fn into_pieces(self) -> Vec<(Event<'static>, Members<'static>)> {
        self.pieces
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.pieces_cost + self.text.len()
    }
}

/// Returns true if a text begins as a block does, or is the beginning of such a text.
fn may_begin_block(text: &str) -> bool {
    let visible = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    visible.zip(BLOCK_START.bytes()).all(|(byte, expected)| byte == expected)
}

/// The place in a text of JSON values.
#[derive(Debug, Default)]
struct JsonDepth {
    open: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl JsonDepth {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.open += 1,
                b'}' | b']' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }

    const fn is_complete(&self) -> bool {
        self.open == 0 && !self.is_in_string
    }
}
