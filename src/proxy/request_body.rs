//! Reads a request body, within its limits.

use super::body_budget::BodyPermit;
use crate::config::LimitsConfig;
use crate::error::{Rejection, RejectionKind};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Maximum size of a body that may arrive at any speed within `body_timeout`.
const SMALL_BODY: usize = 64 << 10;

/// A body larger than [`SMALL_BODY`] must bring this many bytes, or its end, within each interval: 16 KiB/s.
const LEAST_BYTES: usize = 80 << 10;
const LEAST_BYTES_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of bytes of a rejected body to read and discard, and the maximum time for it.
const DISCARD_LIMIT: usize = 16 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a request. If it is dropped before its end, since the request is refused, the rest is read and
/// discarded: otherwise a client that is still sending would get a connection error instead of the response.
pub(super) struct RequestBody {
    /// `None` once it was taken
    body: Option<Incoming>,
    /// A client that sent `Expect: 100-continue` sends nothing before its body is read.
    is_awaited: bool,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, headers: &HeaderMap) -> Self {
        RequestBody { body: Some(body), is_awaited: !headers.contains_key(header::EXPECT) }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| self.is_awaited && !body.is_end_stream());
        // Without a runtime, the process ends.
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            runtime.spawn(discard(body));
        }
    }
}

/// Rejects content types other than JSON.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Rejection> {
    let lowercase = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase());
    // The AG-UI client merges the application's content type with its own into one list.
    if !lowercase(header::CONTENT_TYPE).is_none_or(|kind| kind.contains("application/json") || kind.contains("+json")) {
        return Err(RejectionKind::UnsupportedMediaType.into());
    }
    if lowercase(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(RejectionKind::UnsupportedMediaType.into());
    }
    Ok(())
}

pub(super) fn check_length(limits: &LimitsConfig, length: usize) -> Result<(), Rejection> {
    if length > limits.request_body { Err(too_large(limits.request_body)) } else { Ok(()) }
}

fn too_large(limit: usize) -> Rejection {
    Rejection::from(RejectionKind::BodyTooLarge).with_detail(format!("The request body is larger than {limit} bytes."))
}

pub(super) async fn read_body(
    limits: &LimitsConfig,
    headers: &HeaderMap,
    mut request_body: RequestBody,
    permit: &mut BodyPermit,
) -> Result<Bytes, Rejection> {
    let limit = limits.request_body;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let Some(mut body) = request_body.body.take() else { return Ok(Bytes::new()) };
    let result = tokio::time::timeout(limits.body_timeout, collect(&mut body, limit, announced, permit)).await;
    match result {
        Err(_) => Err(RejectionKind::RequestTimeout.into()),
        Ok(Ok(whole)) => {
            permit.end_wait();
            Ok(whole)
        }
        Ok(Err(rejection)) => {
            if rejection.kind != RejectionKind::RequestTimeout {
                tokio::spawn(discard(body));
            }
            Err(rejection)
        }
    }
}

async fn collect<B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin>(
    body: &mut B,
    limit: usize,
    announced: Option<usize>,
    permit: &mut BodyPermit,
) -> Result<Bytes, Rejection> {
    // Memory is taken as bytes arrive: a client that only announces a body must not take the memory of others.
    let limit = announced.unwrap_or(limit);
    let mut whole = Vec::new();
    let mut interval_end = Instant::now() + LEAST_BYTES_INTERVAL;
    let mut interval_bytes = 0;
    loop {
        match tokio::time::timeout_at(interval_end, body.frame()).await {
            Ok(None) => return Ok(whole.into()),
            Ok(Some(frame)) => interval_bytes += append(&mut whole, frame, limit, permit)?,
            Err(_) => {}
        }
        if interval_end <= Instant::now() {
            // Without this, a few clients that stall would hold the memory of all bodies for the whole `body_timeout`.
            if whole.len() > SMALL_BODY && interval_bytes < LEAST_BYTES {
                return Err(Rejection::from(RejectionKind::RequestTimeout)
                    .with_detail("The request body arrived more slowly than 16 KiB per second."));
            }
            interval_end = Instant::now() + LEAST_BYTES_INTERVAL;
            interval_bytes = 0;
        }
    }
}

/// Appends a frame's data and returns its length.
fn append<E: std::fmt::Display>(
    whole: &mut Vec<u8>,
    frame: Result<Frame<Bytes>, E>,
    limit: usize,
    permit: &mut BodyPermit,
) -> Result<usize, Rejection> {
    let frame = frame.map_err(|error| {
        Rejection::from(RejectionKind::InvalidRequest).with_detail("The request body broke off.").with_cause(error)
    })?;
    let Ok(data) = frame.into_data() else { return Ok(0) };
    let length = whole.len() + data.len();
    if length > limit {
        return Err(too_large(limit));
    }
    if length > whole.capacity() {
        let capacity = (whole.capacity() * 2).max(length).min(limit);
        permit.grow_to(capacity)?;
        whole.reserve_exact(capacity - whole.len());
    }
    whole.extend_from_slice(&data);
    Ok(data.len())
}

async fn discard(mut body: Incoming) {
    let rest = async {
        let mut left = DISCARD_LIMIT;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Anything beyond that is not read.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::body_budget::{BodyBounds, BodyBudget};
    use crate::telemetry::Metrics;
    use futures_util::stream;
    use http_body_util::StreamBody;
    use std::sync::Arc;

    const LIMIT: usize = 1 << 20;

    /// Collects a body that arrives in pieces of `size` bytes, one each second.
    async fn collect_slowly(size: usize, pieces: usize) -> Result<usize, RejectionKind> {
        let stream = stream::unfold(0, |number| async move {
            if number == pieces {
                return None;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b' '; size]))), number + 1))
        });
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let budget = BodyBudget::new(BodyBounds { one: LIMIT, all: LIMIT }, metrics);
        let mut permit = budget.start_without_head([0; 32]);
        let whole = collect(&mut Box::pin(StreamBody::new(stream)), LIMIT, None, &mut permit).await;
        whole.map(|whole| whole.len()).map_err(|rejection| rejection.kind)
    }

    #[tokio::test(start_paused = true)]
    async fn rejects_a_large_body_that_trickles() {
        assert_eq!(collect_slowly(17 << 10, 40).await, Ok(680 << 10));
        assert_eq!(collect_slowly(15 << 10, 40).await, Err(RejectionKind::RequestTimeout));
        // A small body has all of `body_timeout`.
        assert_eq!(collect_slowly(1 << 10, 64).await, Ok(64 << 10));
        assert_eq!(collect_slowly(17 << 10, 100).await, Err(RejectionKind::BodyTooLarge));
    }
}
