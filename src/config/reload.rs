//! Two configurations compared: what the log says of a reload, and what only a new process takes up.
//!
//! Keys and names of routes are said, never values.

use super::Config;
use std::fmt;

/// What differs between two configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// keys of the top level
    keys: Vec<&'static str>,
    /// names of routes
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl Changes {
    /// What is otherwise in `after` than it was in `before`.
    #[must_use]
    pub fn between(before: &Config, after: &Config) -> Changes {
        let mut keys = needs_restart(before, after);
        let limits = &before.rate_limits;
        let rest = [
            ("trusted_proxies", before.trusted_proxies != after.trusted_proxies),
            ("auth", before.auth != after.auth),
            ("rate_limits", limits.policies != after.rate_limits.policies),
            ("redis", limits.redis.ne(&after.rate_limits.redis)),
            ("limits", before.limits != after.limits || limits.legacy_headers != after.rate_limits.legacy_headers),
            ("replay", before.replay != after.replay),
            ("keep_alive", before.keep_alive != after.keep_alive),
            ("drain_grace", before.process.drain_grace != after.process.drain_grace),
            ("drain_timeout", before.process.drain_timeout != after.process.drain_timeout),
            ("upgrade_timeout", before.process.upgrade_timeout != after.process.upgrade_timeout),
        ];
        // Those are said as one key below.
        keys.retain(|key| !key.starts_with("limits.") && !key.starts_with("replay.") && !key.contains(','));
        keys.extend(rest.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key));
        let mut changes = Changes { keys, ..Changes::default() };
        for route in &after.routes {
            match before.routes.iter().find(|known| known.name == route.name) {
                None => changes.added.push(route.name.clone()),
                Some(known) if known != route => changes.changed.push(route.name.clone()),
                Some(_) => {}
            }
        }
        let gone = before.routes.iter().filter(|known| !after.routes.iter().any(|route| route.name == known.name));
        changes.removed = gone.map(|route| route.name.clone()).collect();
        changes
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|key| (*key).to_owned()).collect();
        let lists = [
            ("keys changed", &keys),
            ("routes added", &self.added),
            ("routes removed", &self.removed),
            ("routes changed", &self.changed),
        ];
        let mut said = false;
        for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(out, "{}{what}: {}", if said { "; " } else { "" }, names.join(", "))?;
            said = true;
        }
        if said { Ok(()) } else { out.write_str("nothing changed") }
    }
}

/// The keys that a process keeps as they were when it began.
#[must_use]
pub fn needs_restart(began: &Config, now: &Config) -> Vec<&'static str> {
    let (one, other) = (&began.limits, &now.limits);
    let keys = [
        ("listeners.data", began.data != now.data),
        ("listeners.status", began.status != now.status),
        (
            "trusted_proxies, where connections are counted and PROXY is believed",
            began.trusted_proxies != now.trusted_proxies,
        ),
        ("run_dir", began.process.run_dir != now.process.run_dir),
        ("replay.store", began.replay.store != now.replay.store),
        ("limits.header_bytes", one.header_bytes != other.header_bytes),
        ("limits.headers", one.headers != other.headers),
        ("limits.head_timeout", one.head_timeout != other.head_timeout),
        ("limits.idle_timeout", one.idle_timeout != other.idle_timeout),
        ("limits.connections", one.connections != other.connections),
        ("limits.connections_per_address", one.connections_per_address != other.connections_per_address),
    ];
    keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::{Changes, needs_restart};
    use crate::config::load::from_str;

    const ROUTE: &str = "client: ag-ui, agent: hai, upstream: \"http://h/\"";

    #[test]
    fn what_differs_is_said_by_key_and_route_and_without_values() {
        let read = |text: &str| from_str("f", text).unwrap_or_else(|problems| panic!("{problems}"));
        let before = read(&format!(
            "keep_alive: 1s\nroutes: [{{path: /a, {ROUTE}}}, {{path: /b, {ROUTE}}}, {{path: /c, {ROUTE}}}]"
        ));
        assert_eq!(Changes::between(&before, &before).to_string(), "nothing changed");
        assert_eq!(needs_restart(&before, &before), [""; 0]);
        let after = read(&format!(
            "keep_alive: 2s\nlisteners: {{data: 127.0.0.1:1}}\nlimits: {{headers: 7, frame: 1MiB}}\nrun_dir: /hunter2\n\
             routes: [{{path: /a, {ROUTE}}}, {{path: /b, guard: strict, {ROUTE}}}, {{path: /d, {ROUTE}}}]"
        ));
        assert_eq!(
            Changes::between(&before, &after).to_string(),
            "keys changed: listeners.data, run_dir, limits, keep_alive; routes added: /d; routes removed: /c; routes changed: /b"
        );
        assert_eq!(needs_restart(&before, &after), ["listeners.data", "run_dir", "limits.headers"]);
    }

    /// Dialects and words of the operator's own are the same when they are read again.
    #[test]
    fn a_file_that_is_read_twice_is_the_same_twice() {
        let text = "dialects: [{name: acme, extends: ag-ui-snake, fields: {messageId: mid}}]\nroutes:\n  - {path: /a, client: \
                    {dialect: acme, roles: {user: human}, errors: [boom]}, agent: hai, upstream: \"http://h/\"}";
        let read = || from_str("f", text).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(read(), read());
    }
}
