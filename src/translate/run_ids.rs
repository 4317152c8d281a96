//! The ids of a run.

use crate::event::Json;

/// The ids of a run, as JSON strings, from the request or generated for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIds {
    pub(crate) thread_id: Json<'static>,
    pub(crate) run_id: Json<'static>,
}

impl RunIds {
    /// Creates ids from plain text.
    #[must_use]
    pub fn new(thread_id: &str, run_id: &str) -> Self {
        RunIds { thread_id: Json::string(thread_id), run_id: Json::string(run_id) }
    }

    pub(crate) fn truncated(&self, most: usize) -> Self {
        let beginning = |id: &Json<'_>| id.text().unwrap_or_default().chars().take(most).collect::<String>();
        RunIds::new(&beginning(&self.thread_id), &beginning(&self.run_id))
    }
}
