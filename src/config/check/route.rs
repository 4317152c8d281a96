//! Routes: which path leads to which agent, and how long that may take.

use super::paths::RouteIdentifiers;
use super::{ConfigChecker, position};
use crate::config::{RouteConfig, TimeoutsConfig, enum_values, file, scalar};

impl ConfigChecker<'_> {
    pub(super) fn check_routes(
        &mut self,
        routes: &file::Spanned<Vec<file::Spanned<file::RouteSpec>>>,
    ) -> Option<Vec<RouteConfig>> {
        if routes.value.is_empty() && !self.source.repairs.misplaced_keys.is_empty() {
            return None;
        }
        if routes.value.is_empty() {
            let hint =
                "add one: `routes: [{path: /chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/\"}]`";
            self.report_error(
                "routes",
                position(routes.defined),
                "there is no route, so every request would be rejected",
                hint,
            );
            return None;
        }
        let mut labels = RouteIdentifiers::default();
        let mut checked = Vec::new();
        for (index, route) in routes.value.iter().enumerate() {
            checked.push(self.check_route(route, &format!("routes[{index}]"), &mut labels));
        }
        let (paths, names): (Vec<_>, Vec<_>) = (labels.paths.iter().collect(), labels.names.iter().collect());
        let hint = "use each path in one route: change one of the two, or remove one route";
        self.report_duplicates(&paths, |one, other| one == other, "this path is already used by", hint);
        let hint = "give each route a unique name; the default is its path";
        self.report_duplicates(&names, |one, other| one == other, "this name is already used by", hint);
        self.check_disjoint_paths(&labels);
        checked.into_iter().collect()
    }

    fn check_route(
        &mut self,
        written: &file::Spanned<file::RouteSpec>,
        at: &str,
        labels: &mut RouteIdentifiers,
    ) -> Option<RouteConfig> {
        let route = &written.value;
        let whole = position(written.defined);
        let path = self.require_main_key(route.path.as_ref(), at, "path", whole);
        let path = path.and_then(|path| self.read_located(path, &format!("{at}.path"), scalar::parse_path));
        let name = match &route.name {
            Some(name) => self.read_located(name, &format!("{at}.name"), scalar::parse_name),
            None => path.clone(),
        };
        labels.add(path.clone(), name.clone());
        let client = self.require_main_key(route.client.as_ref(), at, "client", whole);
        let client = client.and_then(|side| self.check_peer_dialect(side, &format!("{at}.client")));
        let events_path = self.check_events_path(route, client, at, labels);
        let on_disconnect = self.check_on_disconnect(route, path.as_ref(), at, labels);
        let agent = self.require_main_key(route.agent.as_ref(), at, "agent", whole);
        let agent = agent.and_then(|side| self.check_peer_dialect(side, &format!("{at}.agent")));
        let upstreams = self.require_main_key(route.upstream.as_ref(), at, "upstream", whole);
        let upstreams = upstreams.and_then(|list| self.check_upstreams(list, &format!("{at}.upstream")));
        let (tls, all) = (route.upstream_tls.as_ref(), upstreams.as_deref());
        let upstream_tls = self.check_upstream_tls(tls, &format!("{at}.upstream_tls"), all);
        let health = self.check_health(route.health.as_ref(), &format!("{at}.health"));
        let ejection = self.check_ejection(&route.ejection, &format!("{at}.ejection"));
        let events = route
            .events
            .as_ref()
            .map(|events| self.read_value(events, &format!("{at}.events"), scalar::parse_agent_events));
        let guard = self.read_choice(&route.guard, &format!("{at}.guard"), enum_values::GUARD);
        let timeouts = self.check_timeouts(&route.timeouts, &format!("{at}.timeouts"));
        let access = self.check_access(route, at);
        Some(RouteConfig {
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

    fn check_timeouts(&mut self, written: &file::TimeoutsSpec, at: &str) -> Option<TimeoutsConfig> {
        let connect = self.read_value(&written.connect, &format!("{at}.connect"), scalar::parse_duration);
        let first_byte = self.read_value(&written.first_byte, &format!("{at}.first_byte"), scalar::parse_duration);
        let first_event =
            self.read_optional(written.first_event.as_ref(), &format!("{at}.first_event"), scalar::parse_duration);
        let idle = self.read_value(&written.idle, &format!("{at}.idle"), scalar::parse_duration);
        let reader = self.read_value(&written.reader, &format!("{at}.reader"), scalar::parse_duration);
        Some(TimeoutsConfig {
            connect: connect?,
            first_byte: first_byte?,
            first_event: first_event?,
            idle: idle?,
            reader: reader?,
        })
    }
}
