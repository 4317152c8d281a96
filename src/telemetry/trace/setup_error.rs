//! Errors in the collector's environment variables.

use crate::net::url::HttpUrlError;
use std::io;

/// Each message names the variable and the fix. Endpoints are not quoted, since they may contain a password.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "only a build with `otel` exports spans"))]
pub(crate) enum TraceSetupError {
    #[error("{name} {error}; {hint}")]
    Endpoint { name: &'static str, error: HttpUrlError, hint: &'static str },
    #[error("{name} is `{value}`; {hint}")]
    Value { name: &'static str, value: String, hint: &'static str },
    #[cfg(feature = "otel")]
    #[error("traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("traces: {0}")]
    Thread(#[from] io::Error),
}
