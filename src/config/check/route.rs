//! Routes: which path leads to which agent, and how long that may take.

use serde_saphyr::Spanned;

use super::paths::Labels;
use super::{Check, position};
use crate::config::{Route, Timeouts, file, scalar, words};

impl Check<'_> {
    pub(super) fn routes(&mut self, routes: &Spanned<Vec<Spanned<file::Route>>>) -> Option<Vec<Route>> {
        if routes.value.is_empty() && !self.source.misplaced.is_empty() {
            return None;
        }
        if routes.value.is_empty() {
            let hint =
                "add one: `routes: [{path: /chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/\"}]`";
            self.note("routes", position(routes.defined), "there is no route, so nothing could be served", hint);
            return None;
        }
        let mut labels = Labels::default();
        let mut checked = Vec::new();
        for (index, route) in routes.value.iter().enumerate() {
            checked.push(self.route(route, &format!("routes[{index}]"), &mut labels));
        }
        let (paths, names): (Vec<_>, Vec<_>) = (labels.paths.iter().collect(), labels.names.iter().collect());
        let hint = "send each path to one route: change one of the two, or take one route away";
        self.distinct(&paths, |one, other| one == other, "this path is already taken by", hint);
        let hint = "give each route a name of its own; without one it is named by its path";
        self.distinct(&names, |one, other| one == other, "this name is already taken by", hint);
        self.disjoint(&labels);
        checked.into_iter().collect()
    }

    fn route(&mut self, written: &Spanned<file::Route>, at: &str, labels: &mut Labels) -> Option<Route> {
        let route = &written.value;
        let whole = position(written.defined);
        let path = self.required(route.path.as_ref(), at, "path", whole);
        let path = path.and_then(|path| self.seen(path, &format!("{at}.path"), scalar::path));
        let name = match &route.name {
            Some(name) => self.seen(name, &format!("{at}.name"), scalar::name),
            None => path.clone(),
        };
        labels.add(path.clone(), name.clone());
        let client = self.required(route.client.as_ref(), at, "client", whole);
        let client = client.and_then(|side| self.side(side, &format!("{at}.client")));
        let events_path = self.events_path(route, client, at, labels);
        let on_disconnect = self.on_disconnect(route, path.as_ref(), at, labels);
        let agent = self.required(route.agent.as_ref(), at, "agent", whole);
        let agent = agent.and_then(|side| self.side(side, &format!("{at}.agent")));
        let upstreams = self.required(route.upstream.as_ref(), at, "upstream", whole);
        let upstreams = upstreams.and_then(|list| self.upstreams(list, &format!("{at}.upstream")));
        let (tls, all) = (route.upstream_tls.as_ref(), upstreams.as_deref());
        let upstream_tls = self.upstream_tls(tls, &format!("{at}.upstream_tls"), all);
        let health = self.health(route.health.as_ref(), &format!("{at}.health"));
        let ejection = self.ejection(&route.ejection, &format!("{at}.ejection"));
        let events = route.events.as_ref().map(|events| self.value(events, &format!("{at}.events"), scalar::events));
        let guard = self.choice(&route.guard, &format!("{at}.guard"), words::GUARD);
        let timeouts = self.timeouts(&route.timeouts, &format!("{at}.timeouts"));
        let access = self.access(route, at);
        Some(Route {
            name: name?.value,
            path: path?.value,
            events_path: events_path?,
            on_disconnect: on_disconnect?,
            client: client?,
            agent: agent?,
            upstreams: upstreams?,
            upstream_tls: upstream_tls?,
            health: health?,
            ejection: ejection?,
            events: match events {
                Some(read) => Some(read?),
                None => None,
            },
            guard: guard?,
            timeouts: timeouts?,
            access: access?.into(),
        })
    }

    fn timeouts(&mut self, written: &file::Timeouts, at: &str) -> Option<Timeouts> {
        let connect = self.value(&written.connect, &format!("{at}.connect"), scalar::duration);
        let first_byte = self.value(&written.first_byte, &format!("{at}.first_byte"), scalar::duration);
        let first_event = self.optional(written.first_event.as_ref(), &format!("{at}.first_event"), scalar::duration);
        let idle = self.value(&written.idle, &format!("{at}.idle"), scalar::duration);
        let reader = self.value(&written.reader, &format!("{at}.reader"), scalar::duration);
        Some(Timeouts {
            connect: connect?,
            first_byte: first_byte?,
            first_event: first_event?,
            idle: idle?,
            reader: reader?,
        })
    }
}
