//! The inspector's listener on loopback, for browsers: the page, and the part of the admin plane that only looks.
//!
//! Every other user and every page in a browser of this machine can connect to a loopback address. So a request needs a
//! token, which only the user who started the gateway knows; it must name this listener as its host, or another site
//! could have its own name point here (DNS rebinding); and its origin, if it has one, must be this listener.

use super::config_check::{self, ConfigCheckState};
use super::inspect::{self, InspectState};
use super::page;
use super::playground::{self, PlaygroundState};
use crate::telemetry::Metrics;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The page has no inline script or style, and talks to this listener alone.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The secret in the page's address, new in each process.
#[derive(Clone)]
pub(crate) struct InspectorToken(Arc<str>);

impl InspectorToken {
    pub(crate) fn new() -> Result<InspectorToken, String> {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
        Ok(InspectorToken(hex::encode(bytes).into()))
    }

    /// Returns the address of the page. A browser does not send what follows `#`.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        format!("http://{address}/#token={}", self.0)
    }

    fn is_sent_in(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        verify_slices_are_equal(sent.as_bytes(), self.0.as_bytes()).is_ok()
    }
}

/// The checks of each request, and their counter.
#[derive(Clone)]
struct InspectorGuard {
    token: InspectorToken,
    metrics: Arc<Metrics>,
}

pub(crate) fn router(
    inspect: InspectState,
    playground: PlaygroundState,
    check: ConfigCheckState,
    status: Router,
    token: InspectorToken,
    metrics: Arc<Metrics>,
) -> Router {
    let guard = InspectorGuard { token, metrics };
    let own =
        inspect::router(inspect).merge(playground::router(playground)).merge(config_check::router(check)).merge(status);
    let secured = own.layer(from_fn_with_state(guard.clone(), require_token));
    page::router().merge(secured).layer(from_fn_with_state(guard, require_own_site))
}

async fn require_token(State(guard): State<InspectorGuard>, request: Request, next: Next) -> Response {
    if guard.token.is_sent_in(request.headers()) {
        return next.run(request).await;
    }
    // Only counted: any process of the machine could fill the log.
    guard.metrics.process.inspector_refused.inc();
    let text = "this needs the token of the page's address, which `diglot demo` prints when it starts, and \
                `diglot inspect url --config FILE` for other gateways\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

async fn require_own_site(State(guard): State<InspectorGuard>, request: Request, next: Next) -> Response {
    let mut response = if is_own_site(request.headers()) {
        next.run(request).await
    } else {
        guard.metrics.process.inspector_refused.inc();
        (StatusCode::FORBIDDEN, "the inspector answers only its own page on this machine\n").into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Returns whether the host is a loopback address or `localhost`, and the origin, if there is one, the same. Any port
/// will do, since `ssh -L` and `kubectl port-forward` change it. Each stands there once: of two, the page's browser
/// could mean the other.
fn is_own_site(headers: &HeaderMap) -> bool {
    let only = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
    };
    let Some(host) = only(header::HOST) else { return false };
    let is_port = |port: &str| !port.starts_with('+') && port.parse::<u16>().is_ok();
    let is_loopback = host == "localhost"
        || host.rsplit_once(':').is_some_and(|(name, port)| name == "localhost" && is_port(port))
        || host.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback && (!headers.contains_key(header::ORIGIN) || only(header::ORIGIN) == Some(&format!("http://{host}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_site_is_loopback_with_its_own_origin() {
        for (host, origin, expected) in [
            ("127.0.0.1:8789", None, true),
            ("127.0.0.1:8789", Some("http://127.0.0.1:8789"), true),
            ("[::1]:8789", Some("http://[::1]:8789"), true),
            ("localhost:9000", Some("http://localhost:9000"), true),
            ("127.0.0.1:8789", Some("http://localhost:8789"), false),
            ("127.0.0.1:8789", Some("http://127.0.0.1:8787"), false),
            ("127.0.0.1:8789", Some("null"), false),
            ("evil.example:8789", None, false),
            ("localhost.evil.example:8789", None, false),
            ("localhost:+80", None, false),
            ("localhost:", None, false),
            ("0.0.0.0:8789", None, false),
            ("[::ffff:127.0.0.1]:8789", None, false),
            ("127.1:8789", None, false),
            ("2130706433", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("10.0.0.1:8789", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_own_site(&headers), expected, "{host} {origin:?}");
        }
        assert!(!is_own_site(&HeaderMap::new()), "without a host");
        for (name, value) in [(header::HOST, "evil.example"), (header::ORIGIN, "http://evil.example")] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8789"));
            headers.insert(header::ORIGIN, HeaderValue::from_static("http://127.0.0.1:8789"));
            assert!(is_own_site(&headers));
            headers.append(name, HeaderValue::from_static(value));
            assert!(!is_own_site(&headers), "two values of {headers:?}");
        }
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = InspectorToken::new().expect("random numbers");
        let other = InspectorToken::new().expect("random numbers");
        let sent = |value: String| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a value"));
            token.is_sent_in(&headers)
        };
        assert!(sent(format!("Bearer {}", token.0)));
        assert!(!sent(format!("Bearer {}", other.0)));
        assert!(!sent(format!("Bearer {}", &token.0[1..])));
        assert!(!sent(token.0.to_string()));
        assert!(!token.is_sent_in(&HeaderMap::new()));
    }
}
