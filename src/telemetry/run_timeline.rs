//! Collects what happens to a request beside the events of its run, if its run is captured: the decisions of the gates,
//! the connection to the agent, keep-alives, and the heads of both requests without their secrets.

use super::mask::MASK;
use http::{HeaderMap, Method, Uri};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most moments of a run; later ones are left out.
const MAX_MOMENTS: usize = 32;

/// The most waits for the client of a run; the longest are kept.
const MAX_CLIENT_WAITS: usize = 8;

/// The shortest silence of the agent, and wait for the client, that is shown.
pub(crate) const SHOWN_GAP: Duration = Duration::from_secs(1);

/// The name of a wait for the client.
const CLIENT_WAIT: &str = "client_wait";

/// Bytes that are kept of a detail.
const MAX_DETAIL: usize = 120;

/// Bytes that are kept of a head.
const MAX_HEAD: usize = 2 << 10;

/// Fields whose values are shown. Any other may be a credential, of this gateway or of the agent.
const SHOWN_FIELDS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "origin",
    "traceparent",
    "transfer-encoding",
    "user-agent",
    "via",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// Something that happened once, or several times in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunMoment {
    /// since the request came
    pub(crate) at: Duration,
    pub(crate) name: &'static str,
    /// what a check has decided
    pub(crate) verdict: Option<CheckDecision>,
    /// for a check, what it requires
    pub(crate) detail: Option<String>,
    pub(crate) times: u64,
    /// when it happened for the last time
    pub(crate) until: Duration,
}

/// The decision of a check about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckDecision {
    Passed,
    /// with this code
    Refused(&'static str),
}

#[derive(Debug, Default)]
struct TimelineState {
    moments: Vec<RunMoment>,
    /// the longest times during which the client read nothing, in order
    client_waits: Vec<RunMoment>,
    client_head: Option<String>,
    agent_head: Option<String>,
}

#[derive(Debug)]
pub(crate) struct RunTimeline {
    pub(crate) started_at: Instant,
    keeps_heads: bool,
    state: Mutex<TimelineState>,
}

impl RunTimeline {
    pub(crate) fn new(started_at: Instant, keeps_heads: bool) -> Arc<RunTimeline> {
        Arc::new(RunTimeline { started_at, keeps_heads, state: Mutex::default() })
    }

    /// Returns about the memory that the timeline needs at most.
    pub(crate) const fn reserved_bytes(&self) -> usize {
        /// Most runs have few moments, with short details.
        const MOMENTS: usize =
            MAX_MOMENTS / 2 * (size_of::<RunMoment>() + MAX_DETAIL / 2) + MAX_CLIENT_WAITS * size_of::<RunMoment>();
        if self.keeps_heads { MOMENTS + MAX_HEAD } else { MOMENTS }
    }

    pub(crate) fn record(&self, name: &'static str, detail: Option<String>) {
        self.add(name, None, detail);
    }

    /// Records what a check has decided, and what it requires.
    pub(crate) fn record_verdict(&self, check: &'static str, verdict: CheckDecision, requirements: Option<String>) {
        self.add(check, Some(verdict), requirements);
    }

    fn add(&self, name: &'static str, verdict: Option<CheckDecision>, detail: Option<String>) {
        let at = self.started_at.elapsed();
        let detail = detail.map(|text| cut(text, MAX_DETAIL));
        let mut state = self.state.lock();
        let is_full = state.moments.len() == MAX_MOMENTS;
        let is_same = |last: &RunMoment| (last.name, last.verdict, &last.detail) == (name, verdict, &detail);
        match state.moments.last_mut().filter(|last| is_same(last)) {
            Some(last) => (last.times, last.until) = (last.times + 1, at),
            None if is_full => {}
            None => state.moments.push(RunMoment { at, name, verdict, detail, times: 1, until: at }),
        }
    }

    /// Records that the request was refused, unless a gate has recorded that it refused it.
    pub(crate) fn record_refusal(&self, code: &'static str) {
        let verdict = CheckDecision::Refused(code);
        if !self.state.lock().moments.iter().any(|moment| moment.verdict == Some(verdict)) {
            self.record_verdict("request check", verdict, None);
        }
    }

    /// Records that the client did not read what was written, from `began` until now.
    pub(crate) fn record_client_wait(&self, began: Instant) {
        let until = self.started_at.elapsed();
        let at = began.saturating_duration_since(self.started_at);
        let wait = RunMoment { at, name: CLIENT_WAIT, verdict: None, detail: None, times: 1, until };
        let waits = &mut self.state.lock().client_waits;
        if waits.len() == MAX_CLIENT_WAITS {
            let length = |wait: &RunMoment| wait.until - wait.at;
            let shortest =
                (0..waits.len()).min_by_key(|at| length(&waits[*at])).filter(|at| length(&waits[*at]) < length(&wait));
            let Some(shortest) = shortest else { return };
            waits.remove(shortest);
        }
        waits.push(wait);
    }

    pub(crate) fn client_waits(&self) -> Vec<RunMoment> {
        self.state.lock().client_waits.clone()
    }

    pub(crate) fn record_client_head(&self, method: &Method, uri: &Uri, fields: &HeaderMap) {
        if self.keeps_heads {
            self.state.lock().client_head = Some(format_head(method, uri.path(), uri.query().is_some(), fields));
        }
    }

    /// Records the head of a request to the agent; of several, the last.
    pub(crate) fn record_agent_head(&self, method: &Method, path: &str, fields: &HeaderMap) {
        if self.keeps_heads {
            let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
            self.state.lock().agent_head = Some(format_head(method, path, query.is_some(), fields));
        }
    }

    pub(crate) fn moments(&self) -> Vec<RunMoment> {
        let state = self.state.lock();
        let mut moments = [&*state.moments, &state.client_waits].concat();
        moments.sort_by_key(|moment| moment.at);
        moments
    }

    /// Returns the head of the client's request, and that of the agent's.
    pub(crate) fn heads(&self) -> [Option<String>; 2] {
        let state = self.state.lock();
        [state.client_head.clone(), state.agent_head.clone()]
    }
}

/// Formats a request line and fields. A query is masked as a whole: it may contain a token.
fn format_head(method: &Method, path: &str, has_query: bool, fields: &HeaderMap) -> String {
    let query = if has_query { format!("?{MASK}") } else { String::new() };
    let mut head = format!("{method} {path}{query} HTTP/1.1\n");
    for (name, value) in fields {
        let is_shown = SHOWN_FIELDS.contains(&name.as_str()) && !value.is_sensitive();
        let value = if is_shown { String::from_utf8_lossy(value.as_bytes()) } else { MASK.into() };
        head.push_str(&format!("{name}: {value}\n"));
    }
    cut(head, MAX_HEAD)
}

fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    #[tokio::test]
    async fn keeps_no_secret_of_a_head() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("authorization", "Bearer s3cret"),
            ("cookie", "session=s3cret"),
            ("x-api-key", "s3cret"),
            ("proxy-authorization", "Basic s3cret"),
        ] {
            fields.insert(name, HeaderValue::from_static(value));
        }
        let mut sensitive = HeaderValue::from_static("s3cret");
        sensitive.set_sensitive(true);
        fields.insert(header::USER_AGENT, sensitive);
        let timeline = RunTimeline::new(Instant::now(), true);
        timeline.record_client_head(&Method::POST, &Uri::from_static("/chat?key=s3cret"), &fields);
        timeline.record_agent_head(&Method::POST, "/run?key=s3cret", &fields);
        let [Some(client), Some(agent)] = timeline.heads() else { panic!("two heads") };
        assert!(!client.contains("s3cret") && !agent.contains("s3cret"), "{client}{agent}");
        assert!(client.starts_with("POST /chat?*** HTTP/1.1\ncontent-type: application/json\n"), "{client}");
        assert!(client.contains("authorization: ***\n") && client.contains("x-api-key: ***\n"), "{client}");
        let timeline = RunTimeline::new(Instant::now(), false);
        timeline.record_client_head(&Method::POST, &Uri::from_static("/chat"), &fields);
        assert_eq!(timeline.heads(), [None, None]);
    }

    #[tokio::test]
    async fn is_bounded() {
        let timeline = RunTimeline::new(Instant::now(), true);
        for silence in 0..1000 {
            for _ in 0..3 {
                timeline.record("keep_alive", Some(format!("{silence}{}", "å".repeat(1000))));
            }
        }
        let moments = timeline.moments();
        assert_eq!((moments.len(), moments[0].times), (MAX_MOMENTS, 3));
        assert!(moments.iter().all(|moment| moment.detail.as_ref().is_some_and(|text| text.len() < MAX_DETAIL + 4)));
    }
}
