//! Checks a route's access rules, rate limits, and the header fields sent to its agent.

use http::{HeaderName, HeaderValue, header};

use crate::config::access::{OnExpiry, UpstreamHeaderConfig, UpstreamHeaderValue};
use crate::config::checker::{ConfigChecker, Place, ReferenceKind};
use crate::config::file::{
    CorsSpec, MethodNames, RateLimitNames, RouteSpec, UpstreamHeaderMapping, UpstreamHeaderSpec, UpstreamHeaders,
};
use crate::config::kind;
use crate::config::scalar::{self, NONE};
use crate::config::section::{CrossCheck, FileValue, KeysOf, Section, collect_all};
use crate::config::text::{OneOrList, Scalar};

impl FileValue for MethodNames {
    type Checked = Vec<String>;

    /// Returns the allowed methods: all if the route names none; an empty list if callers need no credential.
    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<String>> {
        let all: Vec<String> = checker.methods.iter().map(|method| method.name.clone()).collect();
        let Some(written) = &self.0 else {
            let is_unknown =
                checker.is_skipped(&at.path) || checker.kinds_with_unnamed.contains(&ReferenceKind::Method);
            return (!is_unknown).then_some(all);
        };
        let at = at.with_position_of(written);
        let known: Vec<&str> = all.iter().map(String::as_str).chain([NONE]).collect();
        let names = match &written.value {
            OneOrList::One(one) => vec![checker.resolve_name(one, &at, ReferenceKind::Method, &known)?],
            OneOrList::Many(many) => {
                let names = checker.resolve_names(many, &at, ReferenceKind::Method, &known);
                names.into_iter().collect::<Option<_>>()?
            }
        };
        let (message, hint) = match names.as_slice() {
            [] => (
                "the list is empty, so every call would be rejected",
                format!("write names, or `{NONE}` to allow calls without a credential"),
            ),
            [one] if one == NONE => return Some(Vec::new()),
            several if several.iter().any(|name| name == NONE) => {
                ("`none` cannot be combined with names", format!("write `auth: {NONE}` alone, or the names alone"))
            }
            _ => return Some(names),
        };
        checker.report_error(&at, message, hint);
        None
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl FileValue for RateLimitNames {
    type Checked = Vec<usize>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<usize>> {
        let names: Vec<Option<String>> = checker.policies.iter().map(|policy| policy.name.clone()).collect();
        let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let resolved = checker.resolve_names(&self.0, at, ReferenceKind::RateLimit, &known);
        let mut indices = Vec::new();
        for (place, name) in resolved.into_iter().enumerate() {
            let found = names.iter().position(|known| *known == name && name.is_some())?;
            if indices.contains(&found) {
                let at = at.index(place).with_position_of(&self.0[place]);
                checker.report_error(&at, "this rate limit is already listed", "name each rate limit once");
            }
            indices.push(found);
        }
        Some(indices)
    }
}

impl FileValue for UpstreamHeaders {
    type Checked = Vec<UpstreamHeaderConfig>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<UpstreamHeaderConfig>> {
        collect_all(self.0.iter().map(|(name, written)| {
            let at = at.value_of(name, written);
            let field = scalar::parse_set_field(name).map_err(|fault| {
                let hint = fault.suggestion.map(|meant| format!("did you mean `{meant}`?"));
                let hint = hint.unwrap_or_else(|| fault.hint.into_owned());
                checker.report_error(&at, format!("`{name}` {}", fault.predicate), hint);
            });
            let value = written.value.check(checker, &at);
            Some(UpstreamHeaderConfig { name: field.ok()?, value: value? })
        }))
    }
}

const VISIBLE_HINT: &str = "write visible ASCII on one line";

fn is_visible(text: &str) -> bool {
    text.bytes().all(|each| matches!(each, b' '..=b'~'))
}

impl FileValue for UpstreamHeaderSpec {
    type Checked = UpstreamHeaderValue;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<UpstreamHeaderValue> {
        let text = match self {
            UpstreamHeaderSpec::Text(text) => checker.read(text, at)?,
            UpstreamHeaderSpec::File(file) => return file.check(checker, at),
        };
        let Some(mut value) = HeaderValue::from_str(&text).ok().filter(|_| is_visible(&text)) else {
            let message = "the value contains characters that a header cannot contain";
            checker.report_error(at, message, VISIBLE_HINT);
            return None;
        };
        value.set_sensitive(true);
        Some(UpstreamHeaderValue::Text(value))
    }
}

impl FileValue for UpstreamHeaderMapping {
    type Checked = UpstreamHeaderValue;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<UpstreamHeaderValue> {
        let keys = self.check_keys(checker, at);
        let (path, written) = (keys.file?, self.file.as_ref()?);
        let at = at.value_of("file", written);
        let content = checker.read_file(&path, &at);
        let prefix = match (keys.prefix?, &self.prefix) {
            (Some(prefix), Some(written)) => prefix + trailing_spaces(written),
            _ => String::new(),
        };
        let content = String::from_utf8(content?).unwrap_or_default();
        let content = content.trim_end();
        if content.is_empty() || !is_visible(content) || !is_visible(&prefix) {
            let message = "the prefix and the content of the file are not a valid header value";
            checker.report_error(&at, message, VISIBLE_HINT);
            return None;
        }
        Some(UpstreamHeaderValue::File { prefix, path })
    }
}

/// Returns a prefix's trailing spaces, which scalar parsing removes.
fn trailing_spaces(written: &Scalar<kind::FieldPrefix>) -> &str {
    let prefix = written.value.expose_secret();
    &prefix[prefix.trim_end().len()..]
}

impl CrossCheck for CorsSpec {
    fn cross_check(&self, keys: &mut KeysOf<CorsSpec>, checker: &mut ConfigChecker<'_>, at: &Place) {
        let (Some(origins), Some(written)) = (&keys.origins, &*self.origins) else { return };
        if !origins.iter().any(|origin| origin == "*") {
            return;
        }
        if origins.len() > 1 {
            let message = "`*` cannot be combined with other origins";
            checker.report_error(&at.value_of("origins", written), message, "write `*` alone, or the origins alone");
        } else if keys.credentials == Some(true) {
            // Fetch Standard §3.3.5: `*` does not match a request whose credentials mode is "include".
            let hint = "list the origins, or remove `credentials`: otherwise every page on the web could call with its visitors' credentials";
            let place = at.value_of("credentials", &self.credentials);
            checker.report_error(&place, "credentials cannot be combined with `*`", hint);
        }
    }
}

impl ConfigChecker<'_> {
    pub(super) fn check_access(&mut self, route: &RouteSpec, keys: &KeysOf<RouteSpec>, at: &Place) {
        match keys.methods.as_deref() {
            Some([]) => {
                self.reject_caller_requirements(route, at);
                self.reject_caller_rules(route, keys, at);
            }
            Some(methods) => self.reject_unmeetable_rules(route, methods, at),
            None => {}
        }
        for (index, written) in route.forward_headers.iter().enumerate() {
            let Some(name) = self.peek(&written.value) else { continue };
            if self.methods.iter().any(|method| method.key_header.as_ref() == Some(&name)) {
                let hint = "remove it, and write `forward_credentials: true` if the agent needs it";
                let place = at.key("forward_headers").index(index).with_position_of(written).at_use();
                self.report_error(&place, format!("`{name}` carries API keys of callers"), hint);
            }
        }
        let forwarded = keys.forward_headers.as_deref().unwrap_or_default();
        self.check_header_conflicts(route, forwarded, keys.forward_credentials == Some(true), at);
    }

    /// Reports header fields that the agent would receive twice.
    fn check_header_conflicts(
        &mut self,
        route: &RouteSpec,
        forwarded: &[HeaderName],
        forwards_credentials: bool,
        at: &Place,
    ) {
        for (name, written) in &route.upstream_headers.0 {
            let Ok(field) = scalar::parse_set_field(name) else { continue };
            let place = at.key("upstream_headers").value_of(name, written);
            if forwarded.contains(&field) {
                let hint = "keep it in one of the two; callers must not set a header that the gateway sets";
                self.report_error(&place, "this header is also in `forward_headers`", hint);
            }
            if field == header::AUTHORIZATION && forwards_credentials {
                let message = "`forward_credentials` already forwards the caller's `authorization`";
                let hint = "keep one of the two: a request has only one `authorization`";
                self.report_error(&place, message, hint);
            }
        }
    }

    /// Reports caller requirements on a route without authentication.
    fn reject_caller_requirements(&mut self, route: &RouteSpec, at: &Place) {
        let require = &route.require;
        let at = at.key("require");
        if let Some(claim) = require.claims.values().next() {
            self.reject_caller_rule(&at.value_of("claims", claim), "requires claims");
        }
        if let Some(scope) = require.scopes.first() {
            self.reject_caller_rule(&at.value_of("scopes", scope), "requires scopes");
        }
        if let Some(tenant) = require.tenants.first() {
            self.reject_caller_rule(&at.value_of("tenants", tenant), "requires tenants");
        }
    }

    /// Reports other caller-dependent keys on a route without authentication.
    fn reject_caller_rules(&mut self, route: &RouteSpec, keys: &KeysOf<RouteSpec>, at: &Place) {
        if keys.own_threads == Some(true) {
            self.reject_caller_rule(&at.value_of("threads", &route.own_threads), "assigns threads to callers");
        }
        if keys.on_token_expiry.is_some_and(|expiry| expiry != OnExpiry::Finish) {
            self.reject_caller_rule(&at.value_of("on_token_expiry", &route.on_token_expiry), "depends on tokens");
        }
        for (index, name) in route.rate_limits.0.iter().enumerate() {
            let known = self.policies.iter().find(|known| known.name.as_deref() == Some(name.value.trim()));
            if let Some(dependency) = known.and_then(|known| known.caller_dependency) {
                let place = at.key("rate_limits").index(index).with_position_of(name);
                self.reject_caller_rule(&place, &format!("rate limit {dependency}"));
            }
        }
    }

    fn reject_caller_rule(&mut self, at: &Place, what: &str) {
        let hint = "remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`";
        self.report_error(at, format!("this {what}, but the route accepts calls without a credential"), hint);
    }

    /// Reports required claims and tenants that no caller of the route can have.
    fn reject_unmeetable_rules(&mut self, route: &RouteSpec, methods: &[String], at: &Place) {
        let at = at.key("require");
        let of_route = || self.methods.iter().filter(|method| methods.contains(&method.name));
        let only_keys = of_route().all(|method| method.is_keys);
        let has_tenants = of_route().any(|method| method.has_tenants);
        if let Some((claim, values)) = route.require.claims.iter().next()
            && only_keys
        {
            let hint = "require `scopes` or `tenants` instead, which API keys can have";
            let message = "API keys have no claims, so every call of this route would be rejected";
            self.report_error(&at.key("claims").value_of(claim, values), message, hint);
        }
        if let Some(first) = route.require.tenants.first()
            && !has_tenants
        {
            let hint = "add `tenant_claim` to an issuer of the route, or `tenant` to its API keys; or remove this key";
            let message = "no caller of this route has a tenant, so every call would be rejected";
            self.report_error(&at.value_of("tenants", first), message, hint);
        }
    }
}
