//! Checks the accepted issuers of tokens, lists of API keys and proxies.

use http::HeaderName;

use super::{ConfigChecker, LocatedValue, ReferenceKind, SourcePosition, collect_values, position, quote_value};
use crate::config::access::{
    Algorithm, ApiKeyConfig, ApiKeyListConfig, AuthConfig, ClaimNames, IssuerConfig, IssuerKeysConfig, Secret,
};
use crate::config::file::{self, Scalar, ScalarOrList};
use crate::config::problem::{did_you_mean, nearest};
use crate::config::schema::kind::{self, OpenKind};
use crate::config::source::KeyMismatch;
use crate::config::{scalar, yaml_hints};

/// The value of a route's `auth` that allows calls without a credential.
pub(super) const NONE: &str = "none";

/// An issuer or a list of API keys, as routes see it.
pub(super) struct AuthMethodRef {
    pub(super) name: String,
    /// The header of its keys; `None` for tokens.
    pub(super) key_header: Option<HeaderName>,
    pub(super) is_keys: bool,
    /// Set if one of its callers may have a tenant. The keys of a file change without a check.
    pub(super) has_tenants: bool,
}

struct ResolvedIssuerKeys {
    keys: IssuerKeysConfig,
    /// The length of a secret, in bytes.
    secret_length: Option<usize>,
    /// The content of the key file.
    content: Vec<u8>,
    position: Option<SourcePosition>,
    path: String,
}

/// Values of issuers and lists that must be unique.
#[derive(Default)]
struct AuthNames {
    names: Vec<LocatedValue<String>>,
    issuers: Vec<LocatedValue<String>>,
}

impl ConfigChecker<'_> {
    pub(super) fn check_auth(&mut self, written: &file::AuthSpec) -> Option<AuthConfig> {
        let resource = self.read_optional(written.resource.as_ref(), "auth.resource", scalar::parse_resource);
        let mut labels = AuthNames::default();
        let mut issuers = Vec::new();
        for (index, issuer) in written.issuers.iter().enumerate() {
            issuers.push(self.check_issuer(issuer, &format!("auth.issuers[{index}]"), &mut labels));
        }
        let mut api_keys = Vec::new();
        for (index, source) in written.api_keys.iter().enumerate() {
            api_keys.push(self.check_key_source(source, &format!("auth.api_keys[{index}]"), &mut labels));
        }
        if self.is_skipped("auth.issuers")
            || self.is_skipped("auth.api_keys")
            || self.methods.len() < issuers.len() + api_keys.len()
        {
            self.kinds_with_unnamed.push(ReferenceKind::Method);
        }
        let (names, urls): (Vec<_>, Vec<_>) = (labels.names.iter().collect(), labels.issuers.iter().collect());
        let hint = "give each issuer and each list of API keys a unique name";
        self.report_duplicates(&names, |one, other| one == other, "this name is already used by", hint);
        let hint = "list each issuer once, because tokens are matched by issuer; write several audiences as a list";
        self.report_duplicates(&urls, |one, other| one == other, "this issuer is already listed as", hint);
        Some(AuthConfig {
            resource: resource?,
            issuers: issuers.into_iter().collect::<Option<_>>()?,
            api_keys: api_keys.into_iter().collect::<Option<_>>()?,
        })
    }

    /// The name of an issuer or of a list of API keys, for routes.
    fn read_method_name(
        &mut self,
        written: Option<&Scalar<kind::Text>>,
        at: &str,
        example: &str,
        whole: Option<SourcePosition>,
        labels: &mut AuthNames,
    ) -> Option<String> {
        let written = self.require_key(written, at, "name", example, whole)?;
        let path = format!("{at}.name");
        let name = self.read_located(written, &path, scalar::parse_name)?;
        if name.value == NONE {
            let message = format!("`{NONE}` is reserved: in routes it means that no credential is required");
            self.report_error(&path, position(written.defined), message, "give it another name");
            return None;
        }
        labels.names.push(name.clone());
        Some(name.value)
    }

    fn check_issuer(
        &mut self,
        written: &file::Spanned<file::IssuerSpec>,
        at: &str,
        labels: &mut AuthNames,
    ) -> Option<IssuerConfig> {
        let issuer = &written.value;
        let whole = position(written.defined);
        let name = self.read_method_name(
            issuer.name.as_ref(),
            at,
            "the name that routes use, such as `name: staff`",
            whole,
            labels,
        );
        let has_tenants = issuer.tenant_claim.is_some() || self.is_skipped(&format!("{at}.tenant_claim"));
        self.methods.extend(name.clone().map(|name| AuthMethodRef {
            name,
            key_header: None,
            is_keys: false,
            has_tenants,
        }));
        let example = "the `iss` claim of its tokens, such as `issuer: https://login.example.com`";
        let iss = self.require_key(issuer.issuer.as_ref(), at, "issuer", example, whole);
        let keys = self.check_issuer_keys(issuer, at);
        let discovers = keys.as_ref().is_some_and(|found| found.keys == IssuerKeysConfig::Discovery);
        let read = if discovers { scalar::parse_discovery_issuer } else { scalar::parse_word };
        let iss = iss.and_then(|iss| self.read_located(iss, &format!("{at}.issuer"), read));
        labels.issuers.extend(iss.clone());
        let example = "the value that `aud` must contain, such as `audience: https://agents.example.com`";
        let audience = self.require_key(issuer.audience.as_ref(), at, "audience", example, whole);
        let audiences =
            audience.and_then(|list| self.read_non_empty(list, &format!("{at}.audience"), scalar::parse_word));
        let algorithms = self.check_algorithms(issuer, keys.as_ref(), at);
        let algorithms = algorithms.filter(|allowed| self.check_key_algorithms(issuer, keys.as_ref(), allowed));
        let types = collect_values(self.read_list(&issuer.types, &format!("{at}.types"), scalar::parse_token_type));
        let leeway = self.read_value(&issuer.leeway, &format!("{at}.leeway"), scalar::parse_leeway);
        let claims = self.check_claims(issuer, at);
        Some(IssuerConfig {
            name: name?,
            issuer: iss?.value,
            audiences: audiences?,
            keys: keys?.keys,
            algorithms: algorithms?,
            types: types?,
            leeway: leeway?,
            claims: claims?,
        })
    }

    fn check_claims(&mut self, issuer: &file::IssuerSpec, at: &str) -> Option<ClaimNames> {
        let subject = self.read_value(&issuer.subject_claim, &format!("{at}.subject_claim"), scalar::parse_word);
        let tenant =
            self.read_optional(issuer.tenant_claim.as_ref(), &format!("{at}.tenant_claim"), scalar::parse_word);
        let tier = self.read_optional(issuer.tier_claim.as_ref(), &format!("{at}.tier_claim"), scalar::parse_word);
        let scopes = self.read_value(&issuer.scopes_claim, &format!("{at}.scopes_claim"), scalar::parse_word);
        Some(ClaimNames { subject: subject?, tenant: tenant?, tier: tier?, scopes: scopes? })
    }

    /// One value or more; none at all is a mistake.
    pub(super) fn read_non_empty<T, K: OpenKind>(
        &mut self,
        written: &file::Spanned<ScalarOrList<K>>,
        path: &str,
        read: fn(&str) -> Result<T, scalar::ScalarError>,
    ) -> Option<Vec<T>> {
        let list = self.read_values(written, path, read);
        if list.is_empty() {
            self.report_error(path, position(written.defined), "the list is empty", "write at least one value");
            return None;
        }
        collect_values(list)
    }

    /// Checks the source of an issuer's keys: one key, or discovery.
    fn check_issuer_keys(&mut self, issuer: &file::IssuerSpec, at: &str) -> Option<ResolvedIssuerKeys> {
        const KEYS: [&str; 5] = ["jwks_url", "jwks_file", "public_key_file", "secret_file", "secret"];
        if KEYS.iter().any(|key| self.is_skipped(&format!("{at}.{key}"))) {
            return None;
        }
        let defined = [
            issuer.jwks_url.as_ref().map(|text| text.defined),
            issuer.jwks_file.as_ref().map(|text| text.defined),
            issuer.public_key_file.as_ref().map(|text| text.defined),
            issuer.secret_file.as_ref().map(|text| text.defined),
            issuer.secret.as_ref().map(|text| text.defined),
        ];
        let mut written = KEYS.into_iter().zip(defined).filter_map(|(key, defined)| Some((key, position(defined?))));
        let Some((key, place)) = written.next() else {
            return Some(ResolvedIssuerKeys {
                keys: IssuerKeysConfig::Discovery,
                secret_length: None,
                content: Vec::new(),
                position: None,
                path: at.to_owned(),
            });
        };
        if let Some((other, place)) = written.next() {
            let message = format!("both `{key}` and `{other}` are set");
            let hint = "keep one of the two; an issuer with two kinds of keys is only as secure as the weaker kind";
            self.report_error(&format!("{at}.{other}"), place, message, hint);
            return None;
        }
        let path = format!("{at}.{key}");
        let mut content = Vec::new();
        let mut secret_length = None;
        let keys = if let Some(url) = &issuer.jwks_url {
            IssuerKeysConfig::Url(self.read_value(url, &path, scalar::parse_web_url)?)
        } else if let Some(secret) = &issuer.secret {
            let secret = self.read_secret(&secret.value, &path, place)?;
            secret_length = Some(secret.len());
            IssuerKeysConfig::Secret(Secret::new(secret))
        } else {
            let file =
                [&issuer.jwks_file, &issuer.public_key_file, &issuer.secret_file].into_iter().flatten().next()?;
            let file = self.read_named_file(file, &path)?;
            content = file.1;
            match key {
                "jwks_file" => IssuerKeysConfig::JwksFile(file.0),
                "public_key_file" => IssuerKeysConfig::PemFile(file.0),
                _ => {
                    secret_length = Some(content.trim_ascii_end().len());
                    IssuerKeysConfig::SecretFile(file.0)
                }
            }
        };
        Some(ResolvedIssuerKeys { keys, secret_length, content, position: place, path })
    }

    /// Checks that the public keys in its file fit these algorithms. The length of a secret is checked elsewhere.
    fn check_key_algorithms(
        &mut self,
        issuer: &file::IssuerSpec,
        found: Option<&ResolvedIssuerKeys>,
        allowed: &[Algorithm],
    ) -> bool {
        let Some(ResolvedIssuerKeys { keys, content, position: place, path, .. }) = found else { return true };
        let written = match keys {
            IssuerKeysConfig::JwksFile(_) => &issuer.jwks_file,
            IssuerKeysConfig::PemFile(_) => &issuer.public_key_file,
            _ => return true,
        };
        let Err(KeyMismatch { reason: why, hint }) = (self.source.context.key_check)(keys, content, allowed) else {
            return true;
        };
        let name = written.as_ref().map_or(String::new(), |text| quote_value(&text.value, text.value.contains("${")));
        self.report_error(path, *place, format!("{name} {why}"), hint);
        false
    }

    /// Checks the accepted algorithms: of one family with its keys, and no stronger than its secret.
    fn check_algorithms(
        &mut self,
        issuer: &file::IssuerSpec,
        found: Option<&ResolvedIssuerKeys>,
        at: &str,
    ) -> Option<Vec<Algorithm>> {
        let path = format!("{at}.algorithms");
        let written = self.read_list(&issuer.algorithms, &path, scalar::parse_algorithm);
        let ResolvedIssuerKeys { secret_length: secret, position: place, path: keys_path, .. } = found?;
        let long_enough = |algorithm: &Algorithm| secret.is_none_or(|length| length >= hash_length(*algorithm));
        if secret.is_some_and(|length| length < hash_length(Algorithm::HS256)) {
            let hint = "generate one with `openssl rand -base64 48`; a short secret can be guessed offline from a single token";
            self.report_error(keys_path, *place, "the secret is shorter than 32 bytes (RFC 7518 §3.2)", hint);
            return None;
        }
        if written.is_empty() {
            let family = Algorithm::ALL.iter().filter(|algorithm| algorithm.is_shared() == secret.is_some());
            return Some(family.copied().filter(long_enough).collect());
        }
        let before = self.problems.len();
        for one in written.iter().flatten() {
            let name = one.value.name();
            match (secret, one.value.is_shared()) {
                // RFC 8725 §3.1: anybody knows a public key; taken for a secret, it would allow unsigned tokens.
                (None, true) => {
                    let hint = "remove it, or write `secret_file`: if a public key were used as a secret, anybody who has \
                                that key could sign tokens";
                    self.report_error(
                        &one.path,
                        one.position,
                        format!("`{name}` is verified with a secret, but these are public keys"),
                        hint,
                    );
                }
                (Some(_), false) => {
                    let hint = "remove it, or configure public keys, for example with `jwks_url`";
                    self.report_error(
                        &one.path,
                        one.position,
                        format!("`{name}` is verified with a public key, but this is a secret"),
                        hint,
                    );
                }
                _ if !long_enough(&one.value) => {
                    let hint = "use a longer secret, or remove the algorithm";
                    let message =
                        format!("`{name}` needs a secret of at least {} bytes (RFC 7518 §3.2)", hash_length(one.value));
                    self.report_error(&one.path, one.position, message, hint);
                }
                _ => {}
            }
        }
        collect_values(written).filter(|_| self.problems.len() == before)
    }

    fn check_key_source(
        &mut self,
        written: &file::Spanned<file::ApiKeyListSpec>,
        at: &str,
        labels: &mut AuthNames,
    ) -> Option<ApiKeyListConfig> {
        let source = &written.value;
        let whole = position(written.defined);
        let name = self.read_method_name(
            source.name.as_ref(),
            at,
            "the name that routes use, such as `name: partners`",
            whole,
            labels,
        );
        let header = self.read_value(&source.header, &format!("{at}.header"), scalar::parse_field_name);
        let has_tenants = source.file.is_some() || source.keys.iter().any(|key| key.value.tenant.is_some());
        let method = |name| AuthMethodRef { name, key_header: header.clone(), is_keys: true, has_tenants };
        self.methods.extend(name.clone().map(method));
        let keys = self.check_api_keys(&source.keys, at);
        let file = match &source.file {
            Some(file) => self.check_key_file(file, at, keys.as_deref().unwrap_or_default()).map(Some),
            None => Some(None),
        };
        let is_lost = self.is_skipped(&format!("{at}.file")) || self.is_skipped(&format!("{at}.keys"));
        if source.file.is_none() && source.keys.is_empty() && !is_lost {
            let hint = "add `file` or a list `keys`, or remove the entry";
            self.report_error(at, whole, "this list has no keys, so no caller could authenticate with it", hint);
        }
        Some(ApiKeyListConfig { name: name?, header: header?, file: file?, keys: keys? })
    }

    /// The file of a list, which is read now to find mistakes, and whose keys must not stand in the list as well.
    fn check_key_file(
        &mut self,
        written: &Scalar<kind::FileName>,
        at: &str,
        listed: &[ApiKeyConfig],
    ) -> Option<std::path::PathBuf> {
        let path = format!("{at}.file");
        let (file, content) = self.read_named_file(written, &path)?;
        match super::load_key_file(&file, &content, self.source.context.lookup) {
            Ok(keys) => {
                let same = |one: &ApiKeyConfig, other: &ApiKeyConfig| one.id == other.id || one.sha256 == other.sha256;
                if let Some(twice) = keys.iter().find(|key| listed.iter().any(|listed| same(listed, key))) {
                    let message = format!("the key `{}` of the file is also in `keys`", twice.id);
                    self.report_error(&path, position(written.defined), message, "keep one of the two");
                }
                Some(file)
            }
            Err(problems) => {
                self.problems.extend(problems.as_slice().iter().cloned());
                None
            }
        }
    }

    /// The keys of a file of its own.
    pub(super) fn check_key_list(&mut self, written: &[file::Spanned<file::ApiKeySpec>]) -> Option<Vec<ApiKeyConfig>> {
        self.check_api_keys(written, "")
    }

    fn check_api_keys(&mut self, written: &[file::Spanned<file::ApiKeySpec>], at: &str) -> Option<Vec<ApiKeyConfig>> {
        let at = if at.is_empty() { "keys".to_owned() } else { format!("{at}.keys") };
        let (mut ids, mut digests, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (index, key) in written.iter().enumerate() {
            keys.push(self.check_api_key(key, &format!("{at}[{index}]"), &mut ids, &mut digests));
        }
        let (ids, digests): (Vec<_>, Vec<_>) = (ids.iter().collect(), digests.iter().collect());
        self.report_duplicates(
            &ids,
            |one, other| one == other,
            "this id is already used by",
            "give each key a unique id",
        );
        let hint = "each key identifies one caller: generate another key";
        self.report_duplicates(&digests, |one, other| one == other, "this is the same key as", hint);
        keys.into_iter().collect()
    }

    fn check_api_key(
        &mut self,
        written: &file::Spanned<file::ApiKeySpec>,
        at: &str,
        ids: &mut Vec<LocatedValue<String>>,
        digests: &mut Vec<LocatedValue<[u8; 32]>>,
    ) -> Option<ApiKeyConfig> {
        let key = &written.value;
        let whole = position(written.defined);
        let id = self.require_key(key.id.as_ref(), at, "id", "the name that logs show, such as `id: alice-1`", whole);
        let id = id.and_then(|id| self.read_located(id, &format!("{at}.id"), scalar::parse_name));
        ids.extend(id.clone());
        let example = "the SHA-256 digest of the key: `printf %s KEY | sha256sum`";
        let text = self.require_key(key.sha256.as_ref(), at, "sha256", example, whole);
        let path = format!("{at}.sha256");
        // The key itself may stand here by mistake.
        let sha256 = text.and_then(|text| Some((text, self.parse_secret(text, &path, scalar::parse_digest)?)));
        digests.extend(sha256.map(|(text, digest)| LocatedValue::new(digest, &path, text.referenced)));
        let subject = self.read_optional(key.subject.as_ref(), &format!("{at}.subject"), scalar::parse_word);
        let tenant = self.read_optional(key.tenant.as_ref(), &format!("{at}.tenant"), scalar::parse_word);
        let tier = self.read_optional(key.tier.as_ref(), &format!("{at}.tier"), scalar::parse_word);
        let scopes = collect_values(self.read_list(&key.scopes, &format!("{at}.scopes"), scalar::parse_scope));
        let expires = self.read_optional(key.expires.as_ref(), &format!("{at}.expires"), scalar::parse_timestamp);
        let id = id?.value;
        Some(ApiKeyConfig {
            subject: subject?.unwrap_or_else(|| id.clone()),
            id,
            sha256: sha256?.1,
            tenant: tenant?,
            tier: tier?,
            scopes: scopes?,
            expires: expires?,
        })
    }

    /// The methods that a route names; all of them where it names none, and no method at all where it says so.
    pub(super) fn resolve_methods(
        &mut self,
        written: Option<&file::Spanned<ScalarOrList>>,
        at: &str,
    ) -> Option<Vec<String>> {
        let all: Vec<String> = self.methods.iter().map(|method| method.name.clone()).collect();
        let Some(written) = written else {
            // The accepted credentials are unknown then.
            return (!self.is_skipped(at) && !self.kinds_with_unnamed.contains(&ReferenceKind::Method)).then_some(all);
        };
        let known: Vec<&str> = all.iter().map(String::as_str).chain([NONE]).collect();
        let place = position(written.defined);
        let names: Vec<Option<String>> = match &written.value {
            ScalarOrList::One(one) => vec![self.resolve_name(one, at, place, ReferenceKind::Method, &known)],
            ScalarOrList::Many(many) => self.resolve_names(many, at, ReferenceKind::Method, &known),
        };
        let names: Vec<String> = names.into_iter().collect::<Option<_>>()?;
        let (message, hint) = match names.as_slice() {
            [] => (
                "the list is empty, so every call would be rejected",
                format!("write names, or `{NONE}` to allow calls without a credential"),
            ),
            [one] if one == NONE => return Some(Vec::new()),
            several if several.iter().any(|name| name == NONE) => {
                ("`none` cannot be combined with names", format!("write `auth: {NONE}` alone, or the names alone"))
            }
            _ => return Some(names),
        };
        self.report_error(at, place, message, hint);
        None
    }

    /// Each of several names, one of those that are known.
    pub(super) fn resolve_names(
        &mut self,
        many: &[Scalar<kind::Text>],
        at: &str,
        what: ReferenceKind,
        known: &[&str],
    ) -> Vec<Option<String>> {
        let each = |(index, one): (usize, &Scalar<kind::Text>)| {
            self.resolve_name(&one.value, &format!("{at}[{index}]"), position(one.defined), what, known)
        };
        many.iter().enumerate().map(each).collect()
    }

    fn resolve_name(
        &mut self,
        written: &str,
        path: &str,
        place: Option<SourcePosition>,
        what: ReferenceKind,
        known: &[&str],
    ) -> Option<String> {
        let scalar = self.expand_scalar(written, path, place)?;
        if known.contains(&scalar.text.as_str()) {
            return Some(scalar.text);
        }
        if self.kinds_with_unnamed.contains(&what) {
            return None;
        }
        let what = match what {
            ReferenceKind::Dialect => "a dialect",
            ReferenceKind::Method => "an issuer or a list of API keys",
            ReferenceKind::RateLimit => "a rate limit",
        };
        let is_first = |line: &str| line.starts_with("auth:") || line.starts_with("\"auth\"");
        let hint = if let Some(straight) = yaml_hints::hint_for_quotes(written) {
            straight.to_owned()
        } else if known == [NONE] && nearest(&scalar.text, known).is_empty() && !self.source.text.lines().any(is_first)
        {
            format!("this file has no `auth`: list issuers or API keys there, or write `auth: {NONE}` here")
        } else if known.is_empty() {
            format!("this file does not define {what}")
        } else {
            // The nearest name would tell what a variable holds.
            did_you_mean(if scalar.substituted { "" } else { &scalar.text }, known)
        };
        self.report_error(path, place, format!("{} is not the name of {what}", scalar.display), hint);
        None
    }
}

/// RFC 7518 §3.2: "A key of the same size as the hash output … or larger MUST be used".
fn hash_length(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    }
}
