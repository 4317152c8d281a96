//! `diglot detect`: detects the dialect of a recording.

use super::input::{self, IoFailure};
use super::input_framing::ProtobufInput;
use super::output::{CliExit, CliResult, print_line, print_result};
use super::recorded_input;
use super::recording_reader::{NO_EVENT, read_recording};
use crate::codec::json;
use crate::dialect::{MemberCase, PeerDialect, TextFormat};
use crate::translate::detect;
use std::io::Read;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct DetectArgs {
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
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
    let events = read_events(&bytes);
    if events.is_empty() {
        return Err(CliExit::Problems.failure(format_args!("{file}: {NO_EVENT}")));
    }
    let (found, signs) = detect::detect_stream(events.iter().map(String::as_str));
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

/// Returns each event's data.
fn read_events(bytes: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    let _ = read_recording(bytes, ProtobufInput::Never, usize::MAX, &mut |_, _, data| {
        if json::parse_object(data).is_ok_and(|object| object.kind.is_some()) {
            events.push(data.to_owned());
        }
        Ok(())
    });
    events
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
    use crate::config::load;

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
