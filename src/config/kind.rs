//! The kinds of scalars. Each defines its schema, its parser, its value type, and how much of its text is printed.
//!
//! The schema lets editors mark mistakes, and accepts everything that the parser accepts, including any text with `${`,
//! because the value of the variable is unknown.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path as FilePath, PathBuf};
use std::time;

use http::HeaderName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::access::{self, OnExpiry, RateLimitKey, RouteErrorFormat};
use super::enum_values::{self, EnumValues};
use super::inspect::{self, CaptureMode};
use super::listen::ListenAddress;
use super::problem::quote_names;
use super::redact::{redact_digest, redact_prefix, redact_secret, redact_url};
use super::replay::{self, ReplayStoreKind};
use super::scalar::{self, RedisUrl as ParsedRedisUrl, ScalarError};
use super::template::PathTemplate;
use super::upstream::{AgentErrors, UpstreamConfig, UpstreamHttpVersion};
use crate::dialect::{self, ALL, AUTO, OptionSetter};
use crate::translate::GuardMode;

/// The JSON types that YAML may infer for a scalar.
#[derive(Debug, Clone, Copy)]
enum JsonTypes {
    String,
    Integer,
    Number,
    /// `1`, `1.5` and `true` are accepted as text.
    Any,
}

/// Matches text that contains a reference to an environment variable.
const REFERENCE_PATTERN: &str = r"\$\{";

/// A kind of scalar, implemented by marker types without values.
pub(crate) trait ScalarKind: JsonSchema + 'static {
    type Value;

    /// Marks the schema as `writeOnly` and keeps the text out of messages.
    const IS_SECRET: bool = false;

    /// True for numbers and booleans, which are printed without quotes.
    const IS_BARE: bool = false;

    fn parse(text: &str) -> Result<Self::Value, ScalarError>;

    fn redact(text: &str) -> Cow<'_, str> {
        text.into()
    }

    /// Resolves a relative file name against the configuration's directory.
    fn resolve(value: Self::Value, _base_dir: &FilePath) -> Self::Value {
        value
    }
}

/// A scalar kind whose text may be quoted in messages.
pub(crate) trait OpenKind: ScalarKind {}

/// Defines a [`ScalarKind`]. Text is printed partly if `redacted`; messages never quote it if `secret`.
macro_rules! kind {
    ($(#[$meta:meta])* $name:ident => $value:ty, $parse:expr; $bare:expr; $($disclosure:tt)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name;

        impl ScalarKind for $name {
            type Value = $value;
            const IS_BARE: bool = $bare;

            fn parse(text: &str) -> Result<$value, ScalarError> {
                $parse(text)
            }

            kind!(@ $($disclosure)*);
        }

        kind!(@open $name $($disclosure)*);
    };
    (@) => {};
    (@ file) => {
        fn resolve(value: PathBuf, base_dir: &FilePath) -> PathBuf {
            base_dir.join(value)
        }
    };
    (@ redacted $redact:path) => {
        fn redact(text: &str) -> Cow<'_, str> {
            $redact(text)
        }
    };
    (@ secret $redact:path) => {
        const IS_SECRET: bool = true;

        kind!(@ redacted $redact);
    };
    (@open $name:ident secret $redact:path) => {};
    (@open $name:ident $($disclosure:tt)*) => {
        impl OpenKind for $name {}
    };
}

/// Defines kinds by schema name, redaction, JSON types, pattern, value type and parser.
macro_rules! scalars {
    ($($(#[doc = $doc:literal])+ $name:ident $word:literal $([$($disclosure:tt)+])?: $types:expr, $pattern:expr => $value:ty, $parse:expr;)+) => {
        $(
            kind!($(#[doc = $doc])+ $name => $value, $parse; matches!($types, JsonTypes::Integer); $($($disclosure)+)?);

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    $word.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    scalar_schema(concat!($($doc),+).trim(), $types, $pattern, $name::IS_SECRET)
                }
            }
        )+
    };
}

scalars! {
    /// Any text. Quote it if YAML could read it as another type.
    Text "text": JsonTypes::Any, "" => String, scalar::parse_word;
    /// A whole number and one of `ms`, `s`, `m`, `h`: `500ms`, `15s`, `5m`, `1h`. At most 30 days.
    Duration "duration": JsonTypes::String, "[0-9]+(ms|s|m|h)" => time::Duration, scalar::parse_duration;
    /// A whole number of bytes, alone or with `B`, `KiB`, `MiB` or `GiB`: `65536`, `64KiB`, `8MiB`.
    Size "size": JsonTypes::Integer, "[0-9]+(B|KiB|MiB|GiB)?" => usize, scalar::parse_size;
    /// A whole number of at least 1.
    Count "count": JsonTypes::Integer, r"\+?[0-9]+" => NonZeroUsize, scalar::parse_count;
    /// A whole number from 1 to 1000.
    Weight "weight": JsonTypes::Integer, r"\+?[0-9]+" => NonZeroU32, scalar::parse_weight;
    /// Permissions of a file, in octal: `0660`.
    Mode "permissions": JsonTypes::Integer, r"(0o)?\+?[0-7]+" => u32, scalar::parse_mode;
    /// An IP address and a port (`127.0.0.1:8787`, `"[::1]:8787"`), or `unix:` and the absolute path of a socket.
    Address "address": JsonTypes::String, "(unix:/.+|.+:[0-9]+)" => ListenAddress, scalar::parse_listen_address;
    /// An address, a network (`10.0.0.0/8`), or `unix` for every peer on a Unix socket.
    TrustedProxy "proxy": JsonTypes::String, "(unix|[0-9a-fA-F:.]+(/[0-9]+)?)" => access::TrustedProxy, scalar::parse_trusted_proxy;
    /// A path that begins with `/`.
    Path "path": JsonTypes::String, "/.*" => String, scalar::parse_path;
    /// A path that begins with `/` and contains `{thread_id}`.
    EventsPath "path-of-events" [redacted redact_url]: JsonTypes::String, r"/.*\{thread_id\}.*" => PathTemplate, scalar::parse_events_path;
    /// A file name. A relative one is resolved against the configuration's directory.
    FileName "file" [file]: JsonTypes::Any, "" => PathBuf, scalar::parse_file_name;
    /// An `http` or `https` URL.
    Url "url" [redacted redact_url]: JsonTypes::String, "[hH][tT][tT][pP][sS]?://.+" => String, scalar::parse_web_url;
    /// An `http` or `https` URL, or a Unix socket, a colon and the request path: `unix:/run/agent.sock:/chat`.
    AgentUrl "url-of-agent" [redacted redact_url]: JsonTypes::String, "([hH][tT][tT][pP][sS]?://|unix:(//)?/).+" => UpstreamConfig, scalar::parse_upstream;
    /// `redis://host:6379/0`, or `rediss://` for TLS.
    RedisUrl "url-of-redis" [secret redact_url]: JsonTypes::String, "[rR][eE][dD][iI][sS][sS]?://.+" => ParsedRedisUrl, scalar::parse_redis;
    /// An origin as browsers write it (`https://app.example.com`), or `*` for any.
    WebOrigin "origin": JsonTypes::String, r"(\*|[a-z][a-z0-9+.-]*://.+)" => String, scalar::parse_origin;
    /// The name of a request header, in lower case.
    Field "field": JsonTypes::Any, "[!#$%&'*+.^_`|~0-9a-z-]+" => HeaderName, scalar::parse_field_name;
    /// The value of a header. Quote it if YAML could read it as another type.
    FieldValue "value-of-field" [secret redact_secret]: JsonTypes::String, "" => String, parse_text;
    /// The beginning of a header's value. Quote it if YAML could read it as another type.
    FieldPrefix "prefix-of-field" [secret redact_prefix]: JsonTypes::Any, "" => String, parse_text;
    /// The `iss` of tokens, usually a URL. Quote it if YAML could read it as another type.
    Issuer "issuer" [redacted redact_url]: JsonTypes::Any, "" => String, scalar::parse_word;
    /// A secret, never printed. Quote it if YAML could read it as another type.
    Secret "secret" [secret redact_secret]: JsonTypes::Any, "" => String, parse_text;
    /// SHA-256 in 64 hexadecimal digits.
    Digest "sha256" [secret redact_digest]: JsonTypes::Number, "[0-9a-fA-F]{64}" => [u8; 32], scalar::parse_digest;
    /// A date, or a date and a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z`.
    Moment "date": JsonTypes::String, "[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].+)?" => u64, scalar::parse_timestamp;
    /// At most 32 lower-case letters, digits and hyphens; not the name of a built-in dialect.
    DialectName "name-of-dialect": JsonTypes::Any, "[a-z0-9-]{1,32}" => String, parse_text;
    /// A path such as `**.password`, or a regular expression between slashes.
    Redact "redact": JsonTypes::Any, "" => inspect::RedactRule, scalar::parse_redact_rule;
    /// `abort`, or `continue for` and a duration.
    OnDisconnect "on-disconnect": JsonTypes::String, r"(abort|continue\s*for\s+[0-9]+(ms|s|m|h))" => replay::OnDisconnect, scalar::parse_on_disconnect;
}

/// Defines kinds with another kind's schema and their own parser.
macro_rules! narrower {
    ($($name:ident as $base:ident => $value:ty, $parse:expr;)+) => {
        $(
            kind!($name => $value, $parse; $base::IS_BARE; redacted $base::redact);

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    $base::schema_name()
                }
                fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                    $base::json_schema(generator)
                }
            }
        )+
    };
}

narrower! {
    Name as Text => String, scalar::parse_name;
    MethodName as Text => String, scalar::parse_method_name;
    Scope as Text => String, scalar::parse_scope;
    TokenType as Text => String, scalar::parse_token_type;
    ToolName as Text => String, scalar::parse_tool_name;
    ClientTool as Text => dialect::ToolName, scalar::parse_client_tool;
    ServerName as Text => String, scalar::parse_server_name;
    DurationOrZero as Duration => time::Duration, scalar::parse_duration_or_zero;
    Leeway as Duration => time::Duration, scalar::parse_leeway;
    Period as Duration => time::Duration, scalar::parse_period;
    MaxAge as Duration => time::Duration, scalar::parse_max_age;
    Deadline as Duration => time::Duration, scalar::parse_deadline;
    HeadSize as Size => usize, scalar::parse_head_size;
    ByteCount as Size => NonZeroU64, scalar::parse_byte_count;
    RequestCount as Count => NonZeroU32, scalar::parse_request_count;
    EventCount as Count => NonZeroU64, scalar::parse_event_count;
    HealthPath as Path => String, scalar::parse_health_path;
    AgentEvents as EventsPath => PathTemplate, scalar::parse_agent_events;
    Resource as Url => String, scalar::parse_resource;
    ForwardedField as Field => HeaderName, scalar::parse_forwarded_field;
}

fn parse_text(text: &str) -> Result<String, ScalarError> {
    Ok(text.to_owned())
}

fn scalar_schema(what: &str, types: JsonTypes, pattern: &str, is_secret: bool) -> Schema {
    let pattern = if pattern.is_empty() { r"\S".to_owned() } else { format!(r"^\s*{pattern}\s*$|{REFERENCE_PATTERN}") };
    let types = match types {
        JsonTypes::String => json!("string"),
        JsonTypes::Integer => json!(["string", "integer"]),
        JsonTypes::Number => json!(["string", "number"]),
        JsonTypes::Any => json!(["string", "number", "boolean"]),
    };
    let is_integer = types[1] == "integer";
    let mut schema = json_schema!({ "description": what, "type": types, "pattern": pattern });
    if is_integer {
        schema.insert("minimum".to_owned(), json!(1));
    }
    if is_secret {
        schema.insert("writeOnly".to_owned(), json!(true));
    }
    schema
}

/// Implements an inline schema, without a definition of its own.
macro_rules! inline_schema {
    ($name:ident, $schema:expr) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

/// Defines kinds that accept a fixed list of words.
macro_rules! choices {
    ($($name:ident => $value:ty, $choices:expr;)+) => {
        $(
            kind!($name => $value, |text| parse_choice(text, $choices); true;);
            inline_schema!($name, choice_schema($choices.into_iter().map(|(word, _)| word).collect()));
        )+
    };
}

choices! {
    Guard => GuardMode, value_names(enum_values::GUARD);
    AgentErrorsKind => AgentErrors, value_names(enum_values::AGENT_ERRORS);
    Threads => bool, value_names(enum_values::THREADS);
    OnTokenExpiry => OnExpiry, value_names(enum_values::ON_TOKEN_EXPIRY);
    Errors => RouteErrorFormat, value_names(enum_values::ERRORS);
    Store => ReplayStoreKind, value_names(enum_values::STORE);
    Inspect => CaptureMode, value_names(enum_values::INSPECT);
    OnError => access::OnError, value_names(enum_values::ON_ERROR);
    ClientAuth => bool, value_names(enum_values::CLIENT_AUTH);
    Http => UpstreamHttpVersion, value_names(enum_values::HTTP);
    Truth => bool, value_names(enum_values::BOOLEAN);
    Content => OptionSetter, option_values("content");
    Fields => OptionSetter, option_values("fields");
    Pin => OptionSetter, option_values("pin");
    Timestamp => OptionSetter, option_values("timestamp");
}

fn value_names<T: Clone>(values: EnumValues<T>) -> Vec<(&'static str, T)> {
    values.to_vec()
}

fn option_values(name: &str) -> Vec<(&'static str, OptionSetter)> {
    dialect::choices_for(name).map(|(_, word, set)| (*word, *set)).collect()
}

fn parse_choice<T>(text: &str, choices: Vec<(&'static str, T)>) -> Result<T, ScalarError> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let chosen = choices.into_iter().find(|(name, _)| *name == text).map(|(_, value)| value);
    chosen.ok_or_else(|| ScalarError::new("is not a valid choice", format!("write {}", quote_names(&names, " or "))))
}

/// Returns a number or boolean if YAML would read the word as one.
pub(super) fn to_bare_scalar(word: &str) -> Option<Value> {
    match word.parse::<u64>() {
        Ok(number) if number.to_string() == word => Some(number.into()),
        _ => match word.parse::<f64>() {
            // A version such as `0.1`.
            Ok(number) if number.to_string() == word => Some(number.into()),
            _ => word.parse::<bool>().ok().map(Value::from),
        },
    }
}

fn choice_schema(values: Vec<&str>) -> Schema {
    let bare = values.iter().filter_map(|word| to_bare_scalar(word));
    let all: Vec<Value> = bare.chain(values.iter().map(|word| json!(word))).collect();
    enum_or_reference(&all)
}

/// Returns a schema that accepts `known` words and references. White space around a word is trimmed, so it is allowed.
fn enum_or_reference(known: &[Value]) -> Schema {
    json_schema!({ "anyOf": [{ "enum": known }, { "type": "string", "pattern": format!(r"{REFERENCE_PATTERN}|^\s|\s$") }] })
}

kind!(Algorithm => access::Algorithm, scalar::parse_algorithm; false;);
inline_schema!(Algorithm, choice_schema(access::Algorithm::ALL.iter().map(|known| known.name()).collect()));

kind!(
    /// A dialect: a built-in one, one of `dialects`, or `auto`.
    DialectRefKind => String, parse_text; false;
);

impl JsonSchema for DialectRefKind {
    fn schema_name() -> Cow<'static, str> {
        "dialect".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = ALL.iter().map(|dialect| dialect.name).chain([AUTO]).collect();
        json_schema!({
            "description": "The name of a built-in dialect or of one of `dialects`. For `client` and `agent` also `auto`, which detects the dialect from the traffic.",
            // The first lets editors suggest names; the second allows custom dialects.
            "anyOf": [{ "enum": names }, { "type": "string", "pattern": format!(r"^\s*[a-z0-9-]{{1,32}}\s*$|{REFERENCE_PATTERN}") }],
        })
    }
}

kind!(
    /// The key by which a rate limit counts requests.
    LimitKey => RateLimitKey, scalar::parse_rate_limit_key; false;
);
inline_schema!(LimitKey, limit_key_schema());

fn limit_key_schema() -> Schema {
    let pattern =
        format!(r"^\s*({}|{}):\s*\S.*$|{REFERENCE_PATTERN}", enum_values::CLAIM_PREFIX, enum_values::HEADER_PREFIX);
    let words: Vec<&str> = enum_values::LIMIT_KEY.iter().map(|(word, _)| *word).collect();
    json_schema!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": pattern }] })
}
