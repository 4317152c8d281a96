//! `diglot detect`: detects the dialect of a recording.

use super::input;
use super::input_framing::ProtobufInput;
use super::output::{CliExit, print_error, print_line};
use super::recording_reader::{EventPosition, NO_EVENT, RecordingReader};
use crate::dialect::{MemberCase, PeerDialect, TextFormat};
use crate::translate::detect;
use std::convert::Infallible;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct DetectArgs {
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// File to read, `-` for stdin. A stream may be SSE, NDJSON (one event per line) or AG-UI's protobuf
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(super) fn run(arguments: &DetectArgs) -> CliExit {
    let file = arguments.file.display();
    let bytes = match input::read_all(&arguments.file) {
        Ok(bytes) => bytes,
        Err(failure) => return failure.report(&arguments.file, CliExit::Ok),
    };
    if arguments.request {
        let body = String::from_utf8_lossy(&bytes);
        if crate::codec::json::parse_object(body.trim()).is_err() {
            print_error(format_args!("{file}: the request must be a JSON object"));
            return CliExit::Problems;
        }
        let found = detect::detect_request(body.trim());
        print_line(format_args!("{}: {}", side_name(found.peer), found.evidence));
        return CliExit::Ok;
    }
    // The length of a frame is below 2^24, so its first byte is NUL, and no text begins with NUL.
    if bytes.first() == Some(&0) {
        print_line("ag-ui: the frames are protobuf");
        return CliExit::Ok;
    }
    let events = read_events(&bytes);
    if events.is_empty() {
        print_error(format_args!("{file}: {NO_EVENT}"));
        return CliExit::Problems;
    }
    let (found, signs) = detect::detect_stream(events.iter().map(String::as_str));
    if !print_line(format_args!("{}: {}", side_name(found.peer), found.evidence)) {
        return CliExit::Ok;
    }
    for (index, sign) in signs {
        if !print_line(format_args!("  event {}: {}: {}", index + 1, sign.dialect.name, sign.description)) {
            return CliExit::Ok;
        }
    }
    CliExit::Ok
}

/// Returns each event's data.
fn read_events(bytes: &[u8]) -> Vec<String> {
    let mut recording = RecordingReader::new(ProtobufInput::Never);
    let mut events = Vec::new();
    let mut each = |_: EventPosition, data: &str| -> Result<(), Infallible> {
        events.push(data.to_owned());
        Ok(())
    };
    // Nothing can be read after an oversized frame.
    if recording.push(bytes, &mut each).is_ok() {
        let _ = recording.finish(&mut each);
    }
    events.retain(|data| crate::codec::json::parse_object(data).is_ok_and(|object| object.kind.is_some()));
    events
}

/// Formats a dialect and its options as a command-line argument.
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
