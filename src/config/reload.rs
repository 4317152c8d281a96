//! Compares two configurations: the changes to log, and the keys that need a restart.
//!
//! Values come from printed configurations. If only a secret differs, only the key or route is named.

use super::Config;
use super::difference::{self, ConfigDifference};
use std::fmt;

/// The maximum number of values to list; the rest are only counted.
const MAX_VALUES: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigChanges {
    values: Vec<ConfigDifference>,
    /// top-level keys
    keys: Vec<&'static str>,
    /// route names
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl ConfigChanges {
    /// Compares two configurations; `printed` is the output of [`super::effective`] for each.
    #[must_use]
    pub(crate) fn compare(before: &Config, after: &Config, printed: [&str; 2]) -> ConfigChanges {
        let mut keys = keys_needing_restart(before, after);
        let limits = &before.rate_limits;
        let rest = [
            ("trusted_proxies", before.trusted_proxies != after.trusted_proxies),
            ("auth", before.auth != after.auth),
            ("rate_limits", limits.policies != after.rate_limits.policies),
            ("redis", limits.redis.ne(&after.rate_limits.redis)),
            ("limits", before.limits != after.limits),
            ("replay", before.replay != after.replay),
            ("keep_alive", before.keep_alive != after.keep_alive),
            ("drain_grace", before.process.drain_grace != after.process.drain_grace),
            ("drain_timeout", before.process.drain_timeout != after.process.drain_timeout),
            ("upgrade_timeout", before.process.upgrade_timeout != after.process.upgrade_timeout),
        ];
        // These are reported as one key below.
        keys.retain(|key| !key.starts_with("limits.") && !key.starts_with("replay.") && !key.contains(','));
        keys.extend(rest.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key));
        let values = difference::diff(printed[0], printed[1]);
        // Keys that are listed with values are not listed again.
        keys.retain(|key| !values.iter().any(|value| value.is_within(key)));
        let mut changes = ConfigChanges { values, keys, ..ConfigChanges::default() };
        for route in &after.routes {
            match before.routes.iter().find(|known| known.name == route.name) {
                None => changes.added.push(route.name.clone()),
                Some(known) if known != route => {
                    let at = format!("routes[{}]", route.name);
                    if !changes.values.iter().any(|value| value.is_within(&at)) {
                        changes.changed.push(route.name.clone());
                    }
                }
                Some(_) => {}
            }
        }
        let gone = before.routes.iter().filter(|known| !after.routes.iter().any(|route| route.name == known.name));
        changes.removed = gone.map(|route| route.name.clone()).collect();
        changes
    }
}

impl fmt::Display for ConfigChanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|key| (*key).to_owned()).collect();
        let lists = [
            ("keys changed", &keys),
            ("routes added", &self.added),
            ("routes removed", &self.removed),
            ("routes changed", &self.changed),
        ];
        let mut has_output = false;
        for value in self.values.iter().take(MAX_VALUES) {
            write!(out, "{}{value}", if has_output { "; " } else { "" })?;
            has_output = true;
        }
        if self.values.len() > MAX_VALUES {
            write!(out, "; and {} more values", self.values.len() - MAX_VALUES)?;
        }
        for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(out, "{}{what}: {}", if has_output { "; " } else { "" }, names.join(", "))?;
            has_output = true;
        }
        if has_output { Ok(()) } else { out.write_str("nothing changed") }
    }
}

/// Returns the changed keys that take effect only after a restart.
#[must_use]
pub fn keys_needing_restart(running: &Config, now: &Config) -> Vec<&'static str> {
    let (one, other) = (&running.limits, &now.limits);
    let keys = [
        ("listeners.data", running.data != now.data),
        ("listeners.status", running.status != now.status),
        ("listeners.inspector", running.inspector != now.inspector),
        (
            "trusted_proxies, for counting connections and accepting PROXY headers",
            running.trusted_proxies != now.trusted_proxies,
        ),
        ("run_dir", running.process.run_dir != now.process.run_dir),
        ("replay.store", running.replay.store != now.replay.store),
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
    use super::{ConfigChanges, keys_needing_restart};
    use crate::config::Config;
    use crate::config::effective::{EffectiveConfig, load_effective};
    use crate::config::load::from_str;
    use std::path::Path;

    const ROUTE: &str = "client: ag-ui, agent: hai, upstream: \"http://h/\"";

    /// Returns a configuration and its printed form.
    fn read(text: &str) -> (Config, String) {
        let EffectiveConfig { config, yaml: printed, .. } =
            load_effective(Path::new("f"), text.as_bytes(), |_, _, _| Ok(()))
                .unwrap_or_else(|problems| panic!("{problems}"));
        (config, printed)
    }

    fn describe_changes(before: &str, after: &str) -> String {
        let ((before, old), (after, new)) = (read(before), read(after));
        ConfigChanges::compare(&before, &after, [&old, &new]).to_string()
    }

    #[test]
    fn reports_changes_by_key_and_route() {
        let before =
            format!("keep_alive: 1s\nroutes: [{{path: /a, {ROUTE}}}, {{path: /b, {ROUTE}}}, {{path: /c, {ROUTE}}}]");
        assert_eq!(describe_changes(&before, &before), "nothing changed");
        let after = format!(
            "keep_alive: 2s\nlisteners: {{data: 127.0.0.1:1}}\nlimits: {{headers: 7, frame: 1MiB}}\nrun_dir: /run/d\n\
             routes: [{{path: /a, {ROUTE}}}, {{path: /b, guard: strict, {ROUTE}}}, {{path: /d, {ROUTE}}}]"
        );
        assert_eq!(
            describe_changes(&before, &after),
            "keep_alive: 1s → 2s; limits.frame: 10MiB → 1MiB; limits.headers: 100 → 7; \
             listeners.data: 127.0.0.1:8787 → 127.0.0.1:1; routes[/b].guard: repair → strict; run_dir: not set → /run/d; \
             routes added: /d; routes removed: /c"
        );
        let restart = ["listeners.data", "run_dir", "limits.headers"];
        assert_eq!(keys_needing_restart(&read(&before).0, &read(&after).0), restart);
    }

    /// Masked values look alike, so only the key is reported.
    #[test]
    fn reports_no_secret() {
        let text = |secret: &str, more: &str| {
            format!(
                "auth: {{issuers: [{{name: s, issuer: a, audience: b, secret: {secret}}}]}}\nroutes: [{{path: /a, {ROUTE}, \
                 upstream_headers: {{x-key: {secret}}}{more}}}, {{path: /b, {ROUTE}, upstream_headers: {{x-key: {secret}}}}}]"
            )
        };
        let [one, other] = ["hunter2hunter2hunter2hunter2hunter2", "hunter3hunter3hunter3hunter3hunter3"];
        let described = describe_changes(&text(one, ""), &text(other, ", tools: [search]"));
        assert_eq!(described, "routes[/a].tools: not set → [search]; keys changed: auth; routes changed: /b");
        assert!(!described.contains("hunter"));
    }

    #[test]
    fn bounds_the_length_of_the_report() {
        let text = |size: usize, unit: &str| {
            let limit = |index| format!("{{name: l{index}, requests: {}}}", index * size);
            let limits: Vec<String> = (1..=30).map(limit).collect();
            let tools = format!("tools: [{}]", vec![unit; 100].join(", "));
            format!("rate_limits: [{}]\nroutes: [{{path: /a, {ROUTE}, {tools}}}]", limits.join(", "))
        };
        let described = describe_changes(&text(1, "first"), &text(2, "second"));
        // The burst is derived from the requests, so each limit has two values.
        assert!(
            described.starts_with("rate_limits[l1].burst: 1 → 2; rate_limits[l1].requests: 1 → 2; "),
            "{described}"
        );
        assert!(described.ends_with("; and 41 more values") && described.len() < 4096, "{described}");
    }

    /// Reloading an unchanged file yields an equal configuration, including interned dialects and names.
    #[test]
    fn reads_an_equal_config_from_an_unchanged_file() {
        let text = "dialects: [{name: acme, extends: ag-ui-snake, fields: {messageId: mid}}]\nroutes:\n  - {path: /a, client: \
                    {dialect: acme, roles: {user: human}, errors: [boom]}, agent: hai, upstream: \"http://h/\"}";
        let read = || from_str("f", text).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(read(), read());
    }
}
