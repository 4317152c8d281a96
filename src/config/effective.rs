//! A configuration as it is in effect, for people: what was written and every default, without a secret.
//!
//! References such as `${NAME}` stay as they are. Where a secret stands, `***` is shown; of the digest of an API key its
//! beginning, which tells keys apart. Relative names of files are made whole, so that what is printed means the same
//! wherever it is put; one with a reference in it is left as it is.

use std::path::Path;

use serde_saphyr::{Location, Spanned};

use super::Config;
use super::access::RateLimitQuota;
use super::file::{
    ConfigFile, ScalarOrList, SocketListSpec, SocketSpec, SpannedText, UpstreamHeaderSpec, UpstreamListSpec,
    UpstreamSpec, synthetic_text,
};
use super::load::{self, KeyCheck, LoadContext, LoadedConfig, env_var};
use super::problem::{ConfigProblem, ConfigProblems};

/// What is shown in place of a secret.
const MASK: &str = "***";

/// The file at `path`, checked, as YAML in the order of the complete file.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn yaml_from_path(path: &Path) -> Result<String, ConfigProblems> {
    let LoadedConfig { config, file, .. } =
        load::load_with(path, &load::read_source(path)?, LoadContext::for_path(path, &env_var))?;
    to_yaml(path, file, &config)
}

/// The same as JSON.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn json_from_path(path: &Path) -> Result<String, ConfigProblems> {
    let LoadedConfig { config, file, .. } =
        load::load_with(path, &load::read_source(path)?, LoadContext::for_path(path, &env_var))?;
    serde_json::to_string_pretty(&to_effective_file(path, file, &config)).map_err(|error| render_error(path, error))
}

/// What a file says that a gateway runs on.
#[derive(Debug)]
pub struct EffectiveConfig {
    /// What it says.
    pub(crate) config: Config,
    /// As [`from_path`] prints it.
    pub(crate) yaml: String,
    /// What is doubtful about it.
    pub(crate) warnings: Vec<ConfigProblem>,
}

/// Understands `bytes`, the content of the file at `path`.
///
/// # Errors
/// As [`load::runnable`].
pub fn load_effective(path: &Path, bytes: &[u8], keys: KeyCheck) -> Result<EffectiveConfig, ConfigProblems> {
    let LoadedConfig { config, warnings, file } = load::load_bytes(path, bytes, keys)?;
    let printed = to_yaml(path, file, &config)?;
    Ok(EffectiveConfig { config, yaml: printed, warnings })
}

fn to_yaml(path: &Path, file: ConfigFile, config: &Config) -> Result<String, ConfigProblems> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&to_effective_file(path, file, config), options)
        .map_err(|error| render_error(path, error))
}

/// Texts, lists and mappings can be written; this would be a mistake of ours.
fn render_error(path: &Path, error: impl std::fmt::Display) -> ConfigProblems {
    ConfigProblem::for_file(&path.display().to_string(), format!("cannot be printed: {error}")).into()
}

fn to_effective_file(path: &Path, mut file: ConfigFile, config: &Config) -> ConfigFile {
    fill_derived(&mut file, config);
    mask(&mut file);
    let base = path.parent().unwrap_or(Path::new(""));
    for name in file_names_mut(&mut file) {
        make_absolute(name, base);
    }
    file
}

/// Makes a relative name of a file one from the root.
fn make_absolute(name: &mut String, base: &Path) {
    if !name.contains("${") && Path::new(name.as_str()).is_relative() {
        // It fails for an empty name alone, and where the current folder is gone.
        if let Ok(path) = std::path::absolute(base.join(name.trim())) {
            *name = path.display().to_string();
        }
    }
}

fn file_names_mut(file: &mut ConfigFile) -> Vec<&mut String> {
    let mut names: Vec<&mut SpannedText> = file.run_dir.iter_mut().collect();
    for issuer in file.auth.issuers.iter_mut().map(value_mut) {
        names.extend(
            [&mut issuer.jwks_file, &mut issuer.public_key_file, &mut issuer.secret_file].into_iter().flatten(),
        );
    }
    names.extend(file.auth.api_keys.iter_mut().filter_map(|source| source.value.file.as_mut()));
    names.extend(file.redis.iter_mut().filter_map(|redis| redis.value.password_file.as_mut()));
    for sockets in [&mut file.listeners.data, &mut file.listeners.status] {
        let entries: Vec<&mut SocketSpec> = match &mut sockets.value {
            SocketListSpec::One(one) => vec![one],
            SocketListSpec::Many(many) => many.iter_mut().map(value_mut).collect(),
        };
        for entry in entries {
            if let SocketSpec::Mapping(mapping) = entry
                && let Some(tls) = mapping.tls.as_mut().map(value_mut)
            {
                names.extend([&mut tls.cert, &mut tls.key, &mut tls.client_ca].into_iter().flatten());
            }
        }
    }
    for route in file.routes.value.iter_mut().map(value_mut) {
        if let Some(tls) = route.upstream_tls.as_mut().map(value_mut) {
            names.extend([&mut tls.ca, &mut tls.cert, &mut tls.key].into_iter().flatten());
        }
        for header in route.upstream_headers.values_mut().map(value_mut) {
            if let UpstreamHeaderSpec::File(file) = header {
                names.extend(&mut file.file);
            }
        }
    }
    names.into_iter().map(value_mut).collect()
}

/// Writes down what follows from other keys: who may call a route, what tokens may be signed with, how many requests may
/// come at once.
fn fill_derived(file: &mut ConfigFile, config: &Config) {
    for (written, issuer) in file.auth.issuers.iter_mut().map(value_mut).zip(&config.auth.issuers) {
        if written.algorithms.is_empty() {
            written.algorithms = issuer.algorithms.iter().map(|algorithm| synthetic_text(algorithm.name())).collect();
        }
    }
    for (written, policy) in file.rate_limits.iter_mut().map(value_mut).zip(&config.rate_limits.policies) {
        let burst = |quota: &RateLimitQuota| synthetic_text(&quota.burst.to_string());
        written.burst.get_or_insert_with(|| burst(&policy.quota));
        for (tier, quota) in &policy.tiers {
            if let Some(tier) = written.tiers.get_mut(tier).map(value_mut) {
                tier.burst.get_or_insert_with(|| burst(quota));
            }
        }
    }
    for (written, route) in file.routes.value.iter_mut().map(value_mut).zip(&config.routes) {
        let methods = &route.access.methods;
        let names = || ScalarOrList::Many(methods.iter().map(|name| synthetic_text(name)).collect());
        let all = if methods.is_empty() { ScalarOrList::One("none".to_owned()) } else { names() };
        written.auth.get_or_insert(Spanned::new(all, Location::UNKNOWN, Location::UNKNOWN));
    }
}

fn mask(file: &mut ConfigFile) {
    for issuer in file.auth.issuers.iter_mut().map(value_mut) {
        for url in [&mut issuer.issuer, &mut issuer.jwks_url].into_iter().flatten() {
            url.value = redact_url(&url.value);
        }
        if let Some(secret) = &mut issuer.secret {
            secret.value = mask_text(&secret.value);
        }
    }
    for key in file.auth.api_keys.iter_mut().flat_map(|source| &mut source.value.keys).map(value_mut) {
        for digest in key.sha256.iter_mut().filter(|digest| !is_reference(&digest.value)) {
            digest.value = digest.value.chars().take(8).chain(['…']).collect();
        }
    }
    for redis in file.redis.iter_mut().map(value_mut) {
        if let Some(url) = &mut redis.url {
            url.value = redact_url(&url.value);
        }
    }
    for route in file.routes.value.iter_mut().map(value_mut) {
        match route.upstream.as_mut().map(value_mut) {
            Some(UpstreamListSpec::One(one)) => mask_upstream(one),
            Some(UpstreamListSpec::Many(many)) => many.iter_mut().map(value_mut).for_each(mask_upstream),
            None => {}
        }
        if let Some(events) = &mut route.events {
            events.value = redact_url(&events.value);
        }
        for header in route.upstream_headers.values_mut().map(value_mut) {
            match header {
                UpstreamHeaderSpec::Text(text) => *text = mask_text(text),
                UpstreamHeaderSpec::File(file) => {
                    for prefix in file.prefix.iter_mut().filter(|prefix| !is_scheme(&prefix.value)) {
                        prefix.value = mask_text(&prefix.value);
                    }
                }
            }
        }
    }
}

fn mask_upstream(upstream: &mut UpstreamSpec) {
    match upstream {
        UpstreamSpec::Url(url) => *url = redact_url(url),
        UpstreamSpec::Mapping(mapping) => {
            mapping.url.iter_mut().for_each(|url| url.value = redact_url(&url.value));
        }
    }
}

fn value_mut<T>(spanned: &mut Spanned<T>) -> &mut T {
    &mut spanned.value
}

/// A secret as it is shown: a reference tells nothing, everything else could.
fn mask_text(text: &str) -> String {
    if is_reference(text) { text.to_owned() } else { MASK.to_owned() }
}

/// Whether a text is one reference without a default.
fn is_reference(text: &str) -> bool {
    let name = text.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.bytes().all(|each| each.is_ascii_alphanumeric() || each == b'_'))
}

/// Whether a prefix is the name of an authentication scheme alone, such as `Bearer `.
fn is_scheme(text: &str) -> bool {
    text.trim().len() < 16 && text.trim().bytes().all(|each| each.is_ascii_alphabetic())
}

/// A URL, or a path, without user name and password and without the values of its query.
fn redact_url(text: &str) -> String {
    let (before, query) = text.split_once('?').map_or((text, None), |(before, query)| (before, Some(query)));
    let mut shown = match (before.split_once("://"), before.rfind('@')) {
        (Some((scheme, _)), Some(at)) if at > scheme.len() => format!("{scheme}://{MASK}{}", &before[at..]),
        _ => before.to_owned(),
    };
    if let Some(query) = query {
        let each = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", mask_unless_placeholder(value)),
            None => mask_unless_placeholder(pair),
        };
        shown += &format!("?{}", query.split('&').map(each).collect::<Vec<_>>().join("&"));
    }
    shown
}

/// A value of a query: what stands for the ids of a run is no secret.
fn mask_unless_placeholder(value: &str) -> String {
    if matches!(value, "{thread_id}" | "{run_id}") { value.to_owned() } else { mask_text(value) }
}

#[cfg(test)]
mod tests {
    use super::{is_reference, redact_url};

    #[test]
    fn masks_only_the_secret_parts_of_urls() {
        for (url, shown) in [
            ("http://h:80/a", "http://h:80/a"),
            ("redis://:hunter2@h/0", "redis://***@h/0"),
            ("redis://me:hun/ter2@h/0", "redis://***@h/0"),
            ("${REDIS:-redis://me:hunter2@h}", "${REDIS:-redis://***@h}"),
            ("http://h/a?key=hunter2&b=${KEY}&hunter2", "http://h/a?key=***&b=${KEY}&***"),
            ("/runs/{thread_id}?run={run_id}&k=hunter2", "/runs/{thread_id}?run={run_id}&k=***"),
            ("${URL}", "${URL}"),
            ("/@me", "/@me"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn treats_a_reference_with_a_default_as_a_secret() {
        assert!(is_reference("${A_1}") && is_reference(" ${A}\n"));
        assert!(!is_reference("${A:-hunter2}") && !is_reference("x${A}") && !is_reference("${A}${B:-}"));
    }
}
