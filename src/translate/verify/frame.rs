//! Splits frames as the real client does, or by the standard, and tracks the line on which their data begins.
//!
//! The client recognizes one separator, two line feeds, and reads lines that begin with `data:` (`specs/ag-ui-1.0.md`
//! §4.2). The gateway reads every dialect by the standard ([`SseDecoder`]), so other dialects are read that way here.

use crate::codec::sse::{self, SseDecoder, SseStep};
use std::borrow::Cow;

/// Maximum UTF-16 code units per frame. The client fails when its unparsed buffer is longer.
const FRAME_LIMIT: u64 = 10 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";
const SEPARATOR: &[u8] = b"\n\n";

/// A frame as split by the client.
#[derive(Debug)]
pub(super) struct ClientBlock {
    pub(crate) text: String,
    pub(crate) line: u64,
    /// false for a final block without a separator
    pub(crate) is_terminated: bool,
}

/// A frame exceeds the client's limit, so the rest cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockTooLarge;

#[derive(Debug)]
pub(super) struct BlockSplitter {
    tail: Vec<u8>,
    /// bytes already searched, and their length in UTF-16 code units
    searched: usize,
    units: u64,
    line: u64,
    may_have_bom: bool,
}

impl Default for BlockSplitter {
    fn default() -> Self {
        BlockSplitter { tail: Vec::new(), searched: 0, units: 0, line: 1, may_have_bom: true }
    }
}

impl BlockSplitter {
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(ClientBlock)) -> Result<(), BlockTooLarge> {
        self.tail.extend_from_slice(bytes);
        if self.may_have_bom && self.tail.len() >= BOM.len() {
            self.may_have_bom = false;
            if self.tail.starts_with(BOM) {
                self.tail.drain(..BOM.len());
            }
        }
        if self.may_have_bom {
            return Ok(());
        }
        let mut from = 0;
        // A separator may straddle the end of the searched part.
        while let Some(at) = memchr::memmem::find(&self.tail[self.searched.saturating_sub(1).max(from)..], SEPARATOR)
            .map(|at| at + self.searched.saturating_sub(1).max(from))
        {
            self.count_units(from.max(self.searched), at)?;
            let block = self.take_block(from, at, true);
            self.line += count_lines(&self.tail[from..at + SEPARATOR.len()]);
            from = at + SEPARATOR.len();
            self.searched = from;
            self.units = 0;
            each(block);
        }
        self.count_units(from.max(self.searched), self.tail.len())?;
        self.tail.drain(..from);
        self.searched = self.tail.len();
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Option<ClientBlock> {
        self.may_have_bom = false;
        let all = self.tail.len();
        (all > 0).then(|| self.take_block(0, all, false))
    }

    /// Discards the unfinished block; returns the line after it.
    pub(crate) fn skip_partial(&mut self) -> u64 {
        self.line += count_lines(&self.tail);
        self.tail.clear();
        self.searched = 0;
        self.units = 0;
        self.may_have_bom = false;
        self.line
    }

    pub(crate) fn current_line(&self) -> u64 {
        self.line
    }

    fn take_block(&self, from: usize, to: usize, ended: bool) -> ClientBlock {
        ClientBlock {
            text: String::from_utf8_lossy(&self.tail[from..to]).into_owned(),
            line: self.line,
            is_terminated: ended,
        }
    }

    /// Adds UTF-16 code units: two for a four-byte character, one for any other.
    fn count_units(&mut self, from: usize, to: usize) -> Result<(), BlockTooLarge> {
        let bytes = self.tail.get(from..to).unwrap_or_default();
        let units = bytes.iter().map(|byte| u64::from(byte & 0xC0 != 0x80) + u64::from(*byte >= 0xF0)).sum::<u64>();
        self.units += units;
        if self.units > FRAME_LIMIT { Err(BlockTooLarge) } else { Ok(()) }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Returns the data as the client reads it, the line of the first `data:`, and the number of such lines.
pub(super) fn block_data(block: &ClientBlock) -> Option<(Cow<'_, str>, u64, usize)> {
    let mut first = None;
    let mut count = 0;
    let mut joined: Cow<'_, str> = Cow::Borrowed("");
    for (at, line) in block.text.split('\n').enumerate() {
        let Some(value) = line.strip_prefix("data:") else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        count += 1;
        if first.is_none() {
            first = Some(block.line + at as u64);
            joined = Cow::Borrowed(value);
        } else {
            let joined = joined.to_mut();
            joined.push('\n');
            joined.push_str(value);
        }
    }
    first.map(|line| (joined, line, count))
}

/// Returns the name of a block's event, which the client does not read, by the standard.
pub(super) fn block_event(block: &ClientBlock) -> Option<String> {
    if !block.text.contains("event") {
        return None;
    }
    let text = [block.text.as_bytes(), SEPARATOR].concat();
    match SseDecoder::default().next(&mut &text[..]) {
        SseStep::Frame(frame) => frame.event.map(Cow::into_owned),
        SseStep::More | SseStep::Failed(_) => None,
    }
}

/// A frame as the standard has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitFrame<'f> {
    pub(crate) event_line: Option<&'f str>,
    pub(crate) data: &'f str,
    pub(crate) line: u64,
}

impl<'f> SplitFrame<'f> {
    pub(crate) const fn from_data(data: &'f str, line: u64) -> Self {
        SplitFrame { event_line: None, data, line }
    }
}

/// Splits a stream by the standard, tracking the line of each frame.
#[derive(Debug)]
pub(super) struct StandardSplitter {
    decoder: SseDecoder,
    line: u64,
    /// line of the first `data` in the unfinished frame
    data_line: Option<u64>,
    line_prefix: Vec<u8>,
    /// lines with a byte order mark, which are dropped
    marked_lines: Vec<u64>,
}

impl StandardSplitter {
    pub(crate) fn from_line(line: u64) -> Self {
        StandardSplitter {
            decoder: SseDecoder::default(),
            line,
            data_line: None,
            line_prefix: Vec::new(),
            marked_lines: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(SplitFrame<'_>)) -> Result<(), BlockTooLarge> {
        // A lone carriage return also ends a line, but editors do not count it.
        for mut part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let room = b"data".len() - self.line_prefix.len().min(b"data".len());
            self.line_prefix.extend(part.iter().take(room));
            if self.line_prefix.starts_with(b"data") {
                self.data_line.get_or_insert(self.line);
            }
            let end = part.last().copied();
            loop {
                match self.decoder.next(&mut part) {
                    SseStep::More => break,
                    SseStep::Frame(frame) => {
                        let line = self.data_line.take().unwrap_or(self.line);
                        each(SplitFrame { event_line: frame.event.as_deref(), data: &frame.data, line });
                    }
                    SseStep::Failed(sse::SseError::LineTooLong { .. } | sse::SseError::FrameTooLarge { .. }) => {
                        return Err(BlockTooLarge);
                    }
                }
            }
            self.note_marked_line();
            if let Some(b'\n' | b'\r') = end {
                self.line_prefix.clear();
                self.line += u64::from(end == Some(b'\n'));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, each: &mut impl FnMut(SplitFrame<'_>)) {
        while let SseStep::Frame(frame) = self.decoder.finish() {
            let line = self.data_line.take().unwrap_or(self.line);
            each(SplitFrame { event_line: frame.event.as_deref(), data: &frame.data, line });
        }
        self.note_marked_line();
    }

    fn note_marked_line(&mut self) {
        if self.decoder.take_marked_lines() > 0 {
            self.marked_lines.push(self.line);
        }
    }

    pub(crate) fn take_marked_lines(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.marked_lines)
    }

    pub(crate) fn current_line(&self) -> u64 {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_at_split(input: &[u8], at: usize) -> Vec<(String, u64, bool)> {
        let mut blocks = BlockSplitter::default();
        let mut out = Vec::new();
        for piece in [&input[..at], &input[at..]] {
            blocks.push(piece, &mut |block| out.push((block.text, block.line, block.is_terminated))).expect("small");
        }
        out.extend(blocks.finish().map(|block| (block.text, block.line, block.is_terminated)));
        out
    }

    #[test]
    fn separates_blocks_at_two_line_feeds_at_every_split() {
        type Row<'r> = (&'r str, &'r [(&'r str, u64, bool)]);
        let rows: &[Row<'_>] = &[
            ("data: 1\n\ndata: 2\n\n", &[("data: 1", 1, true), ("data: 2", 3, true)]),
            ("a\n\n\nb", &[("a", 1, true), ("\nb", 3, false)]),
            ("a\r\n\r\nb\n\n", &[("a\r\n\r\nb", 1, true)]),
            ("\u{feff}data: 1", &[("data: 1", 1, false)]),
            ("\u{feff}", &[]),
            ("x", &[("x", 1, false)]),
        ];
        for (input, expected) in rows {
            for at in 0..=input.len() {
                let got = blocks_at_split(input.as_bytes(), at);
                let got: Vec<_> = got.iter().map(|(text, line, ended)| (text.as_str(), *line, *ended)).collect();
                assert_eq!(got, *expected, "{input:?} at {at}");
            }
        }
    }

    #[test]
    fn joins_the_data_lines_of_a_block_like_the_client() {
        let rows = [
            ("data: {\nid: 1\ndata:}", Some(("{\n}", 1, 2))),
            (": comment\nevent: error\ndata:  x", Some((" x", 3, 1))),
            ("Data: x\n data: y", None),
            ("data:", Some(("", 1, 1))),
        ];
        for (text, expected) in rows {
            let block = ClientBlock { text: text.to_owned(), line: 1, is_terminated: true };
            let got = block_data(&block);
            assert_eq!(got.as_ref().map(|(text, line, count)| (&**text, *line, *count)), expected, "{text:?}");
        }
    }

    #[test]
    fn names_the_event_of_a_block_by_the_standard() {
        let rows = [
            ("event: a\nevent:  b\ndata: 1", Some(" b")),
            ("event: a\nevent:\ndata: 1", None),
            ("data: 1\nevent", None),
            ("data: event: a", None),
        ];
        for (text, expected) in rows {
            let block = ClientBlock { text: text.to_owned(), line: 1, is_terminated: true };
            assert_eq!(block_event(&block).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn reports_a_block_over_the_limit() {
        let mut blocks = BlockSplitter::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..10 {
            assert_eq!(blocks.push(&piece, &mut |_| ()), Ok(()));
        }
        assert_eq!(blocks.push(b"x", &mut |_| ()), Err(BlockTooLarge));
    }

    #[test]
    fn counts_lines_in_standard_framing_too() {
        let input = ": hi\r\nevent: x\r\ndata: 1\r\n\r\nid: 7\r\ndata: 2\r\n\r\ndata: 3";
        for at in 0..=input.len() {
            let mut frames = StandardSplitter::from_line(1);
            let mut out = Vec::new();
            let mut each = |frame: SplitFrame<'_>| out.push((frame.data.to_owned(), frame.line));
            for piece in [&input[..at], &input[at..]] {
                frames.push(piece.as_bytes(), &mut each).expect("small");
            }
            frames.finish(&mut each);
            assert_eq!(out, [("1".to_owned(), 3), ("2".to_owned(), 6), ("3".to_owned(), 8)], "at {at}");
        }
    }
}
