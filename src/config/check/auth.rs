//! Checks token issuers: their keys, and whether the algorithms fit the keys.

use crate::config::access::{Algorithm, ClaimNames, IssuerConfig, IssuerKeysConfig, Secret};
use crate::config::checker::{AuthMethodRef, ConfigChecker, Place, ReferenceKind, quote_value};
use crate::config::file::{AuthSpec, IssuerSpec};
use crate::config::scalar;
use crate::config::section::{CrossCheck, FileValue, KeysOf, Section};
use crate::config::source::KeyMismatch;

const KEY_SOURCES: [&str; 5] = ["jwks_url", "jwks_file", "public_key_file", "secret_file", "secret"];

struct ResolvedIssuerKeys {
    keys: IssuerKeysConfig,
    /// The length in bytes of a shared secret.
    secret_length: Option<usize>,
    content: Vec<u8>,
    place: Place,
}

impl CrossCheck for AuthSpec {
    fn cross_check(&self, _: &mut KeysOf<AuthSpec>, checker: &mut ConfigChecker<'_>, at: &Place) {
        let is_skipped = checker.is_skipped("auth.issuers") || checker.is_skipped("auth.api_keys");
        if is_skipped || checker.methods.len() < self.issuers.len() + self.api_keys.len() {
            checker.kinds_with_unnamed.push(ReferenceKind::Method);
        }
        let mut names = Vec::new();
        let mut issuers = Vec::new();
        for (index, issuer) in self.issuers.iter().enumerate() {
            let at = at.key("issuers").index(index);
            names.extend(checker.locate(issuer.value.name.as_ref(), &at.key("name")));
            issuers.extend(checker.locate(issuer.value.issuer.as_ref(), &at.key("issuer")));
        }
        for (index, list) in self.api_keys.iter().enumerate() {
            let at = at.key("api_keys").index(index);
            names.extend(checker.locate(list.value.name.as_ref(), &at.key("name")));
        }
        let hint = "give each issuer and each list of API keys a unique name";
        checker.report_duplicates(&names, "this name is already used by", hint);
        let hint = "list each issuer once, because tokens are matched by issuer; write several audiences as a list";
        checker.report_duplicates(&issuers, "this issuer is already listed as", hint);
    }
}

impl FileValue for IssuerSpec {
    type Checked = IssuerConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<IssuerConfig> {
        let mut keys = self.check_keys(checker, at);
        let has_tenants = self.tenant_claim.is_some() || checker.is_skipped(&at.key("tenant_claim").path);
        checker.methods.extend(keys.name.clone().map(|name| AuthMethodRef {
            name,
            key_header: None,
            is_keys: false,
            has_tenants,
        }));
        let source = checker.resolve_issuer_keys(self, &mut keys, at);
        if source.as_ref().is_some_and(|found| found.keys == IssuerKeysConfig::Discovery)
            && let (Some(_), Some(written)) = (&keys.issuer, &*self.issuer)
        {
            keys.issuer = checker.read_as(written, &at.key("issuer"), scalar::parse_discovery_issuer);
        }
        let source = source?;
        let algorithms = checker.check_algorithms(self, keys.algorithms, &source, at)?;
        checker.check_key_algorithms(self, &source, &algorithms)?;
        Some(IssuerConfig {
            name: keys.name?,
            issuer: keys.issuer?,
            audiences: keys.audience?,
            keys: source.keys,
            algorithms,
            types: keys.types?,
            leeway: keys.leeway?,
            claims: ClaimNames {
                subject: keys.subject_claim?,
                tenant: keys.tenant_claim?,
                tier: keys.tier_claim?,
                scopes: keys.scopes_claim?,
            },
        })
    }
}

impl ConfigChecker<'_> {
    /// Returns the configured key source, or discovery.
    fn resolve_issuer_keys(
        &mut self,
        issuer: &IssuerSpec,
        keys: &mut KeysOf<IssuerSpec>,
        at: &Place,
    ) -> Option<ResolvedIssuerKeys> {
        if KEY_SOURCES.iter().any(|key| self.is_skipped(&at.key(key).path)) {
            return None;
        }
        let places = [
            issuer.jwks_url.as_ref().map(|text| at.value_of("jwks_url", text)),
            issuer.jwks_file.as_ref().map(|text| at.value_of("jwks_file", text)),
            issuer.public_key_file.as_ref().map(|text| at.value_of("public_key_file", text)),
            issuer.secret_file.as_ref().map(|text| at.value_of("secret_file", text)),
            issuer.secret.as_ref().map(|text| at.value_of("secret", text)),
        ];
        let mut sources = KEY_SOURCES.into_iter().zip(places).filter_map(|(key, place)| Some((key, place?)));
        let Some((key, place)) = sources.next() else {
            let keys = IssuerKeysConfig::Discovery;
            return Some(ResolvedIssuerKeys { keys, secret_length: None, content: Vec::new(), place: at.clone() });
        };
        if let Some((other, place)) = sources.next() {
            let message = format!("both `{key}` and `{other}` are set");
            let hint = "keep one of the two; an issuer with two kinds of keys is only as secure as the weaker kind";
            self.report_error(&place, message, hint);
            return None;
        }
        let files = [
            (keys.jwks_file.take(), IssuerKeysConfig::JwksFile as fn(_) -> _),
            (keys.public_key_file.take(), IssuerKeysConfig::PemFile),
            (keys.secret_file.take(), IssuerKeysConfig::SecretFile),
        ];
        for (file, make_keys) in files {
            let Some(file) = file? else { continue };
            let content = self.read_file(&file, &place)?;
            let keys = make_keys(file);
            let is_secret = matches!(keys, IssuerKeysConfig::SecretFile(_));
            let secret_length = is_secret.then(|| content.trim_ascii_end().len());
            return Some(ResolvedIssuerKeys { keys, secret_length, content, place });
        }
        let url = keys.jwks_url.take()?.map(|url| (IssuerKeysConfig::Url(url), None));
        let secret = keys.secret.take()?;
        let secret = secret.map(|secret| (secret.len(), IssuerKeysConfig::Secret(Secret::new(secret))));
        let (keys, secret_length) = url.or(secret.map(|(length, keys)| (keys, Some(length))))?;
        Some(ResolvedIssuerKeys { keys, secret_length, content: Vec::new(), place })
    }

    fn check_key_algorithms(
        &mut self,
        issuer: &IssuerSpec,
        source: &ResolvedIssuerKeys,
        allowed: &[Algorithm],
    ) -> Option<()> {
        let written = match source.keys {
            IssuerKeysConfig::JwksFile(_) => issuer.jwks_file.as_ref()?,
            IssuerKeysConfig::PemFile(_) => issuer.public_key_file.as_ref()?,
            _ => return Some(()),
        };
        let checked = (self.source.context.key_check)(&source.keys, &source.content, allowed);
        let Err(KeyMismatch { reason, hint }) = checked else { return Some(()) };
        let name = quote_value(&written.value, written.value.contains("${"));
        self.report_error(&source.place, format!("{name} {reason}"), hint);
        None
    }

    /// Checks that the algorithms fit the keys and that the secret is long enough for them.
    fn check_algorithms(
        &mut self,
        issuer: &IssuerSpec,
        allowed: Option<Vec<Algorithm>>,
        source: &ResolvedIssuerKeys,
        at: &Place,
    ) -> Option<Vec<Algorithm>> {
        let secret = source.secret_length;
        let long_enough = |algorithm: &Algorithm| secret.is_none_or(|length| length >= hash_length(*algorithm));
        if secret.is_some_and(|length| length < hash_length(Algorithm::HS256)) {
            let hint = "generate one with `openssl rand -base64 48`; a short secret can be guessed offline from a single token";
            self.report_error(&source.place, "the secret is shorter than 32 bytes (RFC 7518 §3.2)", hint);
            return None;
        }
        if issuer.algorithms.is_empty() {
            let family = Algorithm::ALL.iter().filter(|algorithm| algorithm.is_shared() == secret.is_some());
            return Some(family.copied().filter(long_enough).collect());
        }
        let before = self.problems.len();
        for (index, written) in issuer.algorithms.iter().enumerate() {
            let Some(algorithm) = self.peek(&written.value) else { continue };
            let name = algorithm.name();
            let place = at.key("algorithms").index(index).with_position_of(written);
            match (secret, algorithm.is_shared()) {
                // RFC 8725 §3.1: a public key used as an HMAC secret would let anyone sign tokens.
                (None, true) => {
                    let hint = "remove it, or write `secret_file`: if a public key were used as a secret, everyone who has \
                                that key could sign tokens";
                    let message = format!("`{name}` is verified with a secret, but these are public keys");
                    self.report_error(&place, message, hint);
                }
                (Some(_), false) => {
                    let hint = "remove it, or configure public keys, for example with `jwks_url`";
                    let message = format!("`{name}` is verified with a public key, but this is a secret");
                    self.report_error(&place, message, hint);
                }
                _ if !long_enough(&algorithm) => {
                    let hint = "use a longer secret, or remove the algorithm";
                    let length = hash_length(algorithm);
                    let message = format!("`{name}` needs a secret of at least {length} bytes (RFC 7518 §3.2)");
                    self.report_error(&place, message, hint);
                }
                _ => {}
            }
        }
        allowed.filter(|_| self.problems.len() == before)
    }
}

/// Returns the shortest allowed secret, in bytes.
/// RFC 7518 §3.2: "A key of the same size as the hash output … or larger MUST be used".
fn hash_length(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    }
}
