//! Paths of routes: no request may be for two of them.

use super::{ConfigChecker, LocatedValue, position, quote_names};
use crate::config::{PathTemplate, file, scalar};
use crate::dialect::{self, PeerDialect};

/// The distinguishing values of routes, which must be unique.
#[derive(Default)]
pub(super) struct RouteIdentifiers {
    pub(crate) paths: Vec<LocatedValue<String>>,
    pub(crate) names: Vec<LocatedValue<String>>,
    pub(crate) events: Vec<LocatedValue<PathTemplate>>,
    /// where runs are found that outlive their clients
    pub(crate) runs: Vec<LocatedValue<[PathTemplate; 2]>>,
}

impl RouteIdentifiers {
    pub(crate) fn add(&mut self, path: Option<LocatedValue<String>>, name: Option<LocatedValue<String>>) {
        // A path that was there before is noted as such; that it is a name as well would be the same mistake again.
        let again = |name: &LocatedValue<String>| {
            let is_path = path.as_ref().is_some_and(|path| path.position == name.position);
            is_path && self.paths.iter().any(|earlier| earlier.value == name.value)
        };
        self.names.extend(name.filter(|name| !again(name)));
        self.paths.extend(path);
    }
}

impl ConfigChecker<'_> {
    /// No request may be one for a run and one for its events, or for the events of two routes.
    pub(super) fn check_disjoint_paths(&mut self, labels: &RouteIdentifiers) {
        let hint = "add a segment of its own, such as `/events` at the end";
        let all: Vec<&LocatedValue<PathTemplate>> = labels.events.iter().collect();
        self.report_duplicates(&all, PathTemplate::overlaps, "some request paths match both this and", hint);
        for events in &labels.events {
            if let Some(path) = labels.paths.iter().find(|path| events.value.matches_path(&path.value)) {
                self.report_error(
                    &events.path,
                    events.position,
                    format!("this covers {}", path.describe_location()),
                    hint,
                );
            }
        }
        self.check_run_paths(labels);
    }

    /// Checks the path where clients of the route GET their events, if it has one.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn check_events_path(
        &mut self,
        route: &file::RouteSpec,
        client: Option<PeerDialect>,
        at: &str,
        labels: &mut RouteIdentifiers,
    ) -> Option<Option<PathTemplate>> {
        let Some(written) = &route.events_path else { return Some(None) };
        let at = format!("{at}.events_path");
        let seen = self.read_located(written, &at, scalar::parse_events_path);
        // An `event:` line is for a reader that GETs (EventSource); a dialect of the operator's own has it from its base.
        if let Some(side) = client.filter(|side| !side.dialect.has_event_line) {
            let message =
                format!("clients of `{}` receive their events in the response to the POST", side.dialect.name);
            let two_steps = dialect::ALL.iter().filter(|dialect| dialect.has_event_line).map(|dialect| dialect.name);
            let hint = format!("remove it; it applies only to {}", quote_names(two_steps));
            self.report_error(&at, position(written.defined), message, hint);
        }
        let seen = seen?;
        labels.events.push(seen.clone());
        Some(Some(seen.value))
    }

    /// The paths below one route, at which its runs are read again and stopped, are no other route's.
    fn check_run_paths(&mut self, labels: &RouteIdentifiers) {
        let hint = "give the other path a distinct segment, or write `on_disconnect: abort`";
        for runs in &labels.runs {
            let taken = labels.paths.iter().find(|path| runs.value.iter().any(|own| own.matches_path(&path.value)));
            let read = labels.events.iter().find(|events| runs.value.iter().any(|own| own.overlaps(&events.value)));
            let other = taken.map(LocatedValue::describe_location).or(read.map(LocatedValue::describe_location));
            if let Some(other) = other {
                let message = format!("runs of this route are served below its path, which {other} also uses");
                self.report_error(&runs.path, runs.position, message, hint);
            }
        }
    }
}
