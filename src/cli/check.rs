//! `diglot check`: lists all problems in configurations, and who may call each route of a valid one.

use super::check_examples::{self, ExampleFailure};
use super::check_recordings;
use super::output::{CliExit, CliResult, print_error, print_line, with_plural};
use super::terminal_text::escape_text;
use crate::admin;
use crate::config::dialect_file::{FileKind, is_recording};
use crate::config::load;
use crate::config::shipped_dialects::SHIPPED_DIALECTS;
use crate::config::{Config, ConfigProblem, ConfigProblems, ProblemSeverity};
use crate::net::read_file;
use std::io;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Lists all problems at once, each with its line, its column and a hint. A warning is a valid setting that is probably not \
intended. Also reads the files that a configuration names: certificates, keys, secrets.

Formats: text; json, a list of {file, line, column, path, severity, message, hint}; github, annotations for GitHub Actions. \
The number of problems is printed to stderr.

Examples:
  diglot check diglot.yaml
  diglot check --strict --format github deploy/*.yaml
  diglot check - <diglot.yaml
  diglot check --against runs/ diglot.yaml
  diglot check --test dialects/*.yaml
  diglot check --test openai-chat

--against takes the route of the same name, or the only one with the dialects of the recording, and needs no network. What the agent sent \
stays as recorded. The body of the agent's request is compared if the recording has it (`record --full`); its path and headers are not recorded.

Secrets in the output of `diglot config` are masked: fill them in before you check it.

Exit codes: 0 ok, 1 warnings and --strict, differences, recordings that cannot be compared, or failed examples, 2 usage, 69 the folder has no recordings, 78 invalid configuration.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CheckArgs {
    /// Configurations and dialect files, also the names of those that ship, `-` for stdin
    #[arg(required = true, env = "DIGLOT_CONFIG", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of the problems
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,

    /// Fail on warnings
    #[arg(long)]
    strict: bool,

    /// Translate each recording of this folder as the configuration has it, and print what its client and its agent
    /// would get differently
    #[arg(long, value_name = "FOLDER", conflicts_with = "format")]
    against: Option<PathBuf>,

    /// Run the examples under `tests:` of each dialect file, or of those that a configuration names, and print the
    /// ones that differ
    #[arg(long, conflicts_with = "against")]
    test: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CheckFormat {
    Text,
    Json,
    Github,
}

/// The result for a file, of either kind.
#[derive(Default)]
struct CheckedFile {
    file: PathBuf,
    problems: Vec<ConfigProblem>,
    failed_examples: Vec<ExampleFailure>,
    /// what is printed of a valid file
    summary: Vec<String>,
}

pub(super) fn run(arguments: &CheckArgs) -> CliResult {
    if let Some(folder) = &arguments.against {
        return check_against(arguments, folder);
    }
    let mut all = Vec::new();
    let mut exit = CliExit::Ok;
    for checked in arguments.files.iter().flat_map(|file| check_files(file, arguments.test)) {
        checked.print(arguments.format);
        let has_errors = checked.problems.iter().any(|problem| problem.severity == ProblemSeverity::Error);
        let is_failed = !checked.failed_examples.is_empty() || (arguments.strict && !checked.problems.is_empty());
        exit = match exit {
            _ if has_errors => CliExit::Config,
            CliExit::Ok if is_failed => CliExit::Problems,
            exit => exit,
        };
        let failed = checked.failed_examples.iter().map(|failure| failure.to_problem(&checked.file));
        all.extend(checked.problems.iter().cloned().chain(failed));
    }
    match arguments.format {
        CheckFormat::Text => {}
        CheckFormat::Json => {
            // Serializing plain data cannot fail.
            print_line(format_args!("{:#}", serde_json::to_value(&all).unwrap_or_default()));
        }
        CheckFormat::Github => {
            all.iter().map(github_annotation).all(print_line);
        }
    }
    Ok(exit)
}

impl CheckedFile {
    /// Prints the problems if people read them, and their number.
    fn print(&self, format: CheckFormat) {
        let CheckedFile { file, problems, failed_examples, summary } = self;
        let file = file.display();
        if format == CheckFormat::Text {
            problems.iter().all(print_line);
            failed_examples.iter().map(|failure| format!("{file}:{}: {failure}", failure.line)).all(print_line);
            summary.iter().all(print_line);
        }
        for (severity, noun) in [(ProblemSeverity::Error, "problem"), (ProblemSeverity::Warning, "warning")] {
            let count = problems.iter().filter(|problem| problem.severity == severity).count();
            if count > 0 {
                print_error(format_args!("{file}: {}", with_plural(count, noun)));
            }
        }
        if !failed_examples.is_empty() {
            print_error(format_args!("{file}: {} failed", with_plural(failed_examples.len(), "example")));
        }
    }
}

/// Compares the recordings of a folder with what a valid configuration makes of them.
fn check_against(arguments: &CheckArgs, folder: &Path) -> CliResult {
    let [file] = arguments.files.as_slice() else {
        return Err(CliExit::Usage.failure("--against compares with one configuration; check the others by themselves"));
    };
    let (problems, config) = admin::check_config(file, read_input(file));
    problems.iter().all(|problem| {
        print_error(problem);
        true
    });
    let is_warned = arguments.strict && !problems.is_empty();
    let Some(config) = config else { return Ok(CliExit::Config) };
    let exit = check_recordings::run(&config, folder)?;
    Ok(if is_warned { CliExit::Problems } else { exit })
}

fn read_input(file: &Path) -> Result<Vec<u8>, ConfigProblems> {
    let shipped = SHIPPED_DIALECTS.iter().find(|(name, _)| file == Path::new(name) && !file.exists());
    if let Some((_, text)) = shipped {
        return Ok(text.as_bytes().to_vec());
    }
    if file != Path::new("-") {
        return load::read_source(file);
    }
    let read = read_file::read_limited(io::stdin().lock());
    read.map_err(|error| ConfigProblem::for_path(file, error.to_string()).into())
}

/// Checks a configuration or a dialect file. `is_test` runs the examples of the dialect file, or of those that the
/// configuration names.
fn check_files(file: &Path, is_test: bool) -> Vec<CheckedFile> {
    let read = read_input(file);
    let text = read.as_ref().map_or_else(|_| "".into(), |bytes| String::from_utf8_lossy(bytes));
    let kind = FileKind::classify(&text);
    match (kind, is_test) {
        (FileKind::Empty, false) if read.is_ok() => {
            let message = "the file is empty";
            let hint = "a configuration begins with `routes:`, and a dialect file with `name:` and `events:`";
            let (line, column, hint) = (Some(1), Some(1), Some(hint.to_owned()));
            let problem = ConfigProblem { line, column, hint, ..ConfigProblem::for_path(file, message) };
            return vec![CheckedFile { file: file.to_owned(), problems: vec![problem], ..CheckedFile::default() }];
        }
        // Rather than the keys of a configuration that a stream has not.
        (FileKind::Other, false) if is_recording(&text) => return vec![check_dialect_file(file, read, false)],
        (FileKind::Dialect, false) => return vec![check_dialect_file(file, read, false)],
        (FileKind::Dialect | FileKind::Other | FileKind::Empty, true) => {
            return vec![check_dialect_file(file, read, true)];
        }
        _ => {}
    }
    let (mut problems, config) = admin::check_config(file, read);
    match config {
        Some(config) if is_test && !config.dialect_files.is_empty() => {
            // Its warnings come before the examples of its files, and those of the files with these.
            let is_of = |problem: &ConfigProblem, file: &PathBuf| problem.file == file.display().to_string();
            problems.retain(|problem| !config.dialect_files.iter().any(|file| is_of(problem, file)));
            let own = CheckedFile { file: file.to_owned(), problems, ..CheckedFile::default() };
            let files = config.dialect_files.iter();
            let tested = files.map(|file| check_dialect_file(file, load::read_source(file), true));
            [own].into_iter().chain(tested).collect()
        }
        config => {
            let summary = config.map(|config| summarize(&file.display().to_string(), &config)).unwrap_or_default();
            vec![CheckedFile { file: file.to_owned(), problems, summary, ..CheckedFile::default() }]
        }
    }
}

fn check_dialect_file(file: &Path, read: Result<Vec<u8>, ConfigProblems>, is_test: bool) -> CheckedFile {
    let mut checked = CheckedFile { file: file.to_owned(), ..CheckedFile::default() };
    let compiled = read.and_then(|bytes| Ok((load::compile_dialect_file(file, &bytes)?, bytes)));
    let (dialect, bytes) = match compiled {
        Ok(compiled) => compiled,
        Err(problems) => {
            checked.problems = problems.as_slice().to_vec();
            return checked;
        }
    };
    checked.problems.clone_from(&dialect.warnings);
    let path = file.display();
    let examples = with_plural(dialect.examples.len(), "example");
    checked.summary = match (dialect.examples.len(), is_test) {
        (0, _) => vec![format!("{path}: ok, but it has no examples; add some under `tests:`")],
        (_, false) => {
            let name = &dialect.dialect.name;
            vec![format!("{path}: ok, the dialect file of `{name}`; --test runs its {examples}")]
        }
        (_, true) => {
            let results = check_examples::run(dialect, file, &String::from_utf8_lossy(&bytes));
            checked.problems.extend(results.warnings);
            checked.failed_examples = results.failures;
            checked.failed_examples.is_empty().then(|| format!("{path}: {examples} passed")).into_iter().collect()
        }
    };
    checked
}

/// Lists each route and who may call it.
fn summarize(file: &str, config: &Config) -> Vec<String> {
    let mut lines = vec![format!("{file}: ok, {}", with_plural(config.routes.len(), "route"))];
    for route in &config.routes {
        let hosts: Vec<&str> = route.upstreams.iter().map(|upstream| upstream.url.as_str()).collect();
        let client = route.client.name();
        let agent = route.agent.name();
        let callers = &route.access.methods;
        let callers = if callers.is_empty() { "any caller".to_owned() } else { callers.join(", ") };
        lines.push(format!(
            "  {}  {client} clients at {} -> {agent} agent at {}, for {callers}",
            route.name,
            route.path,
            hosts.join(", ")
        ));
    }
    lines
}

fn severity_name(severity: ProblemSeverity) -> &'static str {
    match severity {
        ProblemSeverity::Error => "error",
        ProblemSeverity::Warning => "warning",
    }
}

/// Formats a workflow command, `::error file=…,line=…,col=…,title=…::…`, always one line.
fn github_annotation(problem: &ConfigProblem) -> String {
    let ConfigProblem { severity, file, line, column, path, message, hint, .. } = problem;
    let place = line.zip(*column).map_or(String::new(), |(line, column)| format!(",line={line},col={column}"));
    let title = if path.is_empty() { "configuration" } else { path };
    let hint = hint.as_ref().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    let file = escape_property(file);
    let title = escape_property(title);
    let text = escape_data(&format!("{message}{hint}"));
    format!("::{} file={file}{place},title={title}::{text}", severity_name(*severity))
}

/// Escapes text like `escapeData` in GitHub's toolkit (`@actions/core`).
fn escape_data(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    escape_text(&text)
}

/// Escapes text like `escapeProperty` in GitHub's toolkit.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_annotations_into_one_line() {
        let mut problem = ConfigProblem::for_path(Path::new("a\x1bb"), "c\x1b[2J".to_owned());
        problem.path = "d\x1b\n".to_owned();
        assert_eq!(github_annotation(&problem), "::error file=a␛b,title=d␛%0A::c␛[2J");
        assert_eq!(problem.to_string(), "a\u{fffd}b: d\u{fffd}\u{fffd}: c\u{fffd}[2J");
        let mut problem = ConfigProblem::for_path(Path::new("a,b:c.yaml"), "100 % of\r\nit".to_owned());
        assert_eq!(github_annotation(&problem), "::error file=a%2Cb%3Ac.yaml,title=configuration::100 %25 of%0D%0Ait");
        problem.severity = ProblemSeverity::Warning;
        (problem.line, problem.column, problem.path) = (Some(3), Some(7), "routes[0].x:y".to_owned());
        problem.hint = Some("a: b".to_owned());
        assert_eq!(
            github_annotation(&problem),
            "::warning file=a%2Cb%3Ac.yaml,line=3,col=7,title=routes[0].x%3Ay::100 %25 of%0D%0Ait%0Ahint: a: b"
        );
    }
}
