//! Sends span batches to the collector, each over a new connection.

use crate::net::http_client::{HttpClient, HttpLimits};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use opentelemetry_http::{HttpClient as ExporterTransport, HttpError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of the response body, which contains the number of accepted spans, in bytes.
const MAX_RESPONSE_BODY: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct ExporterClient {
    http: HttpClient,
    /// why the last batch was not sent
    failure: Arc<Mutex<Option<String>>>,
}

impl ExporterClient {
    /// Creates a client that spends at most `timeout` on a batch, including DNS and the response body.
    pub(super) fn new(timeout: Duration) -> ExporterClient {
        let max_read = 4 * MAX_RESPONSE_BODY as u64;
        let limits = HttpLimits {
            timeout,
            max_body: MAX_RESPONSE_BODY,
            max_error_body: 0,
            max_read,
            plain_only_to_loopback: false,
        };
        ExporterClient { http: HttpClient::new(limits), failure: Arc::default() }
    }

    pub(super) fn take_failure(&self) -> Option<String> {
        self.failure.lock().take()
    }
}

#[async_trait]
impl ExporterTransport for ExporterClient {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let response = self.http.send(request).await;
        match &response {
            Ok(response) if !response.status().is_success() => {
                *self.failure.lock() = Some(format!("the collector answered {}", response.status()));
            }
            Ok(_) => {}
            Err(error) => *self.failure.lock() = Some(error.to_string()),
        }
        Ok(response?)
    }
}
