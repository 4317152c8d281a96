//! The playground of the inspector's page: a client of the data plane whose conversation the page holds as AG-UI.
//!
//! ```text
//!   page: RunAgentInput ─▶ compose ─▶ the request of a client of the route's dialect, which a person may edit
//!   page ◀─ lines: head, rows, end ◀─ send ◀─ a connection to the data plane, in which every gate applies
//! ```
//! A row has an event as a client receives it, and beside it the same as AG-UI.

mod answer;
mod route_list;

use self::answer::{AnswerReader, AnswerStart, fresh_ids};
use self::route_list::{PlaygroundRoute, side_of};
use crate::config::Config;
use crate::config::header_names::REQUEST_ID;
use crate::config::{PathTemplate, RouteConfig};
use crate::dialect::{AG_UI, PeerDialect};
use crate::event::EventLoss;
use crate::net::SwapCell;
use crate::net::peer_addr::{PeerAddr, PeerInfo};
use crate::proxy::LocalConnector;
use crate::telemetry::internal_event;
use crate::translate::request::translate_request;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Requests of all pages that may be open at once. A page needs one.
const MAX_OPEN_REQUESTS: usize = 8;

/// Largest conversation that a page can send.
const MAX_BODY: usize = 4 << 20;

/// Fields that belong to the connection, which the gateway makes itself.
const OWN_FIELDS: &[HeaderName] =
    &[header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE, header::EXPECT];

#[derive(Clone)]
pub(crate) struct PlaygroundState {
    connector: LocalConnector,
    config: SwapCell<Config>,
    open_requests: Arc<Semaphore>,
}

impl PlaygroundState {
    pub(crate) fn new(connector: LocalConnector, config: SwapCell<Config>) -> Self {
        PlaygroundState { connector, config, open_requests: Arc::new(Semaphore::new(MAX_OPEN_REQUESTS)) }
    }
}

/// A run that the page is about to start, as AG-UI.
#[derive(Debug, Deserialize)]
struct ComposeRequest {
    route: String,
    /// name of the client's dialect
    client: String,
    input: Box<RawValue>,
}

/// The request of a client of the dialect, and where it comes back to its run.
#[derive(Debug, Serialize)]
struct ComposedRequest {
    body: String,
    /// of what this dialect cannot say
    losses: Vec<ComposeLoss>,
    /// path of the events of a client that reads them with a second request
    events_path: Option<String>,
    /// paths at which a run that outlives its client is resumed and stopped
    join_path: Option<String>,
    stop_path: Option<String>,
}

#[derive(Debug, Serialize)]
struct ComposeLoss {
    label: &'static str,
    help: &'static str,
}

#[derive(Debug, Deserialize)]
struct SendRequest {
    route: String,
    client: String,
    method: String,
    path: String,
    headers: Vec<[String; 2]>,
    body: String,
    /// the request that began the run and the events of it that the page has already, if it comes back
    #[serde(default)]
    started: Option<StartedRun>,
}

#[derive(Debug, Deserialize)]
struct StartedRun {
    body: String,
    events: Vec<String>,
}

type Refusal = (StatusCode, Json<serde_json::Value>);

fn refuse(status: StatusCode, detail: impl ToString) -> Refusal {
    (status, Json(json!({"detail": detail.to_string()})))
}

pub(super) fn router(state: PlaygroundState) -> Router {
    Router::new()
        .route("/playground/v1/routes", get(list_routes))
        .route("/playground/v1/compose", post(compose))
        .route("/playground/v1/send", post(send))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(state)
}

async fn list_routes(State(state): State<PlaygroundState>) -> Json<Vec<PlaygroundRoute>> {
    let config = state.config.load();
    Json(config.routes.iter().map(|route| PlaygroundRoute::new(route, &config)).collect())
}

/// Returns the route, and its clients as `client` names them.
fn find_side<'a>(config: &'a Config, route: &str, client: &str) -> Result<(&'a RouteConfig, PeerDialect), Refusal> {
    let found = config.routes.iter().find(|one| one.name == route);
    let route = found.ok_or_else(|| refuse(StatusCode::NOT_FOUND, format!("no route {route:?}")))?;
    let side = side_of(route, client);
    let side = side.ok_or_else(|| refuse(StatusCode::NOT_FOUND, format!("no clients of {client:?} on this route")))?;
    Ok((route, side))
}

async fn compose(
    State(state): State<PlaygroundState>,
    Json(wanted): Json<ComposeRequest>,
) -> Result<Json<ComposedRequest>, Refusal> {
    let config = state.config.load();
    let (route, client) = find_side(&config, &wanted.route, &wanted.client)?;
    let input = wanted.input.get().as_bytes();
    let request = translate_request(input, PeerDialect::new(&AG_UI), client, &fresh_ids())
        .map_err(|refusal| refuse(StatusCode::UNPROCESSABLE_ENTITY, refusal))?;
    let thread_id = request.ids.thread_id.text().unwrap_or_default();
    let run_id = request.ids.run_id.text().unwrap_or_default();
    let fill = |template: &PathTemplate| template.fill(&thread_id, &run_id);
    let below = route_list::is_resumable(route).then(|| PathTemplate::for_runs(&route.path));
    let [join_path, stop_path] = below.as_ref().map_or([None, None], |[join, stop]| [fill(join), fill(stop)]);
    let losses = EventLoss::ALL.iter().filter(|loss| request.losses[**loss as usize] > 0);
    Ok(Json(ComposedRequest {
        losses: losses.map(|loss| ComposeLoss { label: loss.label(), help: loss.description() }).collect(),
        events_path: route.events_path.as_ref().and_then(fill),
        join_path,
        stop_path,
        body: request.body,
    }))
}

/// Sends a request to the data plane, and streams its answer as lines.
async fn send(
    State(state): State<PlaygroundState>,
    peer: Option<Extension<PeerInfo>>,
    Json(wanted): Json<SendRequest>,
) -> Result<Response, Refusal> {
    let config = state.config.load();
    let (_, client) = find_side(&config, &wanted.route, &wanted.client)?;
    let permit = Arc::clone(&state.open_requests).try_acquire_owned().map_err(|_| {
        let text = format!("{MAX_OPEN_REQUESTS} requests of playgrounds are open; stop one of them");
        refuse(StatusCode::TOO_MANY_REQUESTS, text)
    })?;
    let request = to_request(&wanted)?;
    let peer = peer.map_or(PeerInfo { addr: PeerAddr::Unix, tls: false }, |Extension(peer)| peer);
    internal_event::PlaygroundRequestSent {
        peer: &address_of(peer),
        method: &wanted.method,
        path: &wanted.path,
        request_id: request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default(),
    }
    .emit();
    let answer = send_to_data_plane(&state.connector, peer, request).await?;
    let start = AnswerStart { client, frame: config.limits.frame, permit };
    let (begun_by, events) = match &wanted.started {
        Some(run) => (&run.body, run.events.as_slice()),
        None => (&wanted.body, [].as_slice()),
    };
    let lines = AnswerReader::new(start, answer, begun_by, events).into_lines();
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

fn address_of(peer: PeerInfo) -> String {
    match peer.addr {
        PeerAddr::Tcp(address) => address.to_string(),
        PeerAddr::Unix => "unix".to_owned(),
    }
}

fn to_request(wanted: &SendRequest) -> Result<Request<Full<Bytes>>, Refusal> {
    let bad = |why: String| refuse(StatusCode::UNPROCESSABLE_ENTITY, why);
    let target: Uri = wanted.path.parse().map_err(|_| bad("the path is no request target".to_owned()))?;
    if !wanted.path.starts_with('/') {
        return Err(bad("the path must begin with `/`".to_owned()));
    }
    let mut headers = HeaderMap::new();
    for [name, value] in &wanted.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = parsed.ok_or_else(|| bad(format!("{name:?} is no header field, or its value is none")))?;
        if OWN_FIELDS.contains(&name) {
            return Err(bad(format!("{name} belongs to the connection: leave it out")));
        }
        headers.append(name, value);
    }
    // As a client at the inspector's own address would send it.
    headers.entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
    if !headers.contains_key(REQUEST_ID)
        && let Ok(id) = HeaderValue::from_str(&Uuid::now_v7().to_string())
    {
        headers.insert(REQUEST_ID, id);
    }
    let request = Request::builder().method(wanted.method.as_str()).uri(target);
    let mut request = request.body(Full::from(wanted.body.clone())).map_err(|error| bad(error.to_string()))?;
    *request.headers_mut() = headers;
    Ok(request)
}

async fn send_to_data_plane(
    connector: &LocalConnector,
    peer: PeerInfo,
    request: Request<Full<Bytes>>,
) -> Result<http::Response<Incoming>, Refusal> {
    let closed = || refuse(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down");
    let stream = connector.connect(peer).await.ok_or_else(closed)?;
    let failed = |error: hyper::Error| refuse(StatusCode::BAD_GATEWAY, format!("the data plane closed: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with the answer's body, or when the page leaves: then the data plane sees that its client left.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(failed)
}
