//! Checks rules that involve several keys of a route, or several routes.

use crate::config::UpstreamConfig;
use crate::config::checker::{ConfigChecker, Place};
use crate::config::file::RouteSpec;
use crate::config::problem::quote_names;
use crate::config::section::{CrossCheck, FileValue, KeysOf};
use crate::config::text::Spanned;
use crate::dialect;

impl CrossCheck for RouteSpec {
    fn cross_check(&self, keys: &mut KeysOf<RouteSpec>, checker: &mut ConfigChecker<'_>, at: &Place) {
        if self.name.is_absent() {
            keys.name.clone_from(&keys.path);
        }
        // Only clients that GET their events read `event:` lines. A custom dialect inherits the property.
        if let (Some(written), Some(client)) = (&self.events_path, keys.client)
            && !client.dialect.has_event_line
        {
            let message =
                format!("clients of `{}` receive their events in the response to the POST", client.dialect.name);
            let two_steps = dialect::ALL.iter().filter(|dialect| dialect.has_event_line).map(|dialect| dialect.name);
            let two_steps: Vec<_> = two_steps.collect();
            let hint = format!("remove it; it applies only to {}", quote_names(&two_steps, " or "));
            checker.report_error(&at.value_of("events_path", written), message, hint);
        }
        if let Some(written) = &*self.upstreams {
            checker.check_upstream_addresses(&written.value, &at.value_of("upstream", written));
        }
        if let (Some(written), Some(upstreams)) = (&self.upstream_tls, &keys.upstreams)
            && !upstreams.iter().any(UpstreamConfig::uses_tls)
        {
            let hint = "write `https://` in `upstream`, or remove `upstream_tls`";
            checker.report_error(&at.value_of("upstream_tls", written), "no upstream of this route uses TLS", hint);
        }
        checker.check_access(self, keys, at);
    }
}

impl ConfigChecker<'_> {
    pub(super) fn check_routes(&mut self, routes: &Spanned<Vec<Spanned<RouteSpec>>>) {
        if routes.value.is_empty() && self.source.repairs.misplaced_keys.is_empty() {
            let hint =
                "add one: `routes: [{path: /chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/\"}]`";
            let message = "there is no route, so every request would be rejected";
            self.report_error(&Place::new("routes").with_position_of(routes), message, hint);
        }
        self.check_paths(&routes.value);
    }
}
