//! A stream that outlives its run: which of its frames are ours, and where to go on after it broke.
//!
//! Some agents keep one stream for a whole conversation and hand it out from any point on. Frames of other runs stand in
//! it, and a reader that comes back with the id of the last frame gets those behind it. An agent that takes no notice of
//! that id begins anew; what was heard is left out then.

use super::framed::Frame;
use super::report::Loss;
use crate::codec::json;
use crate::event::{Field, get};
use std::borrow::Cow;

/// Longest id that is kept to go on from; nobody numbers events with longer ones.
const ID_LIMIT: usize = 1 << 10;

/// How far such a stream was read.
#[derive(Debug)]
pub(super) struct Follow {
    run: Ours,
    /// id of the first frame, which only a stream that begins anew says again
    first: Option<Box<str>>,
    /// id of the last frame that came, unless that one had none
    last: Option<Box<str>>,
    place: Place,
}

/// Which events belong to the run, and with that those that name none.
///
/// ```text
///   Open ── another run's ──▶ Before ── ours ──▶ Within
///     ╰─────────────── ours ────────────────────────▲
/// ```
#[derive(Debug)]
enum Ours {
    /// the agent named no run, so all of them
    All,
    /// those of this run; no event has named one yet, and there are dialects in which none does
    Open(Box<str>),
    /// those of this run, which is to come behind another; whatever names none is the other's
    Before(Box<str>),
    /// those of this run, which has begun
    Within(Box<str>),
}

/// Where in the stream the next frame stands.
#[derive(Debug)]
enum Place {
    /// behind the last one
    New,
    /// the first frame of a body that has to go on behind `last`
    Resumed,
    /// before `last`, in a stream that began anew
    Heard,
}

impl Follow {
    /// A stream from its beginning, in which the agent calls the run `run_id`.
    pub(super) fn new(run_id: Option<&str>) -> Self {
        let run = run_id.map_or(Ours::All, |id| Ours::Open(id.into()));
        Follow { run, first: None, last: None, place: Place::New }
    }

    /// As what the frame is left out: `None` when it is new and belongs to the run.
    pub(super) fn left_out(&mut self, frame: &Frame<'_>) -> Option<Loss> {
        let id = frame.id.filter(|id| !id.is_empty() && id.len() <= ID_LIMIT);
        if self.heard(id) {
            return Some(Loss::Repeated);
        }
        if self.last.as_deref() != id {
            self.last = id.map(Into::into);
        }
        if self.first.is_none() {
            self.first.clone_from(&self.last);
        }
        (!self.is_ours(frame.data)).then_some(Loss::OtherRun)
    }

    /// The id to go on from. None while the last frame had none: what came before it would come again.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Another body begins, which was asked for from [`Follow::last`] on.
    pub(super) fn resume(&mut self) {
        self.place = Place::Resumed;
    }

    fn heard(&mut self, id: Option<&str>) -> bool {
        let (is_last, is_first) = (id == self.last.as_deref(), id == self.first.as_deref());
        match self.place {
            Place::New => false,
            // The last frame itself may be said again by an agent that counts from it.
            Place::Resumed if is_last => {
                self.place = Place::New;
                true
            }
            Place::Resumed if is_first => {
                self.place = Place::Heard;
                true
            }
            Place::Resumed => {
                self.place = Place::New;
                false
            }
            Place::Heard => {
                if is_last {
                    self.place = Place::New;
                }
                true
            }
        }
    }

    fn is_ours(&mut self, data: &str) -> bool {
        let run = match &self.run {
            Ours::All => return true,
            Ours::Open(run) | Ours::Before(run) | Ours::Within(run) => run,
        };
        let object = json::object(data).ok();
        let said = object.as_ref().and_then(|object| get(&object.members, Field::RunId));
        let said = said.filter(|id| !id.is_null()).map(|id| id.text().unwrap_or(Cow::Borrowed(id.as_str())));
        let ours = said.map(|id| *id == **run);
        match (ours, &self.run) {
            (Some(true), Ours::Open(run) | Ours::Before(run)) => self.run = Ours::Within(run.clone()),
            (Some(false), Ours::Open(run)) => self.run = Ours::Before(run.clone()),
            _ => {}
        }
        ours.unwrap_or(!matches!(self.run, Ours::Before(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'a>(id: &'a str, data: &'a str) -> Frame<'a> {
        Frame { id: (!id.is_empty()).then_some(id), ..Frame::whole(data) }
    }

    fn ids(follow: &mut Follow, frames: &[&str]) -> Vec<String> {
        let taken = frames.iter().filter(|id| match follow.left_out(&frame(id, "{}")) {
            None => true,
            Some(loss) => {
                assert_eq!(loss, Loss::Repeated);
                false
            }
        });
        taken.map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn of_a_stream_with_several_runs_only_ours_is_taken() {
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
        let mut follow = Follow::new(Some("7"));
        for (data, taken) in rows {
            assert_eq!(follow.left_out(&frame("", data)), (!taken).then_some(Loss::OtherRun), "{data}");
            assert_eq!(Follow::new(None).left_out(&frame("", data)), None);
        }
    }

    #[test]
    fn a_frame_is_taken_once_however_the_agent_goes_on() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("behind the last", &["4", "5"], &["4", "5"]),
            ("with the last", &["3", "4", "5"], &["4", "5"]),
            ("from the beginning", &["1", "2", "3", "4", "5"], &["4", "5"]),
            ("somewhere else", &["9", "1"], &["9", "1"]),
        ];
        for (how, again, taken) in rows {
            let mut follow = Follow::new(None);
            assert_eq!(ids(&mut follow, &["1", "2", "3"]).len(), 3);
            assert_eq!(follow.last(), Some("3"));
            follow.resume();
            assert_eq!(ids(&mut follow, again), *taken, "{how}");
        }
    }

    #[test]
    fn a_frame_without_an_id_is_no_place_to_go_on_from() {
        let mut follow = Follow::new(None);
        ids(&mut follow, &["1", ""]);
        assert_eq!(follow.last(), None);
        ids(&mut follow, &["3"]);
        assert_eq!(follow.last(), Some("3"));
        ids(&mut follow, &[&"x".repeat(ID_LIMIT + 1)]);
        assert_eq!(follow.last(), None);
    }
}
