//! Recordings of `diglot record` as input: recognised by their first bytes, wherever a stream or a request may be.

use super::input::IoFailure;
use crate::inspect::{RECORDING_START, RecordedRun, RecordingLine, RecordingLines};
use std::io::{self, BufReader, Cursor, Read};

/// An input whose first bytes have been read.
pub(super) struct PeekedInput<'r> {
    pub(super) is_recording: bool,
    /// all bytes, with the first ones
    pub(super) reader: Box<dyn Read + 'r>,
}

/// Reads as many bytes as it takes to tell a recording from anything else.
pub(super) fn peek<'r>(mut input: impl Read + 'r) -> Result<PeekedInput<'r>, IoFailure> {
    let mut first = Vec::new();
    let mut byte = [0];
    // A byte at a time: a stream that is still being written must not be waited for.
    while first.len() < RECORDING_START.len() && RECORDING_START.starts_with(&first) {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => first.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(IoFailure::Input(error)),
        }
    }
    Ok(PeekedInput { is_recording: first == RECORDING_START, reader: Box::new(Cursor::new(first).chain(input)) })
}

/// Returns the bytes that the agent sent, if the input is a recording, or else the input.
pub(super) fn open_agent_stream<'r>(input: impl Read + 'r) -> Result<Box<dyn Read + 'r>, IoFailure> {
    let PeekedInput { is_recording, reader } = peek(input)?;
    if !is_recording {
        return Ok(reader);
    }
    let (_, lines) = RecordingLines::open(BufReader::new(reader))?;
    Ok(Box::new(RecordedBytes { lines, piece: Vec::new(), read: 0 }))
}

/// Returns the client's request, if the input is a recording, or else the whole input.
pub(super) fn read_request(input: impl Read) -> Result<Vec<u8>, IoFailure> {
    let PeekedInput { is_recording, mut reader } = peek(input)?;
    let mut body = Vec::new();
    if is_recording {
        let run = RecordedRun::read(BufReader::new(reader))?;
        body = run.client_request.ok_or(IoFailure::Unusable(NO_REQUEST))?;
    } else {
        reader.read_to_end(&mut body).map_err(IoFailure::Input)?;
    }
    Ok(body)
}

/// The error of a recording without requests.
pub(super) const NO_REQUEST: &str = "the recording has no request; record with --full";

/// The agent's bytes of a recording.
struct RecordedBytes<R> {
    lines: RecordingLines<R>,
    piece: Vec<u8>,
    /// number of bytes of the piece that were read
    read: usize,
}

impl<R: io::BufRead> Read for RecordedBytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            let line = self.lines.next_line().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            match line {
                Some(RecordingLine::Step { bytes, .. }) => (self.piece, self.read) = (bytes, 0),
                Some(_) => {}
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len() - self.read);
        buffer[..length].copy_from_slice(&self.piece[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
