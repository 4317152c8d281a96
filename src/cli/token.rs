//! `diglot token`: creates test credentials, which are signed tokens, API keys and signing keys.

use super::output::{CliExit, CliFailure, CliResult, print_result};
use crate::config::access::{IssuerConfig, IssuerKeysConfig};
use crate::config::{self, load};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clap::ArgGroup;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, EncodingKey, Header, encode};
use serde_json::{Map, Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Prefix of every key, so that secret scanners can find keys in source code.
const KEY_PREFIX: &str = "dgl_";

const AFTER_HELP: &str = "\
Prints the credential alone to stdout, so that it can be stored in a variable; everything else is printed to stderr.

A token, signed with the key of an issuer, given by options or by a configuration:
  TOKEN=$(diglot token --secret-file secret --subject ada \\
    --issuer https://issuer.test --audience diglot)
  TOKEN=$(diglot token --config diglot.yaml --issuer-name corp \\
    --subject ada --claim tenant=acme --scope run)
  curl -H \"Authorization: Bearer $TOKEN\" …

A key pair for an issuer of your own, without openssl; the configuration names it with `jwks_file: dev.jwks.json`:
  diglot token --keypair dev
  diglot token --private-key dev.pem --subject ada \\
    --issuer https://issuer.test --audience diglot

An API key, and its entry for the configuration or a file of keys, which has only the digest of the key:
  KEY=$(diglot token --api-key --id ci --tier gold 2>> keys.yaml)
  printf %s \"$KEY\" | diglot token --digest

Exit codes: 0 ok, 2 usage, 69 a file or a key cannot be used, 78 invalid configuration.";

#[derive(clap::Args)]
#[command(
    after_help = AFTER_HELP,
    group = ArgGroup::new("what").required(true).multiple(true)
        .args(["secret_file", "private_key", "config", "api_key", "digest", "keypair"]),
)]
pub(super) struct TokenArgs {
    /// Sign a token with the secret in this file; trailing white space is ignored
    #[arg(long, value_name = "FILE", conflicts_with = "private_key", help_heading = "Tokens")]
    secret_file: Option<PathBuf>,
    /// Sign a token with the private key in this PEM file (PKCS#8, or PKCS#1 for RSA)
    #[arg(long, value_name = "FILE", help_heading = "Tokens")]
    private_key: Option<PathBuf>,
    /// Read issuer, audience and secret from this configuration
    #[arg(long, value_name = "FILE", requires = "issuer_name", help_heading = "Tokens")]
    config: Option<PathBuf>,
    /// `name` of the issuer in the configuration
    #[arg(long, value_name = "NAME", requires = "config", help_heading = "Tokens")]
    issuer_name: Option<String>,
    /// `iss`: issuer of the token
    #[arg(long, value_name = "URL", help_heading = "Tokens")]
    issuer: Option<String>,
    /// `aud`: audience of the token; may be repeated
    #[arg(long, help_heading = "Tokens")]
    audience: Vec<String>,
    /// `exp`: lifetime of the token, such as `90s`, `5m`, `1h`
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = config::parse_duration, help_heading = "Tokens")]
    expires: Duration,
    /// Additional or replaced claim; a value that is not JSON is a string (`exp=1` makes an expired token); may be
    /// repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_claim, help_heading = "Tokens")]
    claim: Vec<(String, Value)>,
    /// Algorithm of the signature, such as `RS256` [default: the key's usual one]
    #[arg(long, help_heading = "Tokens")]
    algorithm: Option<Algorithm>,
    /// `kid`: name of the signing key
    #[arg(long, help_heading = "Tokens")]
    kid: Option<String>,
    /// Write a new Ed25519 key pair: NAME.pem to sign with, NAME.jwks.json for the gateway
    #[arg(long, value_name = "NAME", conflicts_with_all = TOKENS, help_heading = "Keys to sign with")]
    keypair: Option<String>,
    /// Create an API key
    #[arg(long, conflicts_with_all = TOKENS, conflicts_with = "keypair", help_heading = "API keys")]
    api_key: bool,
    /// Read an API key from stdin and print its digest
    #[arg(long, conflicts_with_all = TOKENS, conflicts_with_all = ["keypair", "api_key"], help_heading = "API keys")]
    digest: bool,
    /// Name of the API key in logs
    #[arg(long, requires = "api_key", help_heading = "API keys")]
    id: Option<String>,
    /// Tenant of the API key
    #[arg(long, requires = "api_key", help_heading = "API keys")]
    tenant: Option<String>,
    /// Tier of the API key
    #[arg(long, requires = "api_key", help_heading = "API keys")]
    tier: Option<String>,
    /// Name of the caller; for an API key by default its id
    #[arg(long, help_heading = "Both")]
    subject: Option<String>,
    /// Scope of the caller; may be repeated
    #[arg(long, help_heading = "Both")]
    scope: Vec<String>,
}

/// Options that apply to tokens only.
const TOKENS: [&str; 7] = ["secret_file", "private_key", "config", "issuer", "audience", "claim", "algorithm"];

pub(super) fn run(arguments: &TokenArgs) -> CliResult {
    print_result(if arguments.api_key {
        generate_api_key(arguments)?
    } else if arguments.digest {
        digest_of_stdin()?
    } else if let Some(name) = &arguments.keypair {
        write_keypair(name, arguments.kid.clone())?
    } else {
        sign_token(arguments)?
    })
}

fn parse_claim(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.to_owned(), value))
}

fn sign_token(arguments: &TokenArgs) -> Result<String, CliFailure> {
    let configured =
        arguments.config.as_deref().map(|file| find_issuer(file, arguments.issuer_name.as_deref())).transpose()?;
    let key = signing_key(arguments, configured.as_ref())?;
    let claims = build_claims(arguments, configured.as_ref())?;
    let algorithms = match arguments.algorithm {
        Some(algorithm) => vec![algorithm],
        None => candidate_algorithms(key.family(), configured.as_ref()),
    };
    let sign = |algorithm: &Algorithm| {
        let header = Header { kid: arguments.kid.clone(), ..Header::new(*algorithm) };
        encode(&header, &claims, &key).ok()
    };
    // Signing fails with the other curve's algorithm.
    let signed = algorithms.iter().find_map(sign);
    signed.ok_or_else(|| CliExit::Unavailable.failure(format_args!("the key cannot sign with {algorithms:?}")))
}

fn find_issuer(file: &Path, name: Option<&str>) -> Result<IssuerConfig, CliFailure> {
    let config = load::from_path(file)?;
    let names: Vec<_> = config.auth.issuers.iter().map(|issuer| format!("`{}`", issuer.name)).collect();
    let found = config.auth.issuers.into_iter().find(|issuer| Some(issuer.name.as_str()) == name);
    found.ok_or_else(|| {
        CliExit::Usage.failure(format_args!(
            "--issuer-name: the issuers of {} are: {}",
            file.display(),
            join_or_none(&names)
        ))
    })
}

fn join_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn signing_key(arguments: &TokenArgs, configured: Option<&IssuerConfig>) -> Result<EncodingKey, CliFailure> {
    let secret = |content: &[u8]| EncodingKey::from_secret(content.trim_ascii_end());
    match (&arguments.secret_file, &arguments.private_key, configured.map(|issuer| &issuer.keys)) {
        (Some(file), ..) | (None, None, Some(IssuerKeysConfig::SecretFile(file))) => Ok(secret(&read_file(file)?)),
        (None, Some(file), _) => {
            let pem = read_file(file)?;
            let read = EncodingKey::from_ed_pem(&pem).or_else(|_| EncodingKey::from_ec_pem(&pem));
            let read = read.or_else(|_| EncodingKey::from_rsa_pem(&pem));
            read.map_err(|_| {
                CliExit::Unavailable.failure(format_args!(
                    "{} is not a private key in PEM that is supported: use PKCS#8, or PKCS#1 for RSA",
                    file.display()
                ))
            })
        }
        (None, None, Some(IssuerKeysConfig::Secret(configured))) => Ok(secret(configured.expose().as_bytes())),
        (None, None, _) => {
            Err(CliExit::Usage.failure("the issuer has only public keys: name the private key with --private-key"))
        }
    }
}

fn candidate_algorithms(family: AlgorithmFamily, configured: Option<&IssuerConfig>) -> Vec<Algorithm> {
    let usual: &[Algorithm] = match family {
        AlgorithmFamily::Hmac => &[Algorithm::HS256],
        AlgorithmFamily::Rsa => &[Algorithm::RS256],
        AlgorithmFamily::Ec => &[Algorithm::ES256, Algorithm::ES384],
        AlgorithmFamily::Ed => &[Algorithm::EdDSA],
    };
    match configured {
        Some(issuer) => issuer.algorithms.iter().filter_map(|algorithm| algorithm.name().parse().ok()).collect(),
        None => usual.to_vec(),
    }
}

fn build_claims(arguments: &TokenArgs, configured: Option<&IssuerConfig>) -> Result<Map<String, Value>, CliFailure> {
    let missing =
        |option: &str| CliExit::Usage.failure(format_args!("a token needs {option}; see `diglot token --help`"));
    let issuer = arguments.issuer.as_ref().or(configured.map(|issuer| &issuer.issuer));
    let mut audiences = arguments.audience.clone();
    if audiences.is_empty() {
        audiences.extend(configured.and_then(|issuer| issuer.audiences.first().cloned()));
    }
    let audience = match audiences.as_slice() {
        [] => return Err(missing("--audience")),
        [one] => json!(one),
        several => json!(several),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut claims = Map::new();
    claims.insert("iss".to_owned(), json!(issuer.ok_or_else(|| missing("--issuer"))?));
    claims.insert("aud".to_owned(), audience);
    claims.insert("sub".to_owned(), json!(arguments.subject.as_ref().ok_or_else(|| missing("--subject"))?));
    claims.insert("iat".to_owned(), json!(now.as_secs()));
    claims.insert("exp".to_owned(), json!((now + arguments.expires).as_secs()));
    if !arguments.scope.is_empty() {
        claims.insert("scope".to_owned(), json!(arguments.scope.join(" ")));
    }
    claims.extend(arguments.claim.iter().cloned());
    Ok(claims)
}

fn generate_api_key(arguments: &TokenArgs) -> Result<String, CliFailure> {
    let key = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(random_bytes::<32>()?));
    let id = match &arguments.id {
        Some(id) => id.clone(),
        None => format!("key-{}", hex::encode(random_bytes::<4>()?)),
    };
    // JSON is valid YAML, and its quotation marks keep an id such as `on` a string.
    let mut entry = format!("{{id: {}, sha256: {}", json!(id), hex::encode(digest(&SHA256, key.as_bytes())));
    let more = [("subject", &arguments.subject), ("tenant", &arguments.tenant), ("tier", &arguments.tier)];
    for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        entry += &format!(", {name}: {}", json!(value));
    }
    if !arguments.scope.is_empty() {
        entry += &format!(", scopes: {}", json!(arguments.scope));
    }
    // An entry for `keys:`, so it is printed without the prefix of errors.
    let _ = writeln!(io::stderr(), "  - {entry}}}");
    Ok(key)
}

fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES], CliFailure> {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| CliExit::Unavailable.failure("the system has no random numbers"))?;
    Ok(bytes)
}

fn digest_of_stdin() -> Result<String, CliFailure> {
    let mut key = Vec::new();
    io::stdin().read_to_end(&mut key).map_err(|error| CliExit::Unavailable.failure(format_args!("stdin: {error}")))?;
    let key = key.trim_ascii_end();
    if key.is_empty() {
        Err(CliExit::Unavailable
            .failure("stdin is empty; write the API key to it: printf %s \"$KEY\" | diglot token --digest"))
    } else {
        Ok(hex::encode(digest(&SHA256, key)))
    }
}

/// Writes a key pair and returns the names of its files.
fn write_keypair(name: &str, kid: Option<String>) -> Result<String, CliFailure> {
    let failed = |_| CliExit::Unavailable.failure("the key pair cannot be generated");
    let pair = Ed25519KeyPair::generate().map_err(failed)?;
    let private: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
    let public = Jwk::from_encoding_key(&EncodingKey::from_ed_der(private.as_ref()), Algorithm::EdDSA);
    let mut public = public.map_err(|error| CliExit::Unavailable.failure(error))?;
    public.common.public_key_use = Some(PublicKeyUse::Signature);
    public.common.key_id = kid;
    let jwks = serde_json::to_string_pretty(&JwkSet { keys: vec![public] })
        .map_err(|error| CliExit::Unavailable.failure(error))?;
    // RFC 7468, section 10. This kind of key fits on one line.
    let pem = STANDARD.encode(private.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----");
    let files = [(format!("{name}.pem"), pem, 0o600), (format!("{name}.jwks.json"), jwks, 0o644)];
    for (path, content, mode) in &files {
        write_new(path, content, *mode)
            .map_err(|error| CliExit::Unavailable.failure(format_args!("{path}: {error}")))?;
    }
    Ok(files.map(|(path, ..)| path).join("\n"))
}

/// Creates a file; fails if it exists, so that a key in use is never overwritten.
fn write_new(path: &str, content: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    writeln!(file, "{content}")
}

fn read_file(path: &Path) -> Result<Vec<u8>, CliFailure> {
    fs::read(path).map_err(|error| CliExit::Unavailable.failure(format_args!("{}: {error}", path.display())))
}
