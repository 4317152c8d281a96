//! `diglot verify`: a conformance report of a recorded stream.

use super::input_framing::{InputPiece, VerifyFraming};
use super::{CliExit, dialect_arg, print_error};
use crate::dialect::PeerDialect;
use crate::translate::verify::{Finding, RuleSeverity, Verifier, VerifySummary};
use serde_json::json;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
const AFTER_HELP: &str = "\
A violation makes the real client (@ag-ui/client 1.0.0) reject the run. A warning does not: the specification forbids it \
and no client enforces that yet, or the client drops what it does not know.

A stream of another dialect than ag-ui is read as the gateway reads it, and what it says is held against the same rules: a \
violation is what the gateway has to mend for the client. Members that the dialect need not say are no findings.

Exit codes: 0 the client accepts the stream, 1 it rejects it (with --strict: or there are warnings) or the input holds no \
event at all (`no-events`), which the client accepts and is no run, 2 usage, 69 the file cannot be read.

In protobuf, which has no lines, a message counts as one.

--format json prints one document: {\"file\", \"dialect\", \"findings\", \"verdict\": \"accepted\" or \"rejected\", \
\"rejected_at\": a line or null, \"events\", \"violations\", \"warnings\"}. A finding is {\"severity\": \"violation\" or \
\"warning\", \"rule\": its name, \"line\": from 1, \"event\": from 1, or 0 for the whole stream, \"type\": of the event, \
\"path\": a JSON Pointer into the event, \"found\": what stands there, \"text\": the rule with its section}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct VerifyArgs {
    /// Dialect of the recording
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the recording: {}", dialect_arg::dialect_help()))]
    dialect: PeerDialect,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Warnings count for the exit code
    #[arg(long)]
    strict: bool,
    /// File to read, `-` for stdin. SSE, NDJSON (one event a line) or AG-UI's protobuf.
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// one line a finding, and the verdict
    Text,
    /// one JSON document
    Json,
}

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

pub(super) fn run(arguments: &VerifyArgs) -> CliExit {
    let name = arguments.file.display();
    let input: Box<dyn Read> = if arguments.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        match File::open(&arguments.file) {
            Ok(file) => Box::new(file),
            Err(error) => {
                print_error(format_args!("{name}: {error}"));
                return CliExit::Unavailable;
            }
        }
    };
    let mut verifier = Verifier::new(arguments.dialect);
    match verify(arguments, input, &mut verifier) {
        Ok(()) => exit_for(arguments, verifier.summary()),
        // Whoever read our output has enough of it; the verdict is the one that stands so far.
        Err(VerifyFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            exit_for(arguments, verifier.summary())
        }
        Err(VerifyFailure::Output(error)) => {
            print_error(format_args!("stdout: {error}"));
            CliExit::Unavailable
        }
        Err(VerifyFailure::Input(error)) => {
            print_error(format_args!("{name}: {error}"));
            CliExit::Unavailable
        }
    }
}

/// What cannot be had any more.
enum VerifyFailure {
    /// the file that is read
    Input(io::Error),
    /// stdout
    Output(io::Error),
}

fn exit_for(arguments: &VerifyArgs, summary: &VerifySummary) -> CliExit {
    let fails = !summary.is_accepted() || summary.events == 0 || (arguments.strict && summary.warnings > 0);
    if fails { CliExit::Problems } else { CliExit::Ok }
}

fn verify(arguments: &VerifyArgs, mut input: Box<dyn Read>, verifier: &mut Verifier) -> Result<(), VerifyFailure> {
    let mut report = VerifyReport {
        out: BufWriter::new(io::stdout().lock()),
        format: arguments.format,
        file: arguments.file.display().to_string(),
        first: true,
    };
    report.write_begin(arguments.dialect.dialect.name).map_err(VerifyFailure::Output)?;
    let (mut piece, mut form, mut findings) = (vec![0; READ_SIZE], VerifyFraming::Unknown, Vec::new());
    loop {
        let read = input.read(&mut piece).map_err(VerifyFailure::Input)?;
        let mut take = |piece: InputPiece<'_>| -> Result<(), Infallible> {
            match piece {
                InputPiece::Bytes(bytes) => verifier.push(bytes, &mut findings),
                InputPiece::Line(line) => verifier.push_line(&line, &mut findings),
                InputPiece::Message(text) => verifier.push_message(&text, &mut findings),
                InputPiece::TooLarge => verifier.report_too_large(&mut findings),
            }
            Ok(())
        };
        let Ok(()) = if read == 0 { form.finish(&mut take) } else { form.push(&piece[..read], &mut take) };
        if read == 0 {
            verifier.finish(&mut findings);
        }
        for finding in findings.drain(..) {
            report.write_finding(&finding).map_err(VerifyFailure::Output)?;
        }
        if read == 0 {
            return report.write_end(verifier.summary()).map_err(VerifyFailure::Output);
        }
        report.out.flush().map_err(VerifyFailure::Output)?;
    }
}

/// Writes what is found, as it is found.
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

    fn write_end(mut self, summary: &VerifySummary) -> io::Result<()> {
        let VerifySummary { events, violations, warnings, first_violation: first } = summary;
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
                writeln!(self.out, "{}: {verdict}{at}: {counted}", self.file)?;
            }
            ReportFormat::Json => {
                let rest = json!({
                    "verdict": verdict, "rejected_at": first.map(|(line, _)| line), "events": events,
                    "violations": violations, "warnings": warnings,
                });
                // The document was begun as text, so that findings are written as they come.
                writeln!(self.out, "\n],{}", rest.to_string().trim_start_matches('{'))?;
            }
        }
        self.out.flush()
    }
}

fn with_plural(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
