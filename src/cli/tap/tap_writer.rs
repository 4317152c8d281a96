//! The formats of `tap`: text for people, JSON lines, and the event stream of one side.

use super::super::output::print_error;
use super::super::run_line::RunLine;
use super::super::terminal_text::{escape_json, escape_text};
use super::pair_text::{self, PairText};
use super::run_counts::RunCounts;
use super::tap_line::{RowLine, TapSide};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Bytes of runs that wait until the event stream of an earlier run has ended.
const WAITING_BYTES: usize = 64 << 20;

/// A run, by the number of its process and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunKey {
    pub(super) process: u32,
    pub(super) id: u64,
}

/// Writes what a tap selects.
#[derive(Debug)]
pub(super) enum TapWriter {
    Text(PairText),
    Json,
    Sse(FrameWriter),
}

impl TapWriter {
    /// Writes that a run began; `line` is what the gateway sent.
    pub(super) fn write_begin(&mut self, out: &mut dyn Write, run: &RunLine, line: &str) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => writeln!(out, "{}", text.format_begin(run)),
            TapWriter::Json => writeln!(out, "{}", escape_json(line)),
            TapWriter::Sse(_) => Ok(()),
        }
    }

    /// Writes a row of a run that had these repairs and losses before it.
    pub(super) fn write_row(
        &mut self,
        out: &mut dyn Write,
        key: RunKey,
        row: &RowLine,
        earlier: &RunCounts,
        line: &str,
    ) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => {
                text.format_row(key.id, row, earlier).iter().try_for_each(|line| writeln!(out, "{line}"))
            }
            TapWriter::Json => writeln!(out, "{}", escape_json(line)),
            TapWriter::Sse(frames) => frames.write_row(out, key, row),
        }
    }

    pub(super) fn write_end(
        &mut self,
        out: &mut dyn Write,
        key: RunKey,
        run: &RunLine,
        counts: &RunCounts,
        line: &str,
    ) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => text.format_end(run, counts).iter().try_for_each(|line| writeln!(out, "{line}")),
            TapWriter::Json => writeln!(out, "{}", escape_json(line)),
            TapWriter::Sse(frames) => frames.end_run(out, key),
        }
    }

    /// Writes that the gateway no longer keeps a run, of which the rows after `last_row` were not read.
    pub(super) fn write_gone(&mut self, out: &mut dyn Write, key: RunKey, last_row: u64, line: &str) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => writeln!(out, "{}", text.format_gone(key.id, last_row)),
            TapWriter::Json => writeln!(out, "{}", escape_json(line)),
            TapWriter::Sse(frames) => {
                print_error(pair_text::describe_gone(key.id, last_row));
                frames.end_run(out, key)
            }
        }
    }

    /// Writes that runs were evicted before they were read.
    pub(super) fn write_missed(&mut self, out: &mut dyn Write, runs: u64, line: &str) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => writeln!(out, "{}", text.format_missed(runs)),
            TapWriter::Json => writeln!(out, "{}", escape_json(line)),
            TapWriter::Sse(_) => {
                print_error(pair_text::describe_missed(runs));
                Ok(())
            }
        }
    }

    /// Writes that requests did not reach any route.
    pub(super) fn write_refusals(&mut self, out: &mut dyn Write, code: &str, count: u64) -> io::Result<()> {
        match self {
            TapWriter::Text(text) => writeln!(out, "{}", text.format_refusals(code, count)),
            TapWriter::Json | TapWriter::Sse(_) => Ok(()),
        }
    }
}

/// Writes the frames of one run after those of another: between each other they would be no stream of any client.
#[derive(Debug)]
pub(super) struct FrameWriter {
    side: TapSide,
    /// whether stdout is a terminal, which must not obey what an agent sends
    is_terminal: bool,
    /// the run that is written as it comes
    current: Option<RunKey>,
    waiting: BTreeMap<RunKey, BufferedRun>,
    waiting_bytes: usize,
    /// open runs that were too large to wait, so that they are left out
    skipped: BTreeSet<RunKey>,
}

#[derive(Debug, Default)]
struct BufferedRun {
    frames: Vec<u8>,
    is_ended: bool,
}

impl FrameWriter {
    pub(super) fn new(side: TapSide, is_terminal: bool) -> FrameWriter {
        FrameWriter {
            side,
            is_terminal,
            current: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            skipped: BTreeSet::new(),
        }
    }

    fn write_row(&mut self, out: &mut dyn Write, key: RunKey, row: &RowLine) -> io::Result<()> {
        if self.skipped.contains(&key) {
            return Ok(());
        }
        let frames = self.format_frames(row);
        if *self.current.get_or_insert(key) == key {
            return out.write_all(&frames);
        }
        let run = self.waiting.entry(key).or_default();
        if self.waiting_bytes + frames.len() > WAITING_BYTES {
            self.waiting_bytes -= run.frames.len();
            self.waiting.remove(&key);
            self.skipped.insert(key);
            print_error(format_args!(
                "run {} is left out: it does not fit into memory until an earlier run ends",
                key.id
            ));
            return Ok(());
        }
        self.waiting_bytes += frames.len();
        run.frames.extend_from_slice(&frames);
        Ok(())
    }

    fn end_run(&mut self, out: &mut dyn Write, key: RunKey) -> io::Result<()> {
        if self.skipped.remove(&key) {
            return Ok(());
        }
        if self.current != Some(key) {
            if let Some(run) = self.waiting.get_mut(&key) {
                run.is_ended = true;
            }
            return Ok(());
        }
        self.current = None;
        while let Some((key, run)) = self.waiting.pop_first() {
            self.waiting_bytes -= run.frames.len();
            out.write_all(&run.frames)?;
            if !run.is_ended {
                self.current = Some(key);
                break;
            }
        }
        Ok(())
    }

    fn format_frames(&self, row: &RowLine) -> Vec<u8> {
        let events = if self.side == TapSide::Agent { row.agent.as_slice() } else { &row.client };
        let mut frames = Vec::new();
        for event in events {
            let Some(data) = &event.data else { continue };
            let name = event.event_line.iter().map(|name| ("event: ", name.as_str()));
            for (field, line) in name.chain(data.split('\n').map(|line| ("data: ", line))) {
                frames.extend_from_slice(field.as_bytes());
                match self.is_terminal {
                    true => frames.extend_from_slice(escape_text(line).as_bytes()),
                    false => frames.extend_from_slice(line.as_bytes()),
                }
                frames.push(b'\n');
            }
            frames.push(b'\n');
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::super::tap_line::EventLine;
    use super::*;

    #[test]
    fn frames_draw_nothing_on_a_terminal_and_are_whole_on_a_pipe() {
        let data = Some("{\"a\":\"\u{9b}2J\"}".to_owned());
        let event = EventLine { data, event_line: Some("\x1b[2J".to_owned()), ..EventLine::default() };
        let row = RowLine { agent: Some(event), ..RowLine::default() };
        for (is_terminal, expected) in [
            (true, "event: ␛[2J\ndata: {\"a\":\"<U+009B>2J\"}\n\n"),
            (false, "event: \x1b[2J\ndata: {\"a\":\"\u{9b}2J\"}\n\n"),
        ] {
            let frames = FrameWriter::new(TapSide::Agent, is_terminal).format_frames(&row);
            assert_eq!(String::from_utf8_lossy(&frames), expected);
        }
    }

    #[test]
    fn event_streams_of_runs_do_not_mix() {
        let mut frames = FrameWriter::new(TapSide::Agent, false);
        let mut out = Vec::new();
        let key = |id| RunKey { process: 1, id };
        let row = |data: &str| {
            let event = EventLine { data: Some(data.to_owned()), ..EventLine::default() };
            RowLine { agent: Some(event), ..RowLine::default() }
        };
        for (id, data) in [(1, "a"), (2, "d"), (3, "f"), (1, "b\nc"), (2, "e")] {
            frames.write_row(&mut out, key(id), &row(data)).expect("memory");
        }
        for id in [2, 1, 3] {
            frames.end_run(&mut out, key(id)).expect("memory");
        }
        assert_eq!(String::from_utf8_lossy(&out), "data: a\n\ndata: b\ndata: c\n\ndata: d\n\ndata: e\n\ndata: f\n\n");
        assert_eq!((frames.waiting.len(), frames.waiting_bytes, frames.current), (0, 0, None));
    }
}
