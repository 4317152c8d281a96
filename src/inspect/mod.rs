//! Captures what both sides of a run send while it is in progress, and aligns the two sides for each reader.
//!
//! ```text
//!   run ── what its translator was given, and when ──▶ CapturedRun ─┐ bounded: CaptureStore
//!                                                                   │
//!   reader ◀── rows: agent's event │ client's events, and why ◀── RunAligner: the same translator again
//! ```
//! The core is pure: the same input gives the same output. So a run keeps only its input, which costs it a copy of the
//! bytes it reads, and a reader translates that input again, event by event, with an explanation of each. A reader that
//! is slow delays no run: what it has not read when a run is evicted is gone.
//!
//! A recording is the same input as a file, with what the client was written.
//!
//! Of headers only those are captured with their values that are no credentials; and a route can name content that is
//! replaced before it is kept.
//!
//! Modules are listed in dependency order: each uses only those above it.

mod redaction;
mod row;
mod row_events;
mod held_rows;
mod open_ids;
mod stream_settings;
mod capture_step;
mod replayed_stream;
mod aligner;
mod agent_silence;
mod capture_budget;
mod step_log;
mod captured_run;
mod eviction;
mod glob;
mod tap_place;
mod kept_runs;
mod run_capture;
mod run_reader;
mod run_reading;
mod cause_search;
mod store;
mod recording;
mod recording_settings;
mod run_recorder;
mod recorded_run;
#[cfg(test)]
mod tests;

pub(crate) use agent_silence::RunSpan;
pub(crate) use aligner::RunAligner;
pub(crate) use capture_step::CaptureStep;
pub(crate) use captured_run::{CapturedRequests, CapturedRun, RunEnd, RunFacts, RunHead};
pub(crate) use glob::matches_glob;
pub(crate) use kept_runs::MissingRun;
pub(crate) use recorded_run::{RecordedItem, RecordedRun, RecordingError, RecordingLines};
pub(crate) use recording::{RECORDING_START, RecordingEnd, RecordingLine};
pub(crate) use redaction::Redaction;
pub(crate) use replayed_stream::ReplayedStream;
pub(crate) use row::RunCause;
pub(crate) use row_events::find_first_type;
pub(crate) use run_capture::RunCapture;
pub(crate) use run_reader::{ReaderStep, RunReader};
pub(crate) use run_reading::RunReading;
pub(crate) use run_recorder::RunRecorder;
pub(crate) use store::{CaptureStore, ModeOverride};
pub(crate) use stream_settings::StreamSettings;
pub(crate) use tap_place::TapPlace;
