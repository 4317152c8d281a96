//! Counts what happened, prints it, and keeps the evidence of what is wrong.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Violations whose evidence is kept, at most.
const MOST_FILES: usize = 200;

/// Lines of the gateways' logs that are kept with a violation: those of about two seconds.
const LOG_LINES: usize = 200;

#[derive(Default)]
struct ReportCounts {
    outcomes: BTreeMap<String, usize>,
    pairs: BTreeMap<(String, String), [usize; 3]>,
    events: BTreeMap<String, usize>,
    first_event: Vec<Duration>,
    violations: BTreeMap<String, usize>,
    samples: Vec<String>,
}

/// The report of one soak.
pub struct SoakReport {
    folder: PathBuf,
    seed: u64,
    start: Instant,
    files: AtomicUsize,
    counts: Mutex<ReportCounts>,
    log: Mutex<VecDeque<String>>,
}

impl SoakReport {
    pub fn new(seed: u64) -> SoakReport {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/soak"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (files, counts, log) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        SoakReport { folder, seed, start: Instant::now(), files, counts, log }
    }

    /// Counts a run of a pair: finished, failed or refused for a reason, or left by its client.
    pub fn count_run(&self, client: &str, agent: &str, scenario: &str, outcome: &str) {
        let mut counts = self.counts.lock().expect("whole");
        *counts.outcomes.entry(format!("{scenario}: {outcome}")).or_default() += 1;
        let column = if outcome.starts_with("finished") { 0 } else { 1 + usize::from(!outcome.contains(": ")) };
        counts.pairs.entry((client.to_owned(), agent.to_owned())).or_default()[column] += 1;
    }

    /// Counts something else, such as a reload.
    pub fn count(&self, event: &str) {
        *self.counts.lock().expect("whole").events.entry(event.to_owned()).or_default() += 1;
    }

    pub fn note_first_event(&self, time: Duration) {
        self.counts.lock().expect("whole").first_event.push(time);
    }

    /// Keeps a line of figures for the end.
    pub fn add_sample(&self, sample: String) {
        self.print(&sample);
        self.counts.lock().expect("whole").samples.push(sample);
    }

    /// Keeps a line of a gateway's log for the evidence of a violation.
    pub fn add_log_line(&self, line: String) {
        let mut log = self.log.lock().expect("whole");
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }

    /// Records a violation: its first line, and a file with everything.
    pub fn add_violation(&self, what: &str, evidence: &str) {
        let first = what.lines().next().unwrap_or_default();
        let kind: String = first.chars().filter(|c| !c.is_ascii_digit()).take(100).collect();
        *self.counts.lock().expect("whole").violations.entry(kind).or_default() += 1;
        let number = self.files.fetch_add(1, Ordering::SeqCst);
        self.print(&format!("VIOLATION {number}: {}", first.chars().take(300).collect::<String>()));
        if number < MOST_FILES {
            let path = self.folder.join(format!("{}-{number}.txt", self.seed));
            let at = self.start.elapsed().as_secs_f64();
            let log = self.log.lock().expect("whole").iter().fold(String::new(), |text, line| text + line + "\n");
            let text = format!("seed {}, {at:.3} s\n{what}\n\n{evidence}\n\n--- the logs\n{log}", self.seed);
            std::fs::write(path, text).expect("a file");
        }
    }

    #[expect(clippy::print_stdout, reason = "the report is for the person that runs the soak")]
    pub fn print(&self, line: &str) {
        println!("[{:7.1}s] {line}", self.start.elapsed().as_secs_f64());
    }

    pub fn violations(&self) -> usize {
        self.files.load(Ordering::SeqCst)
    }

    pub fn run_count(&self) -> usize {
        self.counts.lock().expect("whole").outcomes.values().sum()
    }

    /// Prints one line about the minute that has passed.
    pub fn print_progress(&self) {
        let (runs, time) = (self.run_count(), self.start.elapsed().as_secs_f64());
        let counts = self.counts.lock().expect("whole");
        let finished: usize =
            counts.outcomes.iter().filter(|(name, _)| name.ends_with("finished")).map(|(_, count)| count).sum();
        let events: Vec<_> = counts.events.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (violations, rate) = (self.violations(), runs as f64 / time);
        drop(counts);
        self.print(&format!(
            "{runs} runs ({rate:.1}/s), {finished} finished, {violations} violations; {}",
            events.join(", ")
        ));
    }

    /// Returns the whole report.
    pub fn summary(&self) -> String {
        let mut counts = self.counts.lock().expect("whole");
        counts.first_event.sort();
        let mut out = format!("seed {}\n\nruns by scenario and outcome\n", self.seed);
        let mut table = |title: &str, rows: &BTreeMap<String, usize>| {
            write!(out, "{title}").expect("a string");
            rows.iter().for_each(|(name, count)| writeln!(out, "{count:9}  {name}").expect("a string"));
        };
        table("", &counts.outcomes);
        table("\nevents\n", &counts.events);
        table("\nviolations\n", &counts.violations);
        out += "\nruns by client and agent: finished, failed for a reason, others\n";
        for ((client, agent), [finished, failed, others]) in &counts.pairs {
            writeln!(out, "{finished:9} {failed:7} {others:7}  {client} <- {agent}").expect("a string");
        }
        let times = &counts.first_event;
        let at = |share: usize| times.get(times.len() * share / 1000).map_or(0.0, |time| 1e3 * time.as_secs_f64());
        let [median, p90, p99, p999] = [500, 900, 990, 999].map(at);
        writeln!(out, "\nfirst event: median {median:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms")
            .expect("a string");
        out += "\nquiet points\n";
        counts.samples.iter().for_each(|sample| writeln!(out, "{sample}").expect("a string"));
        out
    }
}
