//! `diglot check`: lists all problems in configurations, and who may call each route of a valid one.

use super::check_examples;
use super::check_recordings;
use super::output::{CliExit, CliResult, print_error, print_line, with_plural};
use crate::admin;
use crate::config::load;
use crate::config::{Config, ConfigProblem, ProblemSeverity};
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

--against takes the route of the same name, or the only one with the dialects of the recording, and needs no network. What the agent sent \
stays as recorded.

Secrets in the output of `diglot config` are masked: fill them in before you check it.

Exit codes: 0 ok, 1 warnings and --strict, differences, or failed examples, 2 usage, 69 the folder has no recordings, 78 invalid configuration.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CheckArgs {
    /// Configuration files, `-` for stdin
    #[arg(required = true, env = "DIGLOT_CONFIG", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of the problems
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,

    /// Fail on warnings
    #[arg(long)]
    strict: bool,

    /// Translate each recording of this folder as the configuration has it, and print what its client would see
    /// differently
    #[arg(long, value_name = "FOLDER", conflicts_with = "format")]
    against: Option<PathBuf>,

    /// The files are dialect files: run the examples under `tests:` of each, and print those that differ
    #[arg(long, conflicts_with_all = ["format", "against"])]
    test: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CheckFormat {
    Text,
    Json,
    Github,
}

pub(super) fn run(arguments: &CheckArgs) -> CliResult {
    if arguments.test {
        return check_examples::run(&arguments.files);
    }
    if let Some(folder) = &arguments.against {
        return check_against(arguments, folder);
    }
    let mut all = Vec::new();
    for file in &arguments.files {
        let (problems, config) = check_file(file);
        if arguments.format == CheckFormat::Text {
            problems.iter().all(print_line);
            if let Some(config) = config {
                print_summary(&file.display().to_string(), &config);
            }
        }
        for (severity, noun) in [(ProblemSeverity::Error, "problem"), (ProblemSeverity::Warning, "warning")] {
            let count = problems.iter().filter(|problem| problem.severity == severity).count();
            if count > 0 {
                print_error(format_args!("{}: {}", file.display(), with_plural(count, noun)));
            }
        }
        all.extend(problems);
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
    let has_errors = all.iter().any(|problem| problem.severity == ProblemSeverity::Error);
    Ok(match (has_errors, all.is_empty()) {
        (true, _) => CliExit::Config,
        (false, false) if arguments.strict => CliExit::Problems,
        (false, _) => CliExit::Ok,
    })
}

/// Compares the recordings of a folder with what a valid configuration makes of them.
fn check_against(arguments: &CheckArgs, folder: &Path) -> CliResult {
    let [file] = arguments.files.as_slice() else {
        return Err(CliExit::Usage.failure("--against compares with one configuration; check the others by themselves"));
    };
    let (problems, config) = check_file(file);
    problems.iter().all(|problem| {
        print_error(problem);
        true
    });
    let is_warned = arguments.strict && !problems.is_empty();
    let Some(config) = config else { return Ok(CliExit::Config) };
    let exit = check_recordings::run(&config, folder)?;
    Ok(if is_warned { CliExit::Problems } else { exit })
}

/// Returns a file's problems, and the configuration if it is valid.
fn check_file(file: &Path) -> (Vec<ConfigProblem>, Option<Config>) {
    let read = if file == Path::new("-") {
        let read = read_file::read_limited(io::stdin().lock());
        read.map_err(|error| ConfigProblem::for_path(file, error.to_string()).into())
    } else {
        load::read_source(file)
    };
    admin::check_config(file, read)
}

/// Prints each route and who may call it.
fn print_summary(file: &str, config: &Config) {
    print_line(format_args!("{file}: ok, {}", with_plural(config.routes.len(), "route")));
    for route in &config.routes {
        let hosts: Vec<&str> = route.upstreams.iter().map(|upstream| upstream.url.as_str()).collect();
        let client = route.client.name();
        let agent = route.agent.name();
        let callers = &route.access.methods;
        let callers = if callers.is_empty() { "any caller".to_owned() } else { callers.join(", ") };
        print_line(format_args!(
            "  {}  {client} clients at {} -> {agent} agent at {}, for {callers}",
            route.name,
            route.path,
            hosts.join(", ")
        ));
    }
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
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
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
