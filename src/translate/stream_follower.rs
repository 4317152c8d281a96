//! Follows a stream that outlives its run: selects the run's frames, and finds the position to resume from after a
//! broken connection.
//!
//! Some agents keep one stream for a whole conversation and serve it from any position. It may contain frames of other
//! runs; a client that reconnects with the last frame's id gets the frames after it. An agent that ignores the id
//! starts over; frames already received are then dropped.

use super::frame_reader::AgentFrame;
use crate::codec::json;
use crate::event::{EventLoss, Field, get};
use std::borrow::Cow;

/// Maximum length of an id kept for resuming; real ids are shorter.
const ID_LIMIT: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct StreamFollower {
    run_filter: RunFilter,
    /// repeated only if the stream starts over
    first_id: Option<Box<str>>,
    /// `None` if the last frame had no id
    last_id: Option<Box<str>>,
    position: ReplayPosition,
}

/// Selects the run's events, including those that name no run.
///
/// ```text
///   Undecided ── another run's ──▶ OtherRun ── ours ──▶ OwnRun
///     ╰─────────────────── ours ───────────────────────▲
/// ```
#[derive(Debug)]
enum RunFilter {
    /// reads every event, because the agent sent no id for the run
    All,
    /// no event has named a run yet; in some dialects none does
    Undecided(Box<str>),
    /// another run comes first, and events that name no run belong to it
    OtherRun(Box<str>),
    OwnRun(Box<str>),
}

#[derive(Debug)]
enum ReplayPosition {
    /// the stream is new, or past the last frame
    New,
    /// the next frame begins a body that must continue after `last`
    Resumed,
    /// the stream started over and has not reached `last`
    Repeating,
}

impl StreamFollower {
    /// Creates a follower; `run_id` is the agent's id for the run.
    pub(super) fn new(run_id: Option<&str>) -> Self {
        let run_filter = run_id.map_or(RunFilter::All, |id| RunFilter::Undecided(id.into()));
        StreamFollower { run_filter, first_id: None, last_id: None, position: ReplayPosition::New }
    }

    /// Returns the reason if the frame is skipped.
    pub(super) fn skip_reason(&mut self, frame: &AgentFrame<'_>) -> Option<EventLoss> {
        let id = frame.id.filter(|id| !id.is_empty() && id.len() <= ID_LIMIT);
        if self.is_repeated(id) {
            return Some(EventLoss::Repeated);
        }
        if self.last_id.as_deref() != id {
            self.last_id = id.map(Into::into);
        }
        if self.first_id.is_none() {
            self.first_id.clone_from(&self.last_id);
        }
        (!self.is_own_run(frame.data)).then_some(EventLoss::OtherRun)
    }

    /// Returns `None` if the last frame had no id, since resuming from an older one would repeat frames.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    pub(super) fn resume(&mut self) {
        self.position = ReplayPosition::Resumed;
    }

    fn is_repeated(&mut self, id: Option<&str>) -> bool {
        let is_last = id == self.last_id.as_deref();
        let is_first = id == self.first_id.as_deref();
        match self.position {
            ReplayPosition::New => false,
            // An agent that includes the last frame when resuming may repeat it.
            ReplayPosition::Resumed if is_last => {
                self.position = ReplayPosition::New;
                true
            }
            ReplayPosition::Resumed if is_first => {
                self.position = ReplayPosition::Repeating;
                true
            }
            ReplayPosition::Resumed => {
                self.position = ReplayPosition::New;
                false
            }
            ReplayPosition::Repeating => {
                if is_last {
                    self.position = ReplayPosition::New;
                }
                true
            }
        }
    }

    fn is_own_run(&mut self, data: &str) -> bool {
        let run = match &self.run_filter {
            RunFilter::All => return true,
            RunFilter::Undecided(run) | RunFilter::OtherRun(run) | RunFilter::OwnRun(run) => run,
        };
        let object = json::parse_object(data).ok();
        let named = object.as_ref().and_then(|object| get(&object.members, Field::RunId));
        let named = named.filter(|id| !id.is_null()).map(|id| id.text().unwrap_or(Cow::Borrowed(id.as_str())));
        let ours = named.map(|id| *id == **run);
        match (ours, &self.run_filter) {
            (Some(true), RunFilter::Undecided(run) | RunFilter::OtherRun(run)) => {
                self.run_filter = RunFilter::OwnRun(run.clone());
            }
            (Some(false), RunFilter::Undecided(run)) => self.run_filter = RunFilter::OtherRun(run.clone()),
            _ => {}
        }
        ours.unwrap_or(!matches!(self.run_filter, RunFilter::OtherRun(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'a>(id: &'a str, data: &'a str) -> AgentFrame<'a> {
        AgentFrame { id: (!id.is_empty()).then_some(id), ..AgentFrame::from_data(data) }
    }

    fn taken_ids(follow: &mut StreamFollower, frames: &[&str]) -> Vec<String> {
        let taken = frames.iter().filter(|id| match follow.skip_reason(&frame(id, "{}")) {
            None => true,
            Some(loss) => {
                assert_eq!(loss, EventLoss::Repeated);
                false
            }
        });
        taken.map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn takes_only_its_own_run_from_a_stream_of_several() {
        let rows = [
            (r#"{"type":"A"}"#, true),
            (r#"{"type":"A","runId":"old"}"#, false),
            (r#"{"type":"A"}"#, false),
            ("no JSON", false),
            (r#"{"type":"A","runId":"7"}"#, true),
            (r#"{"type":"A","run_id":7}"#, true),
            (r#"{"type":"A"}"#, true),
            (r#"{"type":"A","runId":null}"#, true),
            ("no JSON", true),
            (r#"{"type":"A","runId":"old"}"#, false),
        ];
        let mut follow = StreamFollower::new(Some("7"));
        for (data, taken) in rows {
            assert_eq!(follow.skip_reason(&frame("", data)), (!taken).then_some(EventLoss::OtherRun), "{data}");
            assert_eq!(StreamFollower::new(None).skip_reason(&frame("", data)), None);
        }
    }

    #[test]
    fn takes_each_frame_once_however_the_agent_resumes() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("behind the last", &["4", "5"], &["4", "5"]),
            ("with the last", &["3", "4", "5"], &["4", "5"]),
            ("from the beginning", &["1", "2", "3", "4", "5"], &["4", "5"]),
            ("somewhere else", &["9", "1"], &["9", "1"]),
        ];
        for (how, again, taken) in rows {
            let mut follow = StreamFollower::new(None);
            assert_eq!(taken_ids(&mut follow, &["1", "2", "3"]).len(), 3);
            assert_eq!(follow.last_id(), Some("3"));
            follow.resume();
            assert_eq!(taken_ids(&mut follow, again), *taken, "{how}");
        }
    }

    #[test]
    fn cannot_resume_after_a_frame_without_an_id() {
        let mut follow = StreamFollower::new(None);
        taken_ids(&mut follow, &["1", ""]);
        assert_eq!(follow.last_id(), None);
        taken_ids(&mut follow, &["3"]);
        assert_eq!(follow.last_id(), Some("3"));
        taken_ids(&mut follow, &[&"x".repeat(ID_LIMIT + 1)]);
        assert_eq!(follow.last_id(), None);
    }
}
