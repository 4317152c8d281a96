//! Streams of the inspector: each reader looks by itself at what the runs have captured, so no run waits for a reader.

use super::api_types::RunOverview;
use crate::inspect::{CaptureStore, CapturedRun, ReaderStep, RunReader, RunReading, RunRecorder, TapPlace};
use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval at which a reader looks for something new.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which changes of a run are reported.
const RUNS_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time for which a list waits for the causes of runs: the others come later.
const SEARCH_TIME: Duration = Duration::from_millis(50);

type Line = Result<Bytes, Infallible>;

fn add_line(lines: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to memory cannot fail, nor can these types.
    let _ = serde_json::to_writer(&mut *lines, value);
    lines.push(b'\n');
}

/// Streams the summaries of all runs, and with `follow` of those that change.
pub(super) fn runs(captures: Arc<CaptureStore>, follow: bool) -> impl Stream<Item = Line> + Send {
    let known: Option<BTreeMap<u64, u64>> = None;
    unfold((captures, known), move |(captures, mut known)| async move {
        loop {
            match &known {
                Some(_) if !follow => return None,
                Some(_) => sleep(RUNS_INTERVAL).await,
                None => {}
            }
            let searched = Arc::clone(&captures);
            let search = move || searched.find_causes(Instant::now() + SEARCH_TIME);
            // After a panic, a cause is missing.
            let _ = tokio::task::spawn_blocking(search).await;
            let before = known.take().unwrap_or_default();
            let (mut now, mut lines) = (BTreeMap::new(), Vec::new());
            for run in captures.runs() {
                let version = run.version();
                if before.get(&run.id) != Some(&version) {
                    add_line(&mut lines, &RunOverview::new(&run));
                }
                now.insert(run.id, version);
            }
            for id in before.keys().filter(|id| !now.contains_key(id)) {
                add_line(&mut lines, &json!({"id": id, "gone": true}));
            }
            known = Some(now);
            if !lines.is_empty() || !follow {
                return Some((Ok(lines.into()), (captures, known)));
            }
        }
    })
}

/// Streams the rows of a run, and with `follow` those to come.
pub(super) fn rows(
    captures: Arc<CaptureStore>,
    run: &Arc<CapturedRun>,
    follow: bool,
) -> impl Stream<Item = Line> + Send + use<> {
    unfold((captures, Some(RunReader::new(run))), move |(captures, mut reader)| async move {
        loop {
            let (returned, step) = read_next(reader.take()?).await?;
            let mut lines = Vec::new();
            match step {
                ReaderStep::Rows(rows) if rows.is_empty() && follow => sleep(POLL_INTERVAL).await,
                ReaderStep::Rows(rows) if rows.is_empty() => return None,
                ReaderStep::Rows(rows) => {
                    rows.iter().for_each(|row| add_line(&mut lines, row));
                    return Some((Ok(lines.into()), (captures, Some(returned))));
                }
                ReaderStep::Ended => return None,
                ReaderStep::Evicted => {
                    captures.count_partly_missed();
                    add_line(&mut lines, &json!({"gone": true}));
                    return Some((Ok(lines.into()), (captures, None)));
                }
            }
            reader = Some(returned);
        }
    })
}

/// Streams a run as a recording, up to what has happened so far.
pub(super) fn recording(
    captures: Arc<CaptureStore>,
    run: &Arc<CapturedRun>,
) -> impl Stream<Item = Line> + Send + use<> {
    unfold((captures, RunRecorder::new(run)), |(captures, mut recorder)| async move {
        let lines = tokio::task::spawn_blocking(move || recorder.next_lines().map(|lines| (lines, recorder)));
        // Fails only if the process ends, or after a panic.
        let (lines, recorder) = lines.await.ok()??;
        if recorder.is_gone() {
            captures.count_partly_missed();
        }
        Some((Ok(lines.into()), (captures, recorder)))
    })
}

/// Streams both sides' events as AG-UI, up to what has happened so far.
pub(super) fn reading(run: &Arc<CapturedRun>) -> impl Stream<Item = Line> + Send + use<> {
    unfold(RunReading::new(run), |mut reading| async move {
        let rows = tokio::task::spawn_blocking(move || reading.next_rows().map(|rows| (rows, reading)));
        // Fails only if the process ends, or after a panic.
        let (rows, reading) = rows.await.ok()??;
        let mut lines = Vec::new();
        rows.iter().for_each(|row| add_line(&mut lines, row));
        Some((Ok(lines.into()), reading))
    })
}

/// Translates on a thread for such work: a batch takes milliseconds.
async fn read_next(mut reader: RunReader) -> Option<(RunReader, ReaderStep)> {
    let read = tokio::task::spawn_blocking(move || {
        let step = reader.next();
        (reader, step)
    });
    // Fails only if the process ends, or after a panic.
    read.await.ok()
}

/// Bytes of lines after which a tap waits until they are sent: there may be thousands of runs to read.
const TAP_BATCH: usize = 64 << 10;

/// A run that a tap reads.
struct TappedRun {
    id: u64,
    run: Weak<CapturedRun>,
    /// absent until its first rows are read
    reader: Option<RunReader>,
}

struct Tap {
    captures: Arc<CaptureStore>,
    place: Arc<TapPlace>,
    follow: bool,
    reading: VecDeque<TappedRun>,
}

/// Streams the rows of all runs of a tap, and with `follow` those of runs that begin from now on. Also streams how many
/// runs it missed: a run does not wait for its readers.
pub(super) fn tap(captures: Arc<CaptureStore>, place: Arc<TapPlace>, follow: bool) -> impl Stream<Item = Line> + Send {
    let tap = Tap { captures, place, follow, reading: VecDeque::new() };
    unfold(tap, |mut tap| async move {
        loop {
            let lines = tap.next_lines().await?;
            if !lines.is_empty() {
                return Some((Ok(lines.into()), tap));
            }
            if !tap.follow && tap.reading.is_empty() {
                return None;
            }
            sleep(POLL_INTERVAL).await;
        }
    })
}

impl Tap {
    /// Returns lines for new runs, rows and ends: one batch of each run in progress, and all of one that has ended
    /// before the next.
    async fn next_lines(&mut self) -> Option<Vec<u8>> {
        let mut lines = Vec::new();
        for run in self.captures.new_runs(&self.place) {
            self.reading.push_back(TappedRun { id: run.id, run: Arc::downgrade(&run), reader: None });
        }
        for _ in 0..self.reading.len() {
            if lines.len() > TAP_BATCH {
                break;
            }
            let TappedRun { id, run, reader } = self.reading.pop_front()?;
            let Some(reader) = reader.or_else(|| begin_reading(&run, &mut lines)) else {
                self.place.add_missed();
                continue;
            };
            let is_ended = run.upgrade().is_some_and(|run| run.is_ended());
            let (reader, step) = read_next(reader).await?;
            match step {
                ReaderStep::Rows(rows) => {
                    rows.iter().for_each(|row| add_line(&mut lines, &json!({"id": id, "row": row})));
                    let tapped = TappedRun { id, run, reader: Some(reader) };
                    if is_ended { self.reading.push_front(tapped) } else { self.reading.push_back(tapped) }
                }
                ReaderStep::Ended => match self.captures.find(id) {
                    Some(run) => add_line(&mut lines, &json!({"run": RunOverview::new(&run)})),
                    // All its rows were read, and how it ended is gone.
                    None => {
                        self.captures.count_partly_missed();
                        add_cut_line(id, &reader, &mut lines);
                    }
                },
                ReaderStep::Evicted => {
                    self.captures.count_partly_missed();
                    add_cut_line(id, &reader, &mut lines);
                }
            }
        }
        let missed = self.place.take_missed();
        if missed > 0 {
            add_line(&mut lines, &json!({"missed_runs": missed}));
        }
        Some(lines)
    }
}

/// Adds the line for a run that was evicted before its end was read.
fn add_cut_line(id: u64, reader: &RunReader, lines: &mut Vec<u8>) {
    add_line(lines, &json!({"id": id, "gone": true, "last_row": reader.last_row()}));
}

/// Returns a reader of the run, after the line that begins it; `None` if the run was evicted.
fn begin_reading(run: &Weak<CapturedRun>, lines: &mut Vec<u8>) -> Option<RunReader> {
    let run = run.upgrade()?;
    add_line(lines, &json!({"run": RunOverview::new(&run)}));
    Some(RunReader::new(&run))
}
