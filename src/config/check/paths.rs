//! Paths of routes: no request may be for two of them.

use super::{Check, Seen, position, quoted};
use crate::config::{Template, file, scalar};
use crate::dialect::{self, Side};

/// What tells routes apart: no two may have one of these in common.
#[derive(Default)]
pub(super) struct Labels {
    pub paths: Vec<Seen<String>>,
    pub names: Vec<Seen<String>>,
    pub events: Vec<Seen<Template>>,
    /// where runs are found that outlive their clients
    pub runs: Vec<Seen<[Template; 2]>>,
}

impl Labels {
    pub fn add(&mut self, path: Option<Seen<String>>, name: Option<Seen<String>>) {
        // A path that was there before is noted as such; that it is a name as well would be the same mistake again.
        let again = |name: &Seen<String>| {
            let is_path = path.as_ref().is_some_and(|path| path.position == name.position);
            is_path && self.paths.iter().any(|earlier| earlier.value == name.value)
        };
        self.names.extend(name.filter(|name| !again(name)));
        self.paths.extend(path);
    }
}

impl Check<'_> {
    /// No request may be one for a run and one for its events, or for the events of two routes.
    pub(super) fn disjoint(&mut self, labels: &Labels) {
        let hint = "give it a segment of its own, such as `/events` at its end";
        let all: Vec<&Seen<Template>> = labels.events.iter().collect();
        self.distinct(&all, Template::overlaps, "some paths are read by this and by", hint);
        for events in &labels.events {
            if let Some(path) = labels.paths.iter().find(|path| events.value.covers(&path.value)) {
                self.note(&events.path, events.position, format!("this covers {}", path.place()), hint);
            }
        }
        self.apart(labels);
    }

    /// Where clients of the route find their events, if it has such a path.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn events_path(
        &mut self,
        route: &file::Route,
        client: Option<Side>,
        at: &str,
        labels: &mut Labels,
    ) -> Option<Option<Template>> {
        let Some(written) = &route.events_path else { return Some(None) };
        let at = format!("{at}.events_path");
        let seen = self.seen(written, &at, scalar::events_path);
        // An `event:` line is for a reader that GETs (EventSource); a dialect of the operator's own has it from its base.
        if let Some(side) = client.filter(|side| !side.dialect.event_line) {
            let message = format!("clients of `{}` take their events from the answer to the POST", side.dialect.name);
            let two_steps = dialect::ALL.iter().filter(|dialect| dialect.event_line).map(|dialect| dialect.name);
            let hint = format!("take it away; it belongs to {}", quoted(two_steps));
            self.note(&at, position(written.defined), message, hint);
        }
        let seen = seen?;
        labels.events.push(seen.clone());
        Some(Some(seen.value))
    }

    /// The paths below one route, at which its runs are read again and stopped, are no other route's.
    fn apart(&mut self, labels: &Labels) {
        let hint = "give the other path a segment of its own, or write `on_disconnect: abort`";
        for runs in &labels.runs {
            let taken = labels.paths.iter().find(|path| runs.value.iter().any(|own| own.covers(&path.value)));
            let read = labels.events.iter().find(|events| runs.value.iter().any(|own| own.overlaps(&events.value)));
            let other = taken.map(Seen::place).or(read.map(Seen::place));
            if let Some(other) = other {
                let message = format!("runs of this route are found below its path, where {other} is as well");
                self.note(&runs.path, runs.position, message, hint);
            }
        }
    }
}
