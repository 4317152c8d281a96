//! `diglot detect`: which dialect a recording is in.

use super::recording_reader::{EventPosition, ProtobufInput, RecordingReader};
use super::{CliExit, print_error, print_line};
use crate::dialect::{MemberCase, PeerDialect, TextFormat};
use crate::translate::detect;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct DetectArgs {
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// File to read, `-` for stdin. A stream may be SSE or NDJSON (one event a line).
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(super) fn run(arguments: &DetectArgs) -> CliExit {
    let file = arguments.file.display();
    let mut bytes = Vec::new();
    let read = if arguments.file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(&arguments.file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    if let Err(error) = read {
        print_error(format_args!("{file}: {error}"));
        return CliExit::Unavailable;
    }
    if arguments.request {
        let body = String::from_utf8_lossy(&bytes);
        if crate::codec::json::parse_object(body.trim()).is_err() {
            print_error(format_args!("{file}: the request is no JSON object"));
            return CliExit::Problems;
        }
        let found = detect::detect_request(body.trim());
        print_line(format_args!("{}: {}", side_name(found.peer), found.evidence));
        return CliExit::Ok;
    }
    // The length of a frame is below 2^24, and no text begins with NUL.
    if bytes.first() == Some(&0) {
        print_line("ag-ui: its frames are protobuf");
        return CliExit::Ok;
    }
    let events = read_events(&bytes);
    if events.is_empty() {
        print_error(format_args!("{file}: no event found: the input is neither an event stream nor NDJSON"));
        return CliExit::Problems;
    }
    let (found, seen) = detect::detect_stream(events.iter().map(String::as_str));
    if !print_line(format_args!("{}: {}", side_name(found.peer), found.evidence)) {
        return CliExit::Ok;
    }
    for (at, sign) in seen {
        if !print_line(format_args!("  event {}: {}: {}", at + 1, sign.dialect.name, sign.description)) {
            return CliExit::Ok;
        }
    }
    CliExit::Ok
}

/// The data of every event.
fn read_events(bytes: &[u8]) -> Vec<String> {
    let (mut recording, mut events) = (RecordingReader::new(ProtobufInput::Never), Vec::new());
    let mut each = |_: EventPosition, data: &str| -> Result<(), Infallible> {
        events.push(data.to_owned());
        Ok(())
    };
    // What is behind a frame that is too large tells nothing.
    if recording.push(bytes, &mut each).is_ok() {
        let _ = recording.finish(&mut each);
    }
    events.retain(|data| crate::codec::json::parse_object(data).is_ok_and(|object| object.kind.is_some()));
    events
}

/// A side as the command line takes it.
fn side_name(side: PeerDialect) -> String {
    let mut options = Vec::new();
    if side.text_format == TextFormat::Blocks {
        options.push("blocks");
    }
    if side.member_case == MemberCase::Snake {
        options.push("snake");
    }
    let colon = if options.is_empty() { "" } else { ":" };
    format!("{}{colon}{}", side.dialect.name, options.join(","))
}
