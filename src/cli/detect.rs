//! `diglot detect`: which dialect a recording is in.

use super::recording::{Binary, Place, Recording};
use super::{Exit, complain, say};
use crate::dialect::{Content, Side, Spelling};
use crate::translate::detect;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// File to read, `-` for stdin. A stream may be SSE or NDJSON (one event a line).
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let file = arguments.file.display();
    let mut bytes = Vec::new();
    let read = if arguments.file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(&arguments.file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    if let Err(error) = read {
        complain(format_args!("{file}: {error}"));
        return Exit::Unavailable;
    }
    if arguments.request {
        let body = String::from_utf8_lossy(&bytes);
        if crate::codec::json::object(body.trim()).is_err() {
            complain(format_args!("{file}: the request is no JSON object"));
            return Exit::Problems;
        }
        let found = detect::request(body.trim());
        say(format_args!("{}: {}", named(found.side), found.because));
        return Exit::Ok;
    }
    // The length of a frame is below 2^24, and no text begins with NUL.
    if bytes.first() == Some(&0) {
        say("ag-ui: its frames are protobuf");
        return Exit::Ok;
    }
    let events = events(&bytes);
    if events.is_empty() {
        complain(format_args!("{file}: no event found: the input is neither an event stream nor NDJSON"));
        return Exit::Problems;
    }
    let (found, seen) = detect::stream(events.iter().map(String::as_str));
    if !say(format_args!("{}: {}", named(found.side), found.because)) {
        return Exit::Ok;
    }
    for (at, sign) in seen {
        if !say(format_args!("  event {}: {}: {}", at + 1, sign.dialect.name, sign.words)) {
            return Exit::Ok;
        }
    }
    Exit::Ok
}

/// The data of every event.
fn events(bytes: &[u8]) -> Vec<String> {
    let (mut recording, mut events) = (Recording::new(Binary::Never), Vec::new());
    let mut each = |_: Place, data: &str| -> Result<(), Infallible> {
        events.push(data.to_owned());
        Ok(())
    };
    // What is behind a frame that is too large tells nothing.
    if recording.push(bytes, &mut each).is_ok() {
        let _ = recording.finish(&mut each);
    }
    events.retain(|data| crate::codec::json::object(data).is_ok_and(|object| object.kind.is_some()));
    events
}

/// A side as the command line takes it.
fn named(side: Side) -> String {
    let mut options = Vec::new();
    if side.content == Content::Blocks {
        options.push("blocks");
    }
    if side.fields == Spelling::Snake {
        options.push("snake");
    }
    let colon = if options.is_empty() { "" } else { ":" };
    format!("{}{colon}{}", side.dialect.name, options.join(","))
}
