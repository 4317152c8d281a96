//! The agent of a recording, for `replay --as agent` and `mock-agent --recording`.

use super::output::{CliExit, CliFailure, print_error};
use crate::codec::Framing;
use crate::demo::{ReplayEnding, ReplayScript};
use crate::inspect::{CaptureStep, RecordedItem, RecordedRun};
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

/// The pace of a replayed agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReplaySpeed {
    Times(f64),
    /// without any wait
    Max,
}

/// Codes of runs whose agent's connection broke.
const BROKEN_CODES: [&str; 2] = ["upstream_reset", "upstream_protocol"];

/// Parses `1`, `10`, `0.5` or `max`.
///
/// # Errors
/// Returns an error message for clap to print.
pub(super) fn parse_speed(text: &str) -> Result<ReplaySpeed, String> {
    if text == "max" {
        return Ok(ReplaySpeed::Max);
    }
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(ReplaySpeed::Times(times)),
        _ => Err("use a number such as 1, 10 or 0.5, or `max` for no waits".to_owned()),
    }
}

impl ReplaySpeed {
    fn time(self, at_ms: u64) -> Duration {
        match self {
            ReplaySpeed::Times(times) => Duration::from_millis(at_ms).div_f64(times),
            ReplaySpeed::Max => Duration::ZERO,
        }
    }
}

/// Reads a recording.
pub(super) fn read_recording_file(file: &Path) -> Result<RecordedRun, CliFailure> {
    let input = std::fs::File::open(file).map_err(|error| {
        CliExit::Unavailable
            .failure(format_args!("{}: {error}; name a recording that this user may read", file.display()))
    })?;
    RecordedRun::read(BufReader::new(input))
        .map_err(|error| CliExit::Problems.failure(format_args!("{}:{}: {error}", file.display(), error.line)))
}

/// Reads what the agent of a recording sent.
pub(super) fn read_agent(file: &Path, speed: ReplaySpeed) -> Result<ReplayScript, CliFailure> {
    let run = read_recording_file(file)?;
    let mut script = ReplayScript {
        media_type: "",
        responded_at: Duration::ZERO,
        pieces: Vec::new(),
        ended_at: Duration::ZERO,
        ending: ReplayEnding::Clean,
    };
    let mut is_two_step = false;
    let mut has_ended = false;
    for (at_ms, item) in run.items {
        let RecordedItem::Step { step, bytes } = item else { continue };
        let at = speed.time(at_ms);
        script.ended_at = at;
        match step {
            CaptureStep::Responded(framing) => (script.media_type, script.responded_at) = (framing.media_type(), at),
            CaptureStep::Followed(_) => {
                is_two_step = true;
                script.media_type = Framing::Sse.media_type();
            }
            CaptureStep::Read(_) => script.pieces.push((at, bytes.into())),
            CaptureStep::Reconnected => {}
            CaptureStep::BodyEnded => has_ended = true,
            CaptureStep::Failed(failure) if BROKEN_CODES.contains(&failure.0.as_str()) && !has_ended => {
                script.ending = ReplayEnding::Broken;
            }
            CaptureStep::Failed(_) | CaptureStep::Cancelled if !has_ended => script.ending = ReplayEnding::Silent,
            CaptureStep::Failed(_) | CaptureStep::Cancelled => {}
        }
    }
    if script.media_type.is_empty() {
        let code = run.head.code.unwrap_or_else(|| "no response".to_owned());
        return Err(CliExit::Problems.failure(format_args!(
            "{}: the agent sent no stream in this run ({code}), so there is nothing to replay",
            file.display()
        )));
    }
    if is_two_step {
        print_error(format_args!(
            "{}: the recorded agent has two steps; this one answers the POST with the stream, so use it on a route without `events`",
            file.display()
        ));
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_numbers_or_max() {
        assert_eq!(parse_speed("10").map(|speed| speed.time(1000)), Ok(Duration::from_millis(100)));
        assert_eq!(parse_speed("max").map(|speed| speed.time(1000)), Ok(Duration::ZERO));
        for text in ["0", "-1", "inf", "NaN", "fast", ""] {
            parse_speed(text).expect_err(text);
        }
    }
}
