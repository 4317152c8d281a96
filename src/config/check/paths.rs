//! Checks that no request path matches two routes.

use crate::config::PathTemplate;
use crate::config::checker::{ConfigChecker, LocatedValue, Place};
use crate::config::file::RouteSpec;
use crate::config::replay::OnDisconnect;
use crate::config::text::Spanned;

#[derive(Default)]
struct RouteIdentifiers {
    paths: Vec<LocatedValue<String>>,
    names: Vec<LocatedValue<String>>,
    events: Vec<LocatedValue<PathTemplate>>,
    /// The request paths for resuming and stopping runs.
    runs: Vec<LocatedValue<[PathTemplate; 2]>>,
}

impl RouteIdentifiers {
    fn add(&mut self, route: &RouteSpec, checker: &ConfigChecker<'_>, at: &Place) {
        let path = checker.locate(route.path.as_ref(), &at.key("path"));
        let name = match &route.name.0 {
            Some(name) => checker.locate(Some(name), &at.key("name")),
            // A repeated path is reported once, not again as a repeated name.
            None => path.clone().filter(|path| self.paths.iter().all(|earlier| earlier.value != path.value)),
        };
        self.names.extend(name);
        self.events.extend(checker.locate(route.events_path.as_ref(), &at.key("events_path")));
        let on_disconnect = checker.locate(Some(&route.on_disconnect), &at.key("on_disconnect"));
        if let (Some(path), Some(LocatedValue { value: OnDisconnect::Continue(_), place })) = (&path, on_disconnect) {
            self.runs.push(LocatedValue::new(PathTemplate::for_runs(&path.value), place));
        }
        self.paths.extend(path);
    }
}

impl ConfigChecker<'_> {
    pub(super) fn check_paths(&mut self, routes: &[Spanned<RouteSpec>]) {
        let mut all = RouteIdentifiers::default();
        for (index, route) in routes.iter().enumerate() {
            all.add(&route.value, self, &Place::new("routes").index(index));
        }
        let hint = "use each path in one route: change one of the two, or remove one route";
        self.report_duplicates(&all.paths, "this path is already used by", hint);
        let hint = "give each route a unique name; the default is its path";
        self.report_duplicates(&all.names, "this name is already used by", hint);
        let hint = "add a segment of its own, such as `/events` at the end";
        self.report_conflicts(&all.events, PathTemplate::overlaps, "some request paths match both this and", hint);
        for events in &all.events {
            if let Some(path) = all.paths.iter().find(|path| events.value.matches_path(&path.value)) {
                self.report_error(&events.place.at_use(), format!("this covers {}", path.describe_location()), hint);
            }
        }
        let hint = "give the other path a distinct segment, or write `on_disconnect: abort`";
        for runs in &all.runs {
            let path = all.paths.iter().find(|path| runs.value.iter().any(|own| own.matches_path(&path.value)));
            let events = all.events.iter().find(|events| runs.value.iter().any(|own| own.overlaps(&events.value)));
            let other = path.map(LocatedValue::describe_location).or(events.map(LocatedValue::describe_location));
            if let Some(other) = other {
                let message = format!("runs of this route are served below its path, which {other} also uses");
                self.report_error(&runs.place.at_use(), message, hint);
            }
        }
    }
}
