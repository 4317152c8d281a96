//! Maps pingora's errors to rejections.

use crate::error::{Rejection, RejectionKind};
use crate::telemetry::label::UpstreamOutcome;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::{BError, ErrorSource, ErrorType, RetryType};
use std::io;
use tokio_rustls::rustls;

/// The agent has no free HTTP/2 stream, and no further connection may be opened.
pub(super) const UPSTREAM_BUSY: ErrorType = ErrorType::Custom("UpstreamBusy");

pub(super) fn connect_rejection(error: &BError, address: &SocketAddr) -> Rejection {
    let kind = match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => RejectionKind::UpstreamTimeout,
        ErrorType::TLSHandshakeFailure | ErrorType::InvalidCert | ErrorType::TLSWantX509Lookup => {
            RejectionKind::UpstreamTls
        }
        _ if *error.etype() == UPSTREAM_BUSY => RejectionKind::UpstreamBusy,
        _ if is_tls(error) => RejectionKind::UpstreamTls,
        ErrorType::HandshakeError => match h2_error(error) {
            Some(error) if !error.is_io() => RejectionKind::UpstreamProtocol,
            _ => RejectionKind::UpstreamReset,
        },
        _ => RejectionKind::UpstreamUnreachable,
    };
    let cause = match error.etype() {
        ErrorType::ConnectRefused => "connection refused".to_owned(),
        ErrorType::ConnectNoRoute => "no route to this address".to_owned(),
        ErrorType::ConnectTimedout => "no connection within `timeouts.connect`".to_owned(),
        _ if kind == RejectionKind::UpstreamTls => tls_cause(error),
        _ if kind == RejectionKind::UpstreamBusy => {
            error.context.as_ref().map_or_else(String::new, |context| context.as_str().to_owned())
        }
        _ => error.root_cause().to_string().trim().to_owned(),
    };
    Rejection::from(kind).with_cause(format_args!("{address}: {cause}"))
}

/// Returns the TLS error. pingora's root cause may be the local address, and the error only part of a context.
fn tls_cause(error: &BError) -> String {
    let chain = error.to_string();
    let error = chain.split(", SNI:").next().unwrap_or_default();
    let error = error.rsplit("cause: ").next().unwrap_or_default().trim();
    let meaning = if error.contains("InvalidContentType") {
        "the agent answered without TLS: "
    } else if error.contains("handshake eof") {
        "the agent closed the connection: "
    } else {
        ""
    };
    format!("{meaning}{error}")
}

pub(super) fn read_rejection(error: &BError) -> Rejection {
    let kind = match error.etype() {
        ErrorType::ReadTimedout => RejectionKind::UpstreamTimeout,
        ErrorType::InvalidHTTPHeader | ErrorType::H2Error | ErrorType::InvalidH2 => RejectionKind::UpstreamProtocol,
        ErrorType::ConnectionClosed => RejectionKind::UpstreamTruncated,
        ErrorType::Custom("PrematureBodyEnd") => RejectionKind::UpstreamTruncated,
        ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => RejectionKind::UpstreamProtocol,
        // With TLS 1.3, an agent rejects the client certificate only after the handshake.
        _ if is_tls(error) => RejectionKind::UpstreamTls,
        _ => RejectionKind::UpstreamReset,
    };
    debug_assert!(*error.esource() != ErrorSource::Downstream, "the agent's side has one peer");
    Rejection::from(kind).with_cause(error.to_string().trim())
}

/// Maps an error that occurred before the response head.
pub(super) fn head_rejection(error: &BError) -> Rejection {
    let mut rejection = read_rejection(error);
    // "The REFUSED_STREAM error code [...] to indicate that the stream is being closed prior to any processing having
    // occurred" (RFC 9113 §8.7): the usual reason is a limit that the agent has reached.
    if h2_error(error).and_then(h2::Error::reason) == Some(h2::Reason::REFUSED_STREAM) {
        rejection.kind = RejectionKind::UpstreamBusy;
    }
    if rejection.kind == RejectionKind::UpstreamTruncated {
        rejection.kind = RejectionKind::UpstreamReset;
    }
    rejection
}

/// Returns whether the agent refused the stream, or its GOAWAY excludes it: "Requests that have not been processed
/// [...] can be retried" (RFC 9113 §8.7).
pub(super) fn is_unprocessed(error: &BError) -> bool {
    // pingora also marks the agent's HTTP/2 protocol errors, which do not indicate whether the request was processed.
    error.etype == ErrorType::H2Error && error.retry == RetryType::Decided(true)
}

fn h2_error(error: &BError) -> Option<&h2::Error> {
    error.root_cause().downcast_ref()
}

pub(super) fn cause_text(rejection: &Rejection) -> &str {
    rejection.cause.as_deref().unwrap_or_else(|| rejection.message())
}

pub(super) fn upstream_outcome(rejection: &Rejection) -> UpstreamOutcome {
    match rejection.kind {
        RejectionKind::UpstreamUnreachable => UpstreamOutcome::Unreachable,
        RejectionKind::UpstreamTls => UpstreamOutcome::Tls,
        RejectionKind::UpstreamTimeout => UpstreamOutcome::TimedOut,
        RejectionKind::UpstreamBusy => UpstreamOutcome::Unavailable,
        _ => UpstreamOutcome::Broken,
    }
}

fn is_tls(error: &BError) -> bool {
    let cause = error.root_cause();
    let io = cause.downcast_ref::<io::Error>();
    io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<rustls::Error>())
        // HTTP/2 keeps only the message of an underlying error.
        || cause.to_string().starts_with("received fatal alert: ")
}
