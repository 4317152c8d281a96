//! Warnings: valid settings that are probably unintended.
//!
//! Each can be fixed or marked as intended in the file, so that `check --strict` passes.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::access::{ApiKeyListConfig, CorsConfig, UpstreamHeaderConfig, UpstreamHeaderValue};
use crate::config::checker::{ConfigChecker, Place};
use crate::config::file::{self, ConfigFile, PeerDialectSpec, Scalar};
use crate::config::kind;
use crate::config::listen::ListenerConfig;
use crate::config::problem::may_hold_password;
use crate::config::replay::{OnDisconnect, ReplayStoreKind};
use crate::config::section::Required;
use crate::config::text::Spanned;
use crate::config::{Config, RouteConfig, UpstreamAddress, UpstreamConfig};

/// The shortest `continue for` duration without a warning.
const MIN_RECONNECT: Duration = Duration::from_secs(1);

impl ConfigChecker<'_> {
    pub(super) fn lint_config(&mut self, file: &ConfigFile, config: &Config) {
        self.lint_unused(file, config);
        self.lint_plain_secrets(file);
        self.lint_tiers(file, config);
        self.lint_expired_keys(file, config);
        if config.process.drain_timeout.is_zero() {
            let hint = "give them time to finish, such as `drain_timeout: 30s`";
            let message = "running streams are aborted as soon as shutdown begins";
            self.report_warning(&Place::new("drain_timeout").with_position_of(&file.drain_timeout), message, hint);
        }
        for (index, (written, route)) in file.routes.value.iter().zip(&config.routes).enumerate() {
            let at = Place::new("routes").index(index).with_position_of(written);
            self.lint_open_route(config, route, &written.value, &at);
            self.lint_interrupt_tools(&written.value, route, &at);
            self.lint_route(&written.value, route, &at);
        }
    }

    fn lint_unused(&mut self, file: &ConfigFile, config: &Config) {
        let hint = "name it in a route, or remove it";
        for (index, (written, policy)) in file.rate_limits.iter().zip(&config.rate_limits.policies).enumerate() {
            if !config.routes.iter().any(|route| route.access.rate_limits.contains(&index)) {
                let message = format!("no route uses the rate limit `{}`", policy.name);
                self.report_warning(&Place::new("rate_limits").index(index).with_position_of(written), message, hint);
            }
        }
        let is_accepted = |name: &String| config.routes.iter().any(|route| route.access.methods.contains(name));
        for (index, (written, issuer)) in file.auth.issuers.iter().zip(&config.auth.issuers).enumerate() {
            if !is_accepted(&issuer.name) {
                let message = format!("no route accepts tokens of the issuer `{}`", issuer.name);
                self.report_warning(&Place::new("auth.issuers").index(index).with_position_of(written), message, hint);
            }
        }
        for (index, (written, source)) in file.auth.api_keys.iter().zip(&config.auth.api_keys).enumerate() {
            if !is_accepted(&source.name) {
                let message = format!("no route accepts the API keys of `{}`", source.name);
                self.report_warning(&Place::new("auth.api_keys").index(index).with_position_of(written), message, hint);
            }
        }
        for (index, (written, own)) in file.dialects.iter().zip(self.custom_dialects.clone()).enumerate() {
            let bases = file.dialects.iter().filter_map(|other| other.value.extends.as_ref());
            let is_base = bases.into_iter().any(|base| *base.value == *own.name);
            let spoken =
                |route: &RouteConfig| route.client.dialect.name == own.name || route.agent.dialect.name == own.name;
            if !is_base && !config.routes.iter().any(spoken) {
                let message = format!("no route uses the dialect `{}`", own.name);
                self.report_warning(&Place::new("dialects").index(index).with_position_of(written), message, hint);
            }
        }
        self.lint_unused_files(file, config);
        let limits = &config.rate_limits.policies;
        let shared = |route: &RouteConfig| route.access.rate_limits.iter().any(|index| limits[*index].shared);
        let kept = |route: &RouteConfig| {
            config.replay.store == ReplayStoreKind::Redis && route.on_disconnect != OnDisconnect::Abort
        };
        let keeps_values =
            |route: &RouteConfig| route.agent.dialect.mapping.is_some_and(|mapping| !mapping.thread_names.is_empty());
        let uses_redis =
            |route: &RouteConfig| route.access.own_threads || shared(route) || kept(route) || keeps_values(route);
        if let Some(redis) = file.redis.as_ref().filter(|_| !config.routes.iter().any(uses_redis)) {
            let hint = "use it in a rate limit with `shared: true`, with `threads: owned`, or with `replay: {store: redis}` on a route that needs it, \
                        or remove `redis`";
            self.report_warning(&Place::new("redis").with_position_of(redis), "nothing in this file uses Redis", hint);
        }
    }

    /// Warns about dialect files that no route uses, which `auto` does not consider.
    fn lint_unused_files(&mut self, file: &ConfigFile, config: &Config) {
        let has_auto = config.routes.iter().any(|route| route.agent.is_auto);
        for (index, (written, own)) in file.dialect_files.iter().zip(self.file_dialects.clone()).enumerate() {
            if !config.routes.iter().any(|route| std::ptr::eq(route.agent.dialect, own)) {
                let name = own.name;
                let hint = match has_auto {
                    true => format!(
                        "write `agent: {name}` in its route: `auto` detects only built-in dialects; or remove the file"
                    ),
                    false => format!("write `agent: {name}` in a route, or remove the file"),
                };
                let place = Place::new("dialect_files").index(index).with_position_of(written);
                self.report_warning(&place, format!("no route uses the dialect `{name}` of this file"), hint);
            }
        }
    }

    fn lint_plain_secrets(&mut self, file: &ConfigFile) {
        const MESSAGE: &str = "this secret is in plain text in the file";
        for (index, issuer) in file.auth.issuers.iter().enumerate() {
            if let Some(secret) = issuer.value.secret.as_ref().filter(|text| is_in_clear(text.value.expose_secret())) {
                let hint = "pass it in a variable, `${NAME}`, or write `secret_file`";
                let place = Place::new("auth.issuers").index(index).value_of("secret", secret);
                self.report_warning(&place, MESSAGE, hint);
            }
        }
        let url = file.redis.as_ref().and_then(|redis| redis.value.url.as_ref());
        if let Some(url) =
            url.filter(|url| is_in_clear(url.value.expose_secret()) && may_hold_password(url.value.expose_secret()))
        {
            let hint = "pass it in a variable, `${NAME}`, or write `password_file`";
            self.report_warning(&Place::new("redis.url").with_position_of(url), MESSAGE, hint);
        }
        for (index, route) in file.routes.value.iter().enumerate() {
            for (name, value) in &route.value.upstream_headers.0 {
                let file::UpstreamHeaderSpec::Text(text) = &value.value else { continue };
                if is_in_clear(text.expose_secret()) && is_credential(name) {
                    let hint = "pass it in a variable, `${NAME}`, or write `{file: PATH}`";
                    let place = Place::new("routes").index(index).key("upstream_headers").value_of(name, value);
                    self.report_warning(&place, MESSAGE, hint);
                }
            }
        }
    }

    /// Warns about quotas for tiers that no caller has. A key file may add such callers later.
    fn lint_tiers(&mut self, file: &ConfigFile, config: &Config) {
        let by_token = config.auth.issuers.iter().any(|issuer| issuer.claims.tier.is_some());
        let by_key =
            |source: &ApiKeyListConfig| source.file.is_some() || source.keys.iter().any(|key| key.tier.is_some());
        if by_token || config.auth.api_keys.iter().any(by_key) {
            return;
        }
        for (index, limit) in file.rate_limits.iter().enumerate() {
            if let Some((_, first)) = limit.value.tiers.first_key_value() {
                let hint = "add `tier_claim` to an issuer, or `tier` to API keys; or remove `tiers`";
                let place = Place::new("rate_limits").index(index).value_of("tiers", first);
                self.report_warning(&place, "no caller has a tier, so these quotas never apply", hint);
            }
        }
    }

    fn lint_expired_keys(&mut self, file: &ConfigFile, config: &Config) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (at, (written, source)) in file.auth.api_keys.iter().zip(&config.auth.api_keys).enumerate() {
            for (index, (written, key)) in written.value.keys.iter().zip(&source.keys).enumerate() {
                if key.expires.is_some_and(|expires| expires <= now) {
                    let place = Place::new("auth.api_keys").index(at).key("keys").index(index).key("expires");
                    let place =
                        written.value.expires.as_ref().map_or(place.clone(), |expires| place.with_position_of(expires));
                    let message = "this key has expired, so calls with it are rejected";
                    self.report_warning(&place, message, "remove it, or write a later date");
                }
            }
        }
    }

    /// Warns about a route open to anyone on the network, unless the file marks it as intended.
    fn lint_open_route(&mut self, config: &Config, route: &RouteConfig, written: &file::RouteSpec, at: &Place) {
        let reached: Vec<String> =
            config.data.iter().filter(|one| is_open(one)).map(|one| one.address.to_string()).collect();
        if reached.is_empty() || !route.access.methods.is_empty() || written.methods.0.is_some() {
            return;
        }
        let message = format!("every client that can reach {} may call this route", reached.join(", "));
        let hint = "list issuers or API keys in its `auth`; write `auth: none` to allow calls without a credential";
        self.report_warning(at, message, hint);
    }

    /// Warns about the tool for interrupts where it is never called.
    fn lint_interrupt_tools(&mut self, written: &file::RouteSpec, route: &RouteConfig, at: &Place) {
        if let Some(tool) = written_interrupt_tool(&written.agent) {
            let message = "only clients are asked by a tool, so this has no effect";
            let place = at.key("agent").value_of("interrupt_tool", tool);
            self.report_warning(&place, message, "write it in `client`, or remove it");
        }
        if let Some(tool) = written_interrupt_tool(&written.client)
            && route.client.interrupt_form().is_none()
        {
            let message = "clients of this version get interrupts as such, so this has no effect";
            let place = at.key("client").value_of("interrupt_tool", tool);
            self.report_warning(&place, message, "remove it, or write a `pin` below `0.0.57`");
        }
    }

    fn lint_route(&mut self, written: &file::RouteSpec, route: &RouteConfig, at: &Place) {
        if let OnDisconnect::Continue(time) = route.on_disconnect
            && time < MIN_RECONNECT
        {
            let hint = "write at least one minute: `continue for 2m`";
            let place = at.value_of("on_disconnect", &written.on_disconnect);
            self.report_warning(&place, "clients rarely reconnect within this time", hint);
        }
        if let Some(cors) = &written.cors
            && route.access.cors.as_ref().is_some_and(CorsConfig::allows_any_origin)
            && !route.access.methods.is_empty()
        {
            let message = "pages of any origin may call a route that requires credentials";
            let hint = "list the origins of the pages that have credentials for the route";
            self.report_warning(&at.value_of("cors", cors), message, hint);
        }
        let sent = |header: &UpstreamHeaderConfig| {
            matches!(header.value, UpstreamHeaderValue::File { .. }) || is_credential(header.name.as_str())
        };
        let sends = route.access.forward_credentials || route.access.upstream_headers.iter().any(sent);
        if let Some(upstream) = &*written.upstreams
            && sends
            && route.upstreams.iter().any(is_sent_in_clear)
        {
            let hint = "write `https://`, or make sure that the connection stays inside your own network";
            let message = "credentials are sent to this agent unencrypted";
            self.report_warning(&at.value_of("upstream", upstream), message, hint);
        }
    }
}

fn written_interrupt_tool(side: &Required<Spanned<PeerDialectSpec>>) -> Option<&Scalar<kind::ClientTool>> {
    match &side.as_ref()?.value {
        PeerDialectSpec::Mapping(mapping) => mapping.interrupt_tool.as_ref(),
        PeerDialectSpec::Name(_) => None,
    }
}

/// Returns whether other machines can use a listener without a client certificate.
fn is_open(listen: &ListenerConfig) -> bool {
    let shows_certificate =
        listen.tls.as_ref().and_then(|tls| tls.client.as_ref()).is_some_and(|client| client.required);
    listen.is_public() && !shows_certificate
}

fn is_in_clear(text: &str) -> bool {
    !text.contains("${")
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "key", "password", "secret", "token"].iter().any(|part| name.contains(part))
}

/// Returns whether requests to an agent cross a public network without TLS. Loopback, link-local and private addresses
/// and names do not count.
fn is_sent_in_clear(upstream: &UpstreamConfig) -> bool {
    let UpstreamAddress::Host { tls: false, host, .. } = &upstream.address else { return false };
    match host.parse() {
        Ok(IpAddr::V4(ip)) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
        Ok(IpAddr::V6(ip)) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()),
        // One-label names are local. Not public either: `.test` and `.localhost` (RFC 6761), `.local` (RFC 6762, and
        // Kubernetes), `.svc` (Kubernetes), `.home.arpa` (RFC 8375) and `.internal`.
        Err(_) => {
            let private = [".localhost", ".local", ".internal", ".lan", ".svc", ".home.arpa", ".test"];
            host.contains('.') && !private.iter().any(|end| host.ends_with(end))
        }
    }
}
