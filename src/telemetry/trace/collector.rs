//! The collector of spans, configured only by OpenTelemetry's environment variables.

use super::exporter_client::ExporterClient;
use super::span_queue::{BatchConfig, SpanQueue};
use crate::net::url::{HttpUrl, HttpUrlError};
use crate::telemetry::Metrics;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanExporter as _};
use std::sync::Arc;
use std::time::Duration;

/// The endpoint for traces, or the one for all signals, to which `/v1/traces` is added.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const COMPRESSIONS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Default for one batch, by the exporter's specification.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct TraceCollector {
    tracer: SdkTracer,
    queue: SpanQueue,
}

impl TraceCollector {
    /// Returns `None` if the environment names no collector.
    ///
    /// # Errors
    /// Names the invalid variable and the cause.
    pub(super) fn from_environment(metrics: &Arc<Metrics>) -> Result<Option<TraceCollector>, String> {
        TraceCollector::from_variables(&|name| std::env::var(name).ok(), metrics)
    }

    fn from_variables(
        variable: &dyn Fn(&str) -> Option<String>,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<TraceCollector>, String> {
        if !is_enabled(variable)? {
            return Ok(None);
        }
        let timeout = first_set(variable, TIMEOUTS).map_or(Ok(TIMEOUT), |(name, text)| parse_millis(name, &text))?;
        let pace = BatchConfig {
            schedule_delay: read_number(variable, "OTEL_BSP_SCHEDULE_DELAY", 5000).map(Duration::from_millis)?,
            max_queue_size: read_size(variable, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)?,
            max_export_batch_size: read_size(variable, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
        };
        let post = ExporterClient::new(timeout);
        let exporter = SpanExporter::builder().with_http().with_http_client(post.clone()).build();
        let mut exporter = exporter.map_err(|error| format!("traces: {error}"))?;
        let resource = build_resource();
        exporter.set_resource(&resource);
        let queue = SpanQueue::start(exporter, post, pace, metrics.spans())?;
        let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue.clone()).build();
        let scope = InstrumentationScope::builder("diglot").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Some(TraceCollector { tracer: provider.tracer_with_scope(scope), queue }))
    }

    pub(super) fn tracer(&self) -> &SdkTracer {
        &self.tracer
    }

    pub(super) fn flush(&self, timeout: Duration) {
        self.queue.flush(timeout);
    }
}

/// Returns true if spans are exported. A value for which OpenTelemetry would fall back to its default is an error here, since
/// the operator meant something else.
fn is_enabled(variable: &dyn Fn(&str) -> Option<String>) -> Result<bool, String> {
    // "MUST be set to true only by the case-insensitive string `true`."
    if variable(DISABLED).is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    match variable(EXPORTER).as_deref().map(str::trim) {
        None | Some("" | "otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => return Err(format!("{EXPORTER} is `{other}`; there are `otlp` and `none`")),
    }
    // Without an endpoint there is no cost; OpenTelemetry would try localhost:4318.
    let Some((name, endpoint)) = first_set(variable, ENDPOINTS) else { return Ok(false) };
    if let Err(error) = HttpUrl::parse(&endpoint) {
        let hint = match error {
            HttpUrlError::UserInfo => "put credentials into OTEL_EXPORTER_OTLP_HEADERS",
            HttpUrlError::Malformed | HttpUrlError::NotAbsolute | HttpUrlError::Scheme => {
                "write a URL such as http://collector:4318"
            }
        };
        return Err(format!("{name} {error}; {hint}"));
    }
    if let Some((name, protocol)) = first_set(variable, PROTOCOLS)
        && protocol != "http/protobuf"
    {
        let hint = "write http/protobuf, and the collector's port for HTTP (4318)";
        return Err(format!("{name} is `{protocol}`, which the gateway does not speak; {hint}"));
    }
    if let Some((name, compression)) = first_set(variable, COMPRESSIONS)
        && compression != "none"
    {
        return Err(format!("{name} is `{compression}`, and batches are sent as they are; write none"));
    }
    check_sampler(variable)?;
    Ok(true)
}

fn check_sampler(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let Some((_, sampler)) = first_set(variable, [SAMPLER]) else { return Ok(()) };
    match sampler.as_str() {
        "always_on" | "always_off" | "parentbased_always_on" | "parentbased_always_off" => Ok(()),
        "traceidratio" | "parentbased_traceidratio" => {
            let argument = variable(SAMPLER_ARG).unwrap_or_default();
            let ratio = argument.parse().ok().filter(|ratio: &f64| (0.0..=1.0).contains(ratio));
            let wrong = || format!("{SAMPLER_ARG} is `{argument}`; {sampler} wants a share from 0.0 to 1.0");
            ratio.map(|_| ()).ok_or_else(wrong)
        }
        other => Err(format!(
            "{SAMPLER} is `{other}`; there are always_on, always_off, traceidratio, and parentbased_ before each of them"
        )),
    }
}

/// Describes this service by `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, with `diglot` as the default name.
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

/// Returns the first variable that is not blank.
fn first_set<const N: usize>(
    variable: &dyn Fn(&str) -> Option<String>,
    names: [&'static str; N],
) -> Option<(&'static str, String)> {
    let trimmed = |name: &'static str| variable(name).map(|text| (name, text.trim().to_owned()));
    names.into_iter().filter_map(trimmed).find(|(_, text)| !text.is_empty())
}

fn read_number(variable: &dyn Fn(&str) -> Option<String>, name: &'static str, default: u64) -> Result<u64, String> {
    let value = first_set(variable, [name]);
    value
        .map_or(Ok(default), |(name, text)| text.parse().map_err(|_| format!("{name} is `{text}`, which is no number")))
}

fn read_size(variable: &dyn Fn(&str) -> Option<String>, name: &'static str, default: u64) -> Result<usize, String> {
    let size = read_number(variable, name, default)?;
    usize::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("{name} is `{size}`; there has to be some"))
}

fn parse_millis(name: &str, text: &str) -> Result<Duration, String> {
    let wrong = || format!("{name} is `{text}`, which is no number of milliseconds");
    text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_variables(variables: &[(&str, &str)]) -> Result<bool, String> {
        let found = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
        is_enabled(&found)
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
