//! Checks a route's access rules, rate limits and run limits.

use std::num::NonZeroUsize;

use http::{HeaderName, HeaderValue, header};
use serde_saphyr::Location;

use super::{ConfigChecker, ReferenceKind, collect_values, position};
use crate::config::access::{
    AccessConfig, CorsConfig, OnExpiry, RequireConfig, RunLimitsConfig, UpstreamHeaderConfig, UpstreamHeaderValue,
};
use crate::config::file::{self, Scalar};
use crate::config::schema::kind;
use crate::config::{enum_values, scalar};

impl ConfigChecker<'_> {
    pub(super) fn check_access(&mut self, route: &file::RouteSpec, at: &str) -> Option<AccessConfig> {
        let methods = self.resolve_methods(route.auth.as_ref(), &format!("{at}.auth"));
        let require = self.check_require(&route.require, &format!("{at}.require"));
        let tools = route
            .tools
            .as_ref()
            .map(|tools| collect_values(self.read_list(tools, &format!("{at}.tools"), scalar::parse_tool_name)));
        let own_threads = self.read_choice(&route.threads, &format!("{at}.threads"), enum_values::THREADS);
        let on_token_expiry =
            self.read_choice(&route.on_token_expiry, &format!("{at}.on_token_expiry"), enum_values::ON_TOKEN_EXPIRY);
        let rate_limits = self.resolve_rate_limits(route, at);
        let max_streams = self.read_stream_limit(route.max_streams.as_ref(), &format!("{at}.max_streams"));
        let per_caller =
            self.read_stream_limit(route.max_streams_per_caller.as_ref(), &format!("{at}.max_streams_per_caller"));
        let run = self.check_run_limits(&route.run_limits, &format!("{at}.run_limits"));
        let cors = route.cors.as_ref().map(|cors| self.check_cors(cors, &format!("{at}.cors")));
        let errors = self.read_choice(&route.errors, &format!("{at}.errors"), enum_values::ERRORS);
        let forward_headers = self.check_forward_headers(route, at);
        let forward_credentials = self.read_bool(&route.forward_credentials, &format!("{at}.forward_credentials"));
        let upstream_headers = self.check_upstream_headers(route, forward_headers.as_deref().unwrap_or_default(), at);
        match methods.as_deref() {
            Some([]) => {
                let ends = on_token_expiry.is_some_and(|what| what != OnExpiry::Finish);
                self.reject_caller_rules(route, (own_threads == Some(true), ends), at);
            }
            Some(methods) => self.reject_unmeetable_rules(route, methods, at),
            None => {}
        }
        Some(AccessConfig {
            methods: methods?,
            require: require?,
            tools: match tools {
                Some(tools) => Some(tools?),
                None => None,
            },
            own_threads: own_threads?,
            on_token_expiry: on_token_expiry?,
            rate_limits: rate_limits?,
            max_streams: max_streams?,
            max_streams_per_caller: per_caller?,
            run: run?,
            cors: match cors {
                Some(cors) => Some(cors?),
                None => None,
            },
            errors: errors?,
            forward_headers: forward_headers?,
            forward_credentials: forward_credentials?,
            upstream_headers: upstream_headers?,
        })
    }

    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    fn read_stream_limit(&mut self, written: Option<&Scalar<kind::Count>>, path: &str) -> Option<Option<NonZeroUsize>> {
        self.read_optional(written, path, scalar::parse_count)
    }

    fn check_require(&mut self, written: &file::RequireSpec, at: &str) -> Option<RequireConfig> {
        let mut claims = Vec::new();
        for (claim, values) in &written.claims {
            let values = self.read_non_empty(values, &format!("{at}.claims.{claim}"), scalar::parse_word);
            claims.push(values.map(|values| (claim.clone(), values)));
        }
        let scopes = collect_values(self.read_list(&written.scopes, &format!("{at}.scopes"), scalar::parse_scope));
        let tenants = collect_values(self.read_list(&written.tenants, &format!("{at}.tenants"), scalar::parse_word));
        Some(RequireConfig { claims: claims.into_iter().collect::<Option<_>>()?, scopes: scopes?, tenants: tenants? })
    }

    /// Notes what asks who calls, on a route that anybody may call.
    fn reject_caller_rules(&mut self, route: &file::RouteSpec, (owned, ends): (bool, bool), at: &str) {
        let require = &route.require;
        let first = |texts: &[Scalar<kind::Text>]| texts.first().map(|text| text.defined);
        let claims = require.claims.values().next().map(|values| values.defined);
        let mut needs: Vec<(&str, Option<Location>, &str)> = vec![
            ("require.claims", claims, "requires claims"),
            ("require.scopes", first(&require.scopes), "requires scopes"),
            ("require.tenants", first(&require.tenants), "requires tenants"),
        ];
        needs.push(("threads", owned.then_some(route.threads.defined), "assigns threads to callers"));
        needs.push(("on_token_expiry", ends.then_some(route.on_token_expiry.defined), "depends on tokens"));
        let hint = "remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`";
        for (key, place, what) in needs {
            if let Some(place) = place {
                let message = format!("this {what}, but the route accepts calls without a credential");
                self.report_error(&format!("{at}.{key}"), position(place), message, hint);
            }
        }
        for (index, name) in route.rate_limits.iter().enumerate() {
            let known = self.policies.iter().find(|known| known.name.as_deref() == Some(name.value.trim()));
            if let Some(needs) = known.and_then(|known| known.caller_dependency) {
                let message = format!("this rate limit {needs}, but the route accepts calls without a credential");
                self.report_error(&format!("{at}.rate_limits[{index}]"), position(name.defined), message, hint);
            }
        }
    }

    /// Notes claims and tenants that no caller of the route can have.
    fn reject_unmeetable_rules(&mut self, route: &file::RouteSpec, methods: &[String], at: &str) {
        let is_keys = |name: &String| self.methods.iter().any(|method| method.name == *name && method.is_keys);
        if let Some((claim, values)) = route.require.claims.iter().next()
            && methods.iter().all(is_keys)
        {
            let hint = "require `scopes` or `tenants` instead, which API keys can have";
            let message = "API keys have no claims, so every call of this route would be rejected";
            self.report_error(&format!("{at}.require.claims.{claim}"), position(values.defined), message, hint);
        }
        let has_tenants = |name: &String| self.methods.iter().any(|method| method.name == *name && method.has_tenants);
        if let Some(first) = route.require.tenants.first()
            && !methods.iter().any(has_tenants)
        {
            let hint = "add `tenant_claim` to an issuer of the route, or `tenant` to its API keys; or remove this key";
            let message = "no caller of this route has a tenant, so every call would be rejected";
            self.report_error(&format!("{at}.require.tenants"), position(first.defined), message, hint);
        }
    }

    fn resolve_rate_limits(&mut self, route: &file::RouteSpec, at: &str) -> Option<Vec<usize>> {
        let names: Vec<Option<String>> = self.policies.iter().map(|known| known.name.clone()).collect();
        let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let written =
            self.resolve_names(&route.rate_limits, &format!("{at}.rate_limits"), ReferenceKind::RateLimit, &known);
        let index = |name: String| names.iter().position(|known| known.as_ref() == Some(&name));
        let mut indices = Vec::new();
        for (place, name) in written.into_iter().enumerate() {
            let found = index(name?)?;
            if indices.contains(&found) {
                let place_of = position(route.rate_limits[place].defined);
                let hint = "name each rate limit once";
                self.report_error(
                    &format!("{at}.rate_limits[{place}]"),
                    place_of,
                    "this rate limit is already listed",
                    hint,
                );
            }
            indices.push(found);
        }
        Some(indices)
    }

    fn check_run_limits(&mut self, written: &file::RunLimitsSpec, at: &str) -> Option<RunLimitsConfig> {
        let events = self.read_optional(written.events.as_ref(), &format!("{at}.events"), scalar::parse_event_count);
        let bytes = self.read_optional(written.bytes.as_ref(), &format!("{at}.bytes"), scalar::parse_byte_count);
        let duration = self.read_optional(written.duration.as_ref(), &format!("{at}.duration"), scalar::parse_duration);
        Some(RunLimitsConfig { events: events?, bytes: bytes?, duration: duration? })
    }

    fn check_cors(&mut self, written: &file::Spanned<file::CorsSpec>, at: &str) -> Option<CorsConfig> {
        let cors = &written.value;
        let example = "the pages that may call, such as `origins: [https://app.example.com]`";
        let list = self.require_key(cors.origins.as_ref(), at, "origins", example, position(written.defined));
        let path = format!("{at}.origins");
        let origins = list.and_then(|list| self.read_non_empty(list, &path, scalar::parse_origin));
        let credentials = self.read_bool(&cors.credentials, &format!("{at}.credentials"));
        let max_age = self.read_value(&cors.max_age, &format!("{at}.max_age"), scalar::parse_max_age);
        let (origins, credentials) = (origins?, credentials?);
        let any = origins.iter().any(Option::is_none);
        let place = list.and_then(|list| position(list.defined));
        if any && origins.len() > 1 {
            let message = "`*` cannot be combined with other origins";
            self.report_error(&path, place, message, "write `*` alone, or the origins alone");
            return None;
        }
        if any && credentials {
            // Fetch Standard §3.3.5: `*` is no match for a request whose credentials mode is "include".
            let hint = "list the origins, or remove `credentials`: otherwise every page on the web could call with its visitors' credentials";
            let place = position(cors.credentials.defined);
            self.report_error(&format!("{at}.credentials"), place, "credentials cannot be combined with `*`", hint);
            return None;
        }
        let origins = (!any).then(|| origins.into_iter().flatten().collect());
        Some(CorsConfig { origins, credentials, max_age: max_age? })
    }

    fn check_forward_headers(&mut self, route: &file::RouteSpec, at: &str) -> Option<Vec<HeaderName>> {
        let names =
            self.read_list(&route.forward_headers, &format!("{at}.forward_headers"), scalar::parse_forwarded_field);
        let mut good = true;
        for one in names.iter().flatten() {
            if self.methods.iter().any(|method| method.key_header.as_ref() == Some(&one.value)) {
                good = false;
                let hint = "remove it, and write `forward_credentials: true` if the agent needs it";
                let message = format!("`{}` carries API keys of callers", one.value);
                self.report_error(&one.path, one.position, message, hint);
            }
        }
        collect_values(names).filter(|_| good)
    }

    fn check_upstream_headers(
        &mut self,
        route: &file::RouteSpec,
        forwarded: &[HeaderName],
        at: &str,
    ) -> Option<Vec<UpstreamHeaderConfig>> {
        let mut headers = Vec::new();
        for (name, written) in &route.upstream_headers {
            let path = format!("{at}.upstream_headers.{name}");
            let place = position(written.defined);
            let field = match scalar::parse_set_field(name) {
                Ok(field) => Some(field),
                Err(fault) => {
                    let hint =
                        fault.suggestion.map_or(fault.hint.to_owned(), |meant| format!("did you mean `{meant}`?"));
                    self.report_error(&path, place, format!("`{name}` {}", fault.predicate), hint);
                    None
                }
            };
            if field.as_ref().is_some_and(|field| forwarded.contains(field)) {
                let hint = "keep it in one of the two; callers must not set a header that the gateway sets";
                self.report_error(&path, place, "this header is also in `forward_headers`", hint);
            }
            if field == Some(header::AUTHORIZATION) && route.forward_credentials.value.trim() == "true" {
                let hint = "keep one of the two: a request has only one `authorization`";
                self.report_error(
                    &path,
                    place,
                    "`forward_credentials` already forwards the caller's `authorization`",
                    hint,
                );
            }
            let value = self.check_upstream_value(written, &path);
            headers.push(field.zip(value).map(|(name, value)| UpstreamHeaderConfig { name, value }));
        }
        headers.into_iter().collect()
    }

    fn check_upstream_value(
        &mut self,
        written: &file::Spanned<file::UpstreamHeaderSpec>,
        path: &str,
    ) -> Option<UpstreamHeaderValue> {
        let place = position(written.defined);
        let visible = |text: &str| text.bytes().all(|each| matches!(each, b' '..=b'~'));
        let hint = "write visible ASCII on one line";
        match &written.value {
            file::UpstreamHeaderSpec::Text(text) => {
                let text = self.read_secret(text, path, place)?;
                let value = HeaderValue::from_str(&text).ok().filter(|_| visible(&text));
                let Some(mut value) = value else {
                    self.report_error(path, place, "the value contains characters that a header cannot contain", hint);
                    return None;
                };
                value.set_sensitive(true);
                Some(UpstreamHeaderValue::Text(value))
            }
            file::UpstreamHeaderSpec::File(file) => {
                let example = "the file with the value, such as `file: /run/secrets/agent`";
                let name = self.require_key(file.file.as_ref(), path, "file", example, place);
                let content = name.and_then(|name| self.read_named_file(name, &format!("{path}.file")));
                let prefix = match &file.prefix {
                    Some(prefix) => self.read_prefix(prefix, &format!("{path}.prefix"))?,
                    None => String::new(),
                };
                let (name, (file, content)) = (name?, content?);
                let content = String::from_utf8(content).unwrap_or_default();
                let content = content.trim_end();
                if content.is_empty() || !visible(content) || !visible(&prefix) {
                    let message = "the prefix and the content of the file are not a valid header value";
                    self.report_error(&format!("{path}.file"), position(name.defined), message, hint);
                    return None;
                }
                Some(UpstreamHeaderValue::File { prefix, path: file })
            }
        }
    }

    /// Reads the prefix of a file's content, including the spaces at its end.
    fn read_prefix(&mut self, written: &Scalar<kind::FieldPrefix>, path: &str) -> Option<String> {
        let prefix = written.value.expose_secret();
        let blanks = &prefix[prefix.trim_end().len()..];
        let text = self.read_secret(&written.value, path, position(written.defined))?;
        Some(format!("{text}{blanks}"))
    }
}
