//! `diglot verify`: prints a conformance report for a recorded stream.

use super::dialect_arg;
use super::input::{self, IoFailure};
use super::input_framing::{InputPiece, ProtobufInput, read_pieces};
use super::output::{CliExit, CliResult, ReportFormat, with_plural};
use super::stream_failure;
use crate::codec::sse::FRAME_LIMIT;
use crate::config::load;
use crate::dialect::PeerDialect;
use crate::translate::verify::{Finding, RuleSeverity, Verifier, VerifySummary};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
A violation makes the AG-UI client (@ag-ui/client 1.0.0) reject the run. A warning does not: the specification forbids it \
but no client enforces the rule yet, or the client ignores unknown content.

A stream of another dialect than ag-ui is read like the gateway reads it, and checked by the same rules: a violation is \
something that the gateway has to repair for the client, or `wrong-dialect`: the dialect knows no event of the stream. Missing members that are optional in the dialect are not findings. A stream of a dialect file is read by its rules: \
`foreign-event` is a frame to which no rule applies, or a rule that finds none of its values in it, and `truncated` a stream after which no rule has said that the run succeeded.

Exit codes: 0 the client accepts the stream, 1 the client rejects it (with --strict also: there are warnings) or the input \
has no event (`no-events`), which the client accepts although it is not a run, 2 usage, 69 the file cannot be read.

In protobuf, which has no lines, a message counts as a line.

--format json prints one document: {\"file\", \"dialect\", \"findings\", \"verdict\": \"accepted\" or \"rejected\", \
\"rejected_at\": a line or null, \"events\", \"violations\", \"warnings\", \"looks_like\": another dialect that some events belong to, or null}. A finding is {\"severity\": \"violation\" or \
\"warning\", \"rule\": its name, \"line\": from 1, \"event\": from 1, or 0 for the whole stream, \"type\": of the event, \
\"path\": a JSON Pointer into the event, \"found\": the value there, \"text\": the rule with its section}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct VerifyArgs {
    /// Dialect of the recording
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the recording: {}", dialect_arg::dialect_help()))]
    dialect: PeerDialect,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Exit with 1 on warnings too
    #[arg(long)]
    strict: bool,
    /// File to read, `-` for stdin. SSE, NDJSON (one event per line), AG-UI's protobuf, or a recording of `diglot
    /// record`, of which the agent's stream is verified
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(super) fn run(arguments: &VerifyArgs) -> CliResult {
    let mut verifier = Verifier::new(arguments.dialect);
    let result = verify(arguments, &mut verifier);
    let verdict = exit_for(arguments, verifier.summary());
    match result {
        Ok(()) => Ok(verdict),
        // If stdout is closed early, the verdict so far counts.
        Err(failure) => failure.into_result(&arguments.file, verdict),
    }
}

fn exit_for(arguments: &VerifyArgs, summary: &VerifySummary) -> CliExit {
    let fails = !summary.is_accepted() || summary.events == 0 || (arguments.strict && summary.warnings > 0);
    if fails { CliExit::Problems } else { CliExit::Ok }
}

fn verify(arguments: &VerifyArgs, verifier: &mut Verifier) -> Result<(), IoFailure> {
    let input = input::open(&arguments.file)?;
    let mut report = VerifyReport {
        out: BufWriter::new(io::stdout().lock()),
        format: arguments.format,
        file: arguments.file.display().to_string(),
        first: true,
    };
    report.write_begin(arguments.dialect.dialect.name).map_err(IoFailure::Output)?;
    let mut findings = Vec::new();
    read_pieces(input, ProtobufInput::Detect, FRAME_LIMIT, |piece| {
        match piece {
            InputPiece::Bytes(bytes) => verifier.push(bytes, &mut findings),
            InputPiece::Line(line) => verifier.push_line(&line, &mut findings),
            InputPiece::Message { text, .. } => verifier.push_message(&text, &mut findings),
            InputPiece::TooLarge { .. } => verifier.report_too_large(&mut findings),
            InputPiece::PartialFrame => verifier.report_partial_frame(&mut findings),
        }
        report.write_findings(findings.drain(..)).map_err(IoFailure::Output)
    })?;
    verifier.finish(&mut findings);
    report.write_findings(findings.drain(..)).map_err(IoFailure::Output)?;
    report.write_end(verifier).map_err(IoFailure::Output)
}

/// Writes each finding as soon as it is found.
struct VerifyReport<W: Write> {
    out: BufWriter<W>,
    format: ReportFormat,
    file: String,
    first: bool,
}

impl<W: Write> VerifyReport<W> {
    fn write_begin(&mut self, dialect: &str) -> io::Result<()> {
        match self.format {
            ReportFormat::Text => Ok(()),
            ReportFormat::Json => {
                write!(self.out, "{{\"file\":{},\"dialect\":\"{dialect}\",\"findings\":[", json!(self.file))
            }
        }
    }

    fn write_findings(&mut self, mut findings: impl Iterator<Item = Finding>) -> io::Result<()> {
        findings.try_for_each(|finding| self.write_finding(&finding))?;
        self.out.flush()
    }

    fn write_finding(&mut self, finding: &Finding) -> io::Result<()> {
        let Finding { rule, line, event, kind, path, found } = finding;
        let severity = rule.severity().as_str();
        match self.format {
            ReportFormat::Text => {
                let subject = match (kind.is_empty(), path.is_empty()) {
                    (true, true) => String::new(),
                    (true, false) => format!("{path}: "),
                    (false, true) => format!("{kind}: "),
                    (false, false) => format!("{kind} {path}: "),
                };
                let VerifyReport { out, file, .. } = self;
                writeln!(out, "{file}:{line}: {severity} {}: {subject}{found}; {}", rule.label(), rule.text())
            }
            ReportFormat::Json => {
                let comma = if std::mem::take(&mut self.first) { "" } else { "," };
                let document = json!({
                    "severity": severity, "rule": rule.label(), "line": line, "event": event, "type": kind,
                    "path": path, "found": found, "text": rule.text(),
                });
                write!(self.out, "{comma}\n{document}")
            }
        }
    }

    fn write_end(mut self, verifier: &Verifier) -> io::Result<()> {
        let summary = verifier.summary();
        let VerifySummary { events, violations, warnings, foreign_events, first_violation: first, .. } = summary;
        let unknown = verifier.unknown_frames();
        let found = unknown.and_then(|frames| frames.explain(&load::known_file_dialects()).looks_like);
        let looks_like = found.or(summary.looks_like);
        let verdict = if summary.is_accepted() { "accepted" } else { "rejected" };
        match self.format {
            ReportFormat::Text => {
                let at = first.map_or_else(String::new, |(line, rule)| format!(" at line {line} ({})", rule.label()));
                let counted = format!(
                    "{}, {}, {}",
                    with_plural(*events, "event"),
                    with_plural(*violations, RuleSeverity::Violation.as_str()),
                    with_plural(*warnings, RuleSeverity::Warning.as_str())
                );
                let verdict = if *events == 0 { "nothing to verify" } else { verdict };
                let mut warning = String::new();
                if let Some(frames) = unknown {
                    let cause = stream_failure::describe_unknown(frames, "--dialect");
                    writeln!(self.out, "{}: {cause}", self.file)?;
                } else if let Some(dialect) = looks_like {
                    let foreign = with_plural(*foreign_events, "event");
                    let advice = format!("if the recording is in {dialect}, verify it with --dialect {dialect}");
                    writeln!(self.out, "{}: {foreign} of another dialect; {advice}", self.file)?;
                }
                if let Some(dialect) = looks_like {
                    warning = format!(", but it looks like {dialect}");
                }
                writeln!(self.out, "{}: {verdict}{at}{warning}: {counted}", self.file)?;
            }
            ReportFormat::Json => {
                let rest = json!({
                    "verdict": verdict, "rejected_at": first.map(|(line, _)| line), "events": events,
                    "violations": violations, "warnings": warnings, "looks_like": looks_like,
                });
                // The document is written in parts so that findings appear immediately.
                writeln!(self.out, "\n],{}", rest.to_string().trim_start_matches('{'))?;
            }
        }
        self.out.flush()
    }
}
