//! An HTTP/1.1 client for small documents, with time and size limits, without redirects or connection reuse.

use super::tls::{self, SystemTlsError};
use super::url::{HttpUrl, HttpUrlError};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};

/// Time for the body of an error, which only explains it.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("diglot/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    /// limit for the whole exchange, from DNS to the end of the body
    pub(crate) timeout: Duration,
    pub(crate) max_body: usize,
    /// what is read of the body of an error status; 0 for callers that need the status alone
    pub(crate) max_error_body: usize,
    /// limit on all bytes read, including heads, interim responses and chunk framing
    pub(crate) max_read: u64,
    /// whether to refuse plain `http` to all addresses except loopback
    pub(crate) plain_only_to_loopback: bool,
}

#[derive(Clone)]
pub(crate) struct HttpClient {
    limits: HttpLimits,
    /// created on first use, since loading the system's certificates is slow and often unnecessary
    tls: Arc<OnceLock<TlsConnector>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpClientError {
    #[error("the URL {0}")]
    Url(#[from] HttpUrlError),
    #[error("no complete response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the host cannot be resolved: {0}")]
    Resolve(io::Error),
    #[error("{authority}: cannot connect: {error}")]
    Connect { authority: String, error: io::Error },
    #[error("TLS: {0}")]
    Handshake(io::Error),
    #[error("TLS: {0}")]
    Roots(#[from] SystemTlsError),
    #[error("TLS: {0}")]
    ServerName(#[from] InvalidDnsNameError),
    #[error("not a valid request: {0}")]
    Request(#[from] http::Error),
    #[error("the exchange failed: {0}")]
    Exchange(#[from] hyper::Error),
    #[error("the response is larger than {0} bytes")]
    BodyTooLarge(usize),
    #[error("the response broke off: {0}")]
    Body(Box<dyn StdError + Send + Sync>),
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl HttpClient {
    pub(crate) fn new(limits: HttpLimits) -> HttpClient {
        HttpClient { limits, tls: Arc::default() }
    }

    /// Sends a request to its absolute URI, adding `Host` and `User-Agent`. Reads the body of another status than 2xx
    /// only up to `max_error_body`.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpClientError> {
        let timeout = self.limits.timeout;
        let exchange = tokio::time::timeout(timeout, self.send_without_timeout(request)).await;
        exchange.unwrap_or(Err(HttpClientError::Timeout(timeout)))
    }

    async fn send_without_timeout(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpClientError> {
        let url = HttpUrl::from_uri(request.uri())?;
        *request.uri_mut() = url.path.parse().map_err(http::Error::from)?;
        let host = HeaderValue::from_str(&url.authority).map_err(http::Error::from)?;
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
        let stream = self.connect(&url).await?;
        if !url.tls {
            return exchange(stream, request, self.limits).await;
        }
        let name = ServerName::try_from(url.host)?;
        let stream = self.tls_connector()?.connect(name, stream).await.map_err(HttpClientError::Handshake)?;
        exchange(stream, request, self.limits).await
    }

    async fn connect(&self, url: &HttpUrl) -> Result<TcpStream, HttpClientError> {
        let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await.map_err(HttpClientError::Resolve)?;
        let may_connect =
            |address: &SocketAddr| url.tls || !self.limits.plain_only_to_loopback || address.ip().is_loopback();
        let addresses: Vec<SocketAddr> = found.filter(may_connect).collect();
        let stream = TcpStream::connect(&addresses[..]).await;
        stream.map_err(|error| HttpClientError::Connect { authority: url.authority.clone(), error })
    }

    fn tls_connector(&self) -> Result<&TlsConnector, SystemTlsError> {
        match self.tls.get() {
            Some(connector) => Ok(connector),
            None => tls::system_connector().map(|connector| self.tls.get_or_init(|| connector)),
        }
    }
}

async fn exchange<S>(stream: S, request: Request<Bytes>, limits: HttpLimits) -> Result<Response<Bytes>, HttpClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (read_half, write_half) = split(stream);
    let stream = join(read_half.take(limits.max_read), write_half);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let response = async {
        let (head, body) = sender.send_request(request.map(Full::<Bytes>::from)).await?.into_parts();
        if !head.status.is_success() {
            // The status is the error; a body that does not arrive in time explains nothing.
            let body = match limits.max_error_body {
                0 => Bytes::new(),
                limit => {
                    let whole = tokio::time::timeout(ERROR_BODY_TIMEOUT, Limited::new(body, limit).collect()).await;
                    whole.ok().and_then(Result::ok).map_or_else(Bytes::new, |body| body.to_bytes())
                }
            };
            return Ok(Response::from_parts(head, body));
        }
        let body = Limited::new(body, limits.max_body).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                HttpClientError::BodyTooLarge(limits.max_body)
            } else {
                HttpClientError::Body(error)
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    // Polled here rather than in a task, so that dropping this future closes the connection.
    tokio::pin!(response);
    tokio::select! {
        response = &mut response => response,
        ended = connection => {
            ended?;
            response.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// hyper accepts any number of interim responses; a fast sender could otherwise prevent the timeout check.
    #[tokio::test]
    async fn aborts_on_a_flood_of_interim_responses() {
        let limits = HttpLimits {
            timeout: Duration::from_secs(5),
            max_body: 1 << 20,
            max_error_body: 0,
            max_read: 4 << 20,
            plain_only_to_loopback: true,
        };
        for (flood, good) in [(3, true), (1 << 16, false)] {
            let (client, mut server) = tokio::io::duplex(1 << 16);
            let serve = async {
                // hyper treats a response that arrives before its request as a broken connection.
                let received = server.read(&mut [0; 1024]).await?;
                assert!(received > 0);
                let early = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload; as=style; nopush; x=0123456789\r\n\r\n";
                for _ in 0..flood {
                    server.write_all(early.as_bytes()).await?;
                }
                server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await
            };
            let request = Request::get("/keys").body(Bytes::new()).expect("a request");
            let (_, response) = tokio::join!(serve, exchange(client, request, limits));
            assert_eq!(response.is_ok(), good, "{response:?}");
        }
    }
}
