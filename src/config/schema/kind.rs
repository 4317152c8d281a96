//! Marker types for the scalars of the file, for its schema: no value is ever of one of these types.
//!
//! A schema is not the check: it knows the form of a value, so that an editor can show a slip while it is written, and never
//! refuses what the check takes. Whatever holds `${` passes, because what will stand there is not known.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::config::access;
use crate::config::enum_values::{self, EnumValues};
use crate::config::redact::{redact_digest, redact_prefix, redact_secret, redact_url};
use crate::dialect::{self, ALL, AUTO};

/// The JSON types of what YAML reads where any text is taken: `1`, `1.5` and `true` are texts, too.
const SCALAR_TYPES: [&str; 3] = ["string", "number", "boolean"];

/// Matches texts with a reference to an environment variable.
const REFERENCE_PATTERN: &str = r"\$\{";

/// A kind of scalar: its schema, and how much of its text is printed.
pub(crate) trait ScalarKind: JsonSchema {
    /// Marks the schema with `writeOnly`.
    const IS_SECRET: bool = false;

    fn redact(text: &str) -> Cow<'_, str> {
        text.into()
    }
}

/// A kind whose text a message may quote.
pub(crate) trait OpenKind: ScalarKind {}

/// Implements [`ScalarKind`]: `redacted` text is printed in part, but quoted in messages; `secret` text never is.
macro_rules! disclose {
    ($name:ident) => {
        impl ScalarKind for $name {}
        impl OpenKind for $name {}
    };
    ($name:ident redacted $redact:path) => {
        impl ScalarKind for $name {
            fn redact(text: &str) -> Cow<'_, str> {
                $redact(text)
            }
        }
        impl OpenKind for $name {}
    };
    ($name:ident secret $redact:path) => {
        impl ScalarKind for $name {
            const IS_SECRET: bool = true;

            fn redact(text: &str) -> Cow<'_, str> {
                $redact(text)
            }
        }
    };
}

/// Defines scalars by name in the schema, disclosure, JSON types and pattern.
macro_rules! scalars {
    ($($(#[doc = $doc:literal])+ $name:ident $word:literal $([$($disclosure:tt)+])?: $types:expr, $pattern:expr;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone)]
            pub(crate) struct $name;

            disclose!($name $($($disclosure)+)?);

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    $word.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    scalar_schema(concat!($($doc),+).trim(), &$types, $pattern, $name::IS_SECRET)
                }
            }
        )+
    };
}

scalars! {
    /// Any text. In quotes if YAML could read it as something else than text.
    Text "text": SCALAR_TYPES, "";
    /// A whole number and one of `ms`, `s`, `m`, `h`: `500ms`, `15s`, `5m`, `1h`. At most 30 days.
    Duration "duration": ["string"], "[0-9]+(ms|s|m|h)";
    /// A whole number of bytes, alone or with `B`, `KiB`, `MiB` or `GiB`: `65536`, `64KiB`, `8MiB`.
    Size "size": ["string", "integer"], "[0-9]+(B|KiB|MiB|GiB)?";
    /// A whole number of at least 1.
    Count "count": ["string", "integer"], r"\+?[0-9]+";
    /// A whole number from 1 to 1000.
    Weight "weight": ["string", "integer"], r"\+?[0-9]+";
    /// Permissions of a file, in octal: `0660`.
    Mode "permissions": ["string", "integer"], r"(0o)?\+?[0-7]+";
    /// An IP address and a port (`127.0.0.1:8787`, `"[::1]:8787"`), or `unix:` and the absolute path of a socket.
    Address "address": ["string"], "(unix:/.+|.+:[0-9]+)";
    /// An address, a network (`10.0.0.0/8`), or `unix` for whoever may open a Unix socket.
    TrustedProxy "proxy": ["string"], "(unix|[0-9a-fA-F:.]+(/[0-9]+)?)";
    /// A path that begins with `/`.
    Path "path": ["string"], "/.*";
    /// A path that begins with `/`, with `{thread_id}` in it.
    EventsPath "path-of-events" [redacted redact_url]: ["string"], r"/.*\{thread_id\}.*";
    /// The name of a file. A relative one starts at the directory of the configuration.
    FileName "file": SCALAR_TYPES, "";
    /// An `http` or `https` URL.
    Url "url" [redacted redact_url]: ["string"], "[hH][tT][tT][pP][sS]?://.+";
    /// An `http` or `https` URL, or a Unix socket with the path of the request behind a colon: `unix:/run/agent.sock:/chat`.
    AgentUrl "url-of-agent" [redacted redact_url]: ["string"], "([hH][tT][tT][pP][sS]?://|unix:(//)?/).+";
    /// `redis://host:6379/0`, or `rediss://` for TLS.
    RedisUrl "url-of-redis" [secret redact_url]: ["string"], "[rR][eE][dD][iI][sS][sS]?://.+";
    /// An origin as browsers write it (`https://app.example.com`), or `*` for any.
    WebOrigin "origin": ["string"], r"(\*|[a-z][a-z0-9+.-]*://.+)";
    /// The name of a field of requests, in lower case.
    Field "field": SCALAR_TYPES, "[!#$%&'*+.^_`|~0-9a-z-]+";
    /// The value of a field. In quotes if YAML could read it as something else than text.
    FieldValue "value-of-field" [secret redact_secret]: ["string"], "";
    /// The beginning of a field's value. In quotes if YAML could read it as something else than text.
    FieldPrefix "prefix-of-field" [secret redact_prefix]: SCALAR_TYPES, "";
    /// The `iss` of tokens, mostly a URL. In quotes if YAML could read it as something else than text.
    Issuer "issuer" [redacted redact_url]: SCALAR_TYPES, "";
    /// A secret, never printed. In quotes if YAML could read it as something else than text.
    Secret "secret" [secret redact_secret]: SCALAR_TYPES, "";
    /// SHA-256 in 64 hexadecimal digits.
    Digest "sha256" [secret redact_digest]: ["string", "number"], "[0-9a-fA-F]{64}";
    /// A date, or a date and a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z`.
    Moment "date": ["string"], "[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].+)?";
    /// At most 32 lower-case letters, digits and hyphens; not the name of a built-in dialect.
    DialectName "name-of-dialect": SCALAR_TYPES, "[a-z0-9-]{1,32}";
    /// `abort`, or `continue for` and a duration.
    OnDisconnect "on-disconnect": ["string"], r"(abort|continue\s*for\s+[0-9]+(ms|s|m|h))";
}

fn scalar_schema(what: &str, types: &[&str], pattern: &str, is_secret: bool) -> Schema {
    let pattern = if pattern.is_empty() { r"\S".to_owned() } else { format!(r"^\s*{pattern}\s*$|{REFERENCE_PATTERN}") };
    let kinds = if let [one] = types { json!(one) } else { json!(types) };
    let mut schema = json_schema!({ "description": what, "type": kinds, "pattern": pattern });
    if types.contains(&"integer") {
        schema.insert("minimum".to_owned(), json!(1));
    }
    if is_secret {
        schema.insert("writeOnly".to_owned(), json!(true));
    }
    schema
}

/// A scalar that is one of some words; shown where it stands.
macro_rules! choices {
    ($($(#[doc = $doc:literal])+ $name:ident: $words:expr;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone)]
            pub(crate) struct $name;

            disclose!($name);

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    choice_schema($words)
                }
            }
        )+
    };
}

choices! {
    /// `guard`
    Guard: value_names(enum_values::GUARD);
    /// `threads`
    Threads: value_names(enum_values::THREADS);
    /// `on_token_expiry`
    OnTokenExpiry: value_names(enum_values::ON_TOKEN_EXPIRY);
    /// `errors`
    Errors: value_names(enum_values::ERRORS);
    /// `store`
    Store: value_names(enum_values::STORE);
    /// `on_error`
    OnError: value_names(enum_values::ON_ERROR);
    /// `client_auth`
    ClientAuth: value_names(enum_values::CLIENT_AUTH);
    /// `http`
    Http: value_names(enum_values::HTTP);
    /// `true` and `false`
    Truth: value_names(enum_values::BOOLEAN);
    /// `content`
    Content: option_values("content");
    /// `fields`
    Fields: option_values("fields");
    /// `pin`
    Pin: option_values("pin");
    /// `timestamp`
    Timestamp: option_values("timestamp");
    /// `algorithms`
    Algorithm: access::Algorithm::ALL.iter().map(|known| known.name()).collect();
}

fn value_names<T>(words: EnumValues<T>) -> Vec<&'static str> {
    words.iter().map(|(word, _)| *word).collect()
}

fn option_values(name: &str) -> Vec<&'static str> {
    dialect::choices_for(name).map(|(_, word, _)| *word).collect()
}

/// One of `words`, each as YAML reads it and as a text.
fn choice_schema(values: Vec<&str>) -> Schema {
    let bare = values.iter().filter_map(|word| super::to_bare_scalar(word));
    let all: Vec<Value> = bare.chain(values.iter().map(|word| json!(word))).collect();
    enum_or_reference(&all)
}

/// One of `known`, or what comes from the environment. Blanks around a word are taken off, so they pass.
fn enum_or_reference(known: &[Value]) -> Schema {
    json_schema!({ "anyOf": [{ "enum": known }, { "type": "string", "pattern": format!(r"{REFERENCE_PATTERN}|^\s|\s$") }] })
}

/// A dialect: a built-in one, one of `dialects`, or `auto`.
#[derive(Debug, Clone)]
pub(crate) struct DialectRefKind;

disclose!(DialectRefKind);

impl JsonSchema for DialectRefKind {
    fn schema_name() -> Cow<'static, str> {
        "dialect".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = ALL.iter().map(|dialect| dialect.name).chain([AUTO]).collect();
        json_schema!({
            "description": "The name of a built-in dialect or of one of `dialects`. For `client` and `agent` also `auto`, which detects the dialect from the traffic.",
            // The first is for editors, which show its words; the second for names of the file's own.
            "anyOf": [{ "enum": names }, { "type": "string", "pattern": format!(r"^\s*[a-z0-9-]{{1,32}}\s*$|{REFERENCE_PATTERN}") }],
        })
    }
}

/// The key by which a rate limit counts requests.
#[derive(Debug, Clone)]
pub(crate) struct LimitKey;

disclose!(LimitKey);

impl JsonSchema for LimitKey {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "LimitKey".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern =
            format!(r"^\s*({}|{}):\s*\S.*$|{REFERENCE_PATTERN}", enum_values::CLAIM_PREFIX, enum_values::HEADER_PREFIX);
        json_schema!({ "anyOf": [{ "enum": value_names(enum_values::LIMIT_KEY) }, { "type": "string", "pattern": pattern }] })
    }
}

/// A list that is not empty.
pub(crate) struct NonEmptyListKind<K>(PhantomData<K>);

impl<K: JsonSchema> JsonSchema for NonEmptyListKind<K> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Some_{}", K::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<K>(), "minItems": 1 })
    }
}
