//! Span export, configured by OpenTelemetry's environment variables.

use super::exporter_client::ExporterClient;
use super::setup_error::TraceSetupError;
use super::span_queue::{BatchConfig, SpanQueue};
use crate::net::url::{HttpUrl, HttpUrlError};
use crate::telemetry::metric::Metrics;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanExporter as _};
use std::time::Duration;

/// Variables that set the endpoint for traces, or for all signals; `/v1/traces` is appended to the latter.
const ENDPOINTS: &[&str] = &["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: &[&str] = &["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: &[&str] = &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const COMPRESSIONS: &[&str] = &["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Default timeout per batch in the OTLP exporter specification.
const TIMEOUT_MILLIS: u64 = 10_000;

/// Default number of spans that wait for the collector, as in OpenTelemetry's specification.
const MAX_QUEUED_SPANS: u64 = 2048;

type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

#[derive(Clone, Debug)]
pub(super) struct SpanRecorder {
    pub(super) tracer: SdkTracer,
    queue: SpanQueue,
}

impl SpanRecorder {
    /// Returns `None` if no endpoint is configured.
    pub(super) fn from_environment(metrics: &Metrics) -> Result<Option<SpanRecorder>, TraceSetupError> {
        let variable = &|name: &str| std::env::var(name).ok();
        if !is_enabled(variable)? {
            return Ok(None);
        }
        let pace = BatchConfig {
            schedule_delay: Duration::from_millis(read_number(variable, &["OTEL_BSP_SCHEDULE_DELAY"], 5000, 0)?),
            max_queue_size: read_size(variable, "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUED_SPANS)?,
            max_export_batch_size: read_size(variable, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
        };
        let client = ExporterClient::new(Duration::from_millis(read_number(variable, TIMEOUTS, TIMEOUT_MILLIS, 1)?));
        let mut exporter = SpanExporter::builder().with_http().with_http_client(client.clone()).build()?;
        let resource = build_resource();
        exporter.set_resource(&resource);
        let queue = SpanQueue::start(exporter, client, pace, metrics.spans.clone())?;
        let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue.clone()).build();
        let scope = InstrumentationScope::builder("diglot").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Some(SpanRecorder { tracer: provider.tracer_with_scope(scope), queue }))
    }

    pub(super) fn flush(&self, timeout: Duration) {
        self.queue.flush(timeout);
    }
}

/// Returns whether spans are exported. Invalid values are errors, whereas OpenTelemetry would use the default.
fn is_enabled(variable: Variables<'_>) -> Result<bool, TraceSetupError> {
    // "MUST be set to true only by the case-insensitive string `true`."
    if variable(DISABLED).is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    match first_set(variable, &[EXPORTER]) {
        Some((_, exporter)) if exporter == "none" => return Ok(false),
        Some((name, exporter)) if exporter != "otlp" => {
            return Err(invalid(name, exporter, "write `otlp` or `none`"));
        }
        _ => {}
    }
    // Without an endpoint nothing is exported; OpenTelemetry would try localhost:4318.
    let Some((name, endpoint)) = first_set(variable, ENDPOINTS) else { return Ok(false) };
    if let Err(error) = HttpUrl::parse(&endpoint) {
        let hint = match error {
            HttpUrlError::UserInfo => "put credentials into OTEL_EXPORTER_OTLP_HEADERS",
            HttpUrlError::Malformed | HttpUrlError::NotAbsolute | HttpUrlError::Scheme => {
                "write a URL such as http://collector:4318"
            }
        };
        return Err(TraceSetupError::Endpoint { name, error, hint });
    }
    if let Some((name, protocol)) = first_set(variable, PROTOCOLS)
        && protocol != "http/protobuf"
    {
        return Err(invalid(name, protocol, "write http/protobuf, and the collector's port for HTTP (4318)"));
    }
    if let Some((name, compression)) = first_set(variable, COMPRESSIONS)
        && compression != "none"
    {
        return Err(invalid(name, compression, "batches are sent uncompressed; write none"));
    }
    check_sampler(variable)?;
    Ok(true)
}

fn check_sampler(variable: Variables<'_>) -> Result<(), TraceSetupError> {
    let Some((name, sampler)) = first_set(variable, &[SAMPLER]) else { return Ok(()) };
    match sampler.as_str() {
        "always_on" | "always_off" | "parentbased_always_on" | "parentbased_always_off" => Ok(()),
        "traceidratio" | "parentbased_traceidratio" => {
            let ratio = variable(SAMPLER_ARG).unwrap_or_default();
            let is_ratio = ratio.parse().is_ok_and(|ratio: f64| (0.0..=1.0).contains(&ratio));
            if is_ratio { Ok(()) } else { Err(invalid(SAMPLER_ARG, ratio, "write a ratio from 0.0 to 1.0")) }
        }
        _ => Err(invalid(
            name,
            sampler,
            "write always_on, always_off or traceidratio, each also with parentbased_ before it",
        )),
    }
}

/// Describes this service from `OTEL_SERVICE_NAME` (default `diglot`) and `OTEL_RESOURCE_ATTRIBUTES`.
fn build_resource() -> Resource {
    let own = |given: &Resource| {
        let unnamed =
            given.get(&Key::new("service.name")).is_none_or(|name| name.as_str().starts_with("unknown_service"));
        let name = unnamed.then(|| KeyValue::new("service.name", "diglot"));
        let version = given.get(&Key::new("service.version")).is_none();
        let version = version.then(|| KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        name.into_iter().chain(version).collect::<Vec<_>>()
    };
    let more = own(&Resource::builder().build());
    Resource::builder().with_attributes(more).build()
}

fn first_set(variable: Variables<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    let trimmed = |name: &&'static str| variable(name).map(|text| (*name, text.trim().to_owned()));
    names.iter().filter_map(trimmed).find(|(_, text)| !text.is_empty())
}

fn read_number(
    variable: Variables<'_>,
    names: &[&'static str],
    default: u64,
    least: u64,
) -> Result<u64, TraceSetupError> {
    let Some((name, text)) = first_set(variable, names) else { return Ok(default) };
    let hint = if least == 0 { "write a whole number" } else { "write a whole number greater than 0" };
    text.parse().ok().filter(|number| *number >= least).ok_or_else(|| invalid(name, text, hint))
}

fn read_size(variable: Variables<'_>, name: &'static str, default: u64) -> Result<usize, TraceSetupError> {
    read_number(variable, &[name], default, 1).map(|size| usize::try_from(size).unwrap_or(usize::MAX))
}

fn invalid(name: &'static str, value: String, hint: &'static str) -> TraceSetupError {
    TraceSetupError::Value { name, value, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_variables(variables: &[(&str, &str)]) -> Result<bool, String> {
        let found = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
        is_enabled(&found).map_err(|error| error.to_string())
    }

    #[test]
    fn exports_only_with_an_endpoint() {
        let here = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (variables, on) in [
            (vec![], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false),
            (vec![("OTEL_TRACES_SAMPLER", "always_on")], false),
            (vec![here], true),
            (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector/otlp/v1/traces")], true),
            (vec![here, ("OTEL_SDK_DISABLED", "TRUE")], false),
            (vec![here, ("OTEL_SDK_DISABLED", "1")], true),
            (vec![here, ("OTEL_TRACES_EXPORTER", "none")], false),
            (
                vec![here, ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")],
                true,
            ),
        ] {
            assert_eq!(check_variables(&variables), Ok(on), "{variables:?}");
        }
    }

    #[test]
    fn names_the_invalid_variable() {
        let here = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (variables, message) in [
            (
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is not an absolute URL",
            ),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:secret@h:4318")], "OTEL_EXPORTER_OTLP_ENDPOINT contains"),
            (vec![here, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"),
            (vec![here, ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")], "OTEL_EXPORTER_OTLP_COMPRESSION is `gzip`"),
            (vec![here, ("OTEL_TRACES_EXPORTER", "zipkin")], "OTEL_TRACES_EXPORTER is `zipkin`"),
            (vec![here, ("OTEL_TRACES_SAMPLER", "sometimes")], "OTEL_TRACES_SAMPLER is `sometimes`"),
            (
                vec![here, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")],
                "OTEL_TRACES_SAMPLER_ARG",
            ),
        ] {
            let why = check_variables(&variables).expect_err(message);
            assert!(why.starts_with(message) && !why.contains("secret"), "{why}");
        }
    }
}
