//! `diglot detect`: detects the dialect of a recording.

use super::dialect_arg;
use super::input::{self, IoFailure};
use super::input_framing::ProtobufInput;
use super::output::{CliExit, CliResult, print_line, print_result, with_plural};
use super::recorded_input;
use super::recording_reader::{NO_EVENT, read_recording};
use crate::codec::json;
use crate::config::load;
use crate::dialect::{MemberCase, PeerDialect, TextFormat};
use crate::translate::detect;
use crate::translate::foreign_stream::{self, AppliedFile, NamedFrame};
use std::io::Read;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct DetectArgs {
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// Also consider this dialect file, besides those that ship; may be repeated
    #[arg(long = "dialect-file", value_name = "FILE", value_parser = dialect_arg::parse_dialect, conflicts_with = "request")]
    dialect_files: Vec<PeerDialect>,
    /// File to read, `-` for stdin. A stream may be SSE, NDJSON (one event per line), AG-UI's protobuf or
    /// a recording of `diglot record`
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(super) fn run(arguments: &DetectArgs) -> CliResult {
    let file = arguments.file.display();
    let bytes = match read_input(arguments) {
        Ok(bytes) => bytes,
        Err(failure) => return failure.into_result(&arguments.file, CliExit::Ok),
    };
    if arguments.request {
        let body = String::from_utf8_lossy(&bytes);
        if json::parse_object(body.trim()).is_err() {
            return Err(CliExit::Problems.failure(format_args!("{file}: the request must be a JSON object")));
        }
        let found = detect::detect_request(body.trim());
        return print_result(format_args!("{}: {}", format_side(found.peer), found.evidence));
    }
    // The length of a frame is below 2^24, so its first byte is NUL, and no text begins with NUL.
    if bytes.first() == Some(&0) {
        return print_result("ag-ui: the frames are protobuf");
    }
    let frames = read_frames(&bytes);
    let events: Vec<&str> = frames.iter().map(|frame| frame.data.as_str()).filter(|data| has_type(data)).collect();
    let own = events.iter().filter(|data| detect::has_known_type(data)).count();
    let found = foreign_stream::find_file(&load::known_file_dialects(), &frames);
    if let Some(found) = found.filter(|found| found.known > own) {
        return print_result(describe_file(found));
    }
    if own == 0 {
        // A file of the command line may lack rules for most of the frames.
        let named = arguments.dialect_files.iter().filter_map(|file| foreign_stream::apply_file(file.dialect, &frames));
        let named: String = named.map(|found| format!("{}; ", describe_file(found))).collect();
        let why = if frames.is_empty() { NO_EVENT } else { NO_DIALECT };
        return Err(CliExit::Problems.failure(format_args!("{file}: {named}{why}")));
    }
    let (found, signs) = detect::detect_stream(events.iter().copied());
    if print_line(format_args!("{}: {}", format_side(found.peer), found.evidence)) {
        let mut signs = signs.into_iter();
        signs.all(|(index, sign)| {
            print_line(format_args!("  event {}: {}: {}", index + 1, sign.dialect.name, sign.description))
        });
    }
    Ok(CliExit::Ok)
}

/// Reads the stream or the request.
fn read_input(arguments: &DetectArgs) -> Result<Vec<u8>, IoFailure> {
    let input = input::open(&arguments.file)?;
    if arguments.request {
        return recorded_input::read_request(input);
    }
    let mut bytes = Vec::new();
    recorded_input::open_agent_stream(input)?.read_to_end(&mut bytes).map_err(IoFailure::Input)?;
    Ok(bytes)
}

fn describe_file(found: AppliedFile) -> String {
    let AppliedFile { dialect, known, read, .. } = found;
    format!("{}: its rules apply to {known} of {}", dialect.name, with_plural(read, "frame"))
}

const NO_DIALECT: &str = "no dialect has such events; describe them in a dialect file (deploy/legacy-agents.md), or name the file that does with --dialect-file";

fn read_frames(bytes: &[u8]) -> Vec<NamedFrame> {
    let mut frames = Vec::new();
    let _ = read_recording(bytes, ProtobufInput::Never, usize::MAX, &mut |_, event_line, data| {
        frames.push(NamedFrame { event_line: event_line.map(str::to_owned), data: data.to_owned() });
        Ok(())
    });
    frames
}

fn has_type(data: &str) -> bool {
    json::parse_object(data).is_ok_and(|object| object.kind.is_some())
}

/// Formats a dialect and its options as one writes them in a route, as its `client` or `agent`.
fn format_side(side: PeerDialect) -> String {
    let name = side.dialect.name;
    let content = match side.text_format {
        TextFormat::BySide => "",
        TextFormat::String => ", content: string",
        TextFormat::Blocks => ", content: blocks",
    };
    let fields = if side.member_case == MemberCase::Snake { ", fields: snake" } else { "" };
    if content.is_empty() && fields.is_empty() {
        name.to_owned()
    } else {
        format!("{{dialect: {name}{content}{fields}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed can be copied into a configuration, with the same effect.
    #[test]
    fn prints_a_side_as_the_configuration_has_it() {
        let streams: [(&[&str], &str); 3] = [
            (&[r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}"#], "ag-ui"),
            (&[r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"x"}"#], "{dialect: hai, content: string}"),
            (
                &[
                    r#"{"type":"BUSINESS_DATA_CONTENT","message_id":"m","delta":{"output":{"type":"text","content":"x"}}}"#,
                ],
                "{dialect: hai, content: blocks, fields: snake}",
            ),
        ];
        for (events, expected) in streams {
            let found = detect::detect_stream(events.iter().copied()).0.peer;
            let printed = format_side(found);
            assert_eq!(printed, expected);
            let route = format!("routes: [{{path: /a, client: ag-ui, agent: {printed}, upstream: \"http://h/\"}}]");
            let config = load::from_str("f", &route).unwrap_or_else(|problems| panic!("{problems}"));
            let agent = config.routes[0].agent;
            assert_eq!((agent.dialect.name, agent.text_format), (found.dialect.name, found.text_format));
            assert_eq!(agent.member_case, found.member_case);
        }
    }
}
