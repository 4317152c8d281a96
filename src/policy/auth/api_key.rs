//! API keys; only their digests are stored.

use crate::config::access::{ApiKeyConfig, ApiKeyListConfig};
use crate::config::{ConfigProblem, load};
use crate::net::digest;
use crate::net::file_watcher::{ContentError, Watched};
use crate::policy::identity::Identity;
use crate::policy::policy_error::PolicyError;
use crate::telemetry::internal_event::report_watched_files;
use crate::telemetry::label::{AuthMethod, AuthReason};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use futures_util::future::join_all;
use http::HeaderName;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum length of a key in bytes; `diglot token` creates keys of 47 bytes.
const MAX_KEY_BYTES: usize = 512;

#[derive(Debug)]
pub(crate) struct ApiKeys {
    sources: Vec<ApiKeySource>,
}

#[derive(Debug)]
struct ApiKeySource {
    name: Arc<str>,
    header: HeaderName,
    keys: ApiKeyList,
}

#[derive(Debug)]
enum ApiKeyList {
    Fixed(ApiKeyIndex),
    /// keys from a file and from the configuration
    Watched(Watched<ApiKeyIndex>),
}

impl ApiKeys {
    /// Reads the key files.
    pub(crate) fn new(sources: &[ApiKeyListConfig]) -> Result<ApiKeys, PolicyError> {
        let source = |written: &ApiKeyListConfig| {
            let name: Arc<str> = written.name.as_str().into();
            let source = Arc::clone(&name);
            let fixed = written.keys.clone();
            let keys = match written.file.clone() {
                None => ApiKeyList::Fixed(ApiKeyIndex::new(&source, &fixed)?),
                Some(path) => ApiKeyList::Watched(Watched::open(&path.clone(), move |content| {
                    let mut keys = parse_key_file(&path, content)?;
                    keys.extend_from_slice(&fixed);
                    Ok::<_, ContentError>(ApiKeyIndex::new(&source, &keys)?)
                })?),
            };
            Ok(ApiKeySource { name, header: written.header.clone(), keys })
        };
        Ok(ApiKeys { sources: sources.iter().map(source).collect::<Result<_, PolicyError>>()? })
    }

    pub(crate) fn header(&self, source: &str) -> Option<&HeaderName> {
        Some(&self.source(source)?.header)
    }

    pub(crate) fn check(&self, source: &str, presented: &[u8], now: SystemTime) -> Result<Identity, AuthReason> {
        // Limits the work done for unauthenticated clients.
        if presented.len() > MAX_KEY_BYTES {
            return Err(AuthReason::TooLarge);
        }
        let source = self.source(source).ok_or(AuthReason::UnknownApiKey)?;
        let find = |index: &ApiKeyIndex| index.find(presented).cloned();
        let found = match &source.keys {
            ApiKeyList::Fixed(index) => find(index),
            ApiKeyList::Watched(file) => find(&file.get()),
        };
        let identity = found.ok_or(AuthReason::UnknownApiKey)?;
        if identity.expires.is_some_and(|expires| expires <= now) {
            return Err(AuthReason::Expired);
        }
        Ok(identity)
    }

    /// Returns the id of a key, valid or expired.
    pub(crate) fn find_id(&self, source: &str, presented: &[u8]) -> Option<String> {
        let keys = &self.source(source)?.keys;
        let find = |index: &ApiKeyIndex| index.find(presented).and_then(|identity| identity.key_id.clone());
        match keys {
            ApiKeyList::Fixed(index) => find(index),
            ApiKeyList::Watched(file) => find(&file.get()),
        }
    }

    /// Watches the key files; never returns.
    pub(crate) async fn watch_files(&self) {
        join_all(self.sources.iter().map(|source| async {
            if let ApiKeyList::Watched(file) = &source.keys {
                file.watch(report_watched_files).await;
            }
        }))
        .await;
        // Background tasks never return.
        std::future::pending::<()>().await;
    }

    fn source(&self, name: &str) -> Option<&ApiKeySource> {
        self.sources.iter().find(|source| *source.name == *name)
    }
}

#[derive(Debug, thiserror::Error)]
enum ApiKeyClash {
    #[error("the id `{0}` is given twice, in the file or in the configuration")]
    Id(String),
    #[error("one key has several ids: `{0}`")]
    Key(String),
}

/// Keys sorted by digest, for binary search.
#[derive(Debug)]
struct ApiKeyIndex(Vec<IndexedKey>);

#[derive(Debug)]
struct IndexedKey {
    digest: KeyDigest,
    identity: Identity,
}

/// A key's SHA-256. It must not be logged, since it allows offline guessing.
struct KeyDigest(digest::Sha256Digest);

/// Length of the indexed part of a digest: too short to reveal a key, but almost unique.
const PREFIX_BYTES: usize = 4;

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl ApiKeyIndex {
    fn new(source: &Arc<str>, keys: &[ApiKeyConfig]) -> Result<ApiKeyIndex, ApiKeyClash> {
        let mut ids = HashSet::new();
        if let Some(twice) = keys.iter().find(|key| !ids.insert(key.id.as_str())) {
            return Err(ApiKeyClash::Id(twice.id.clone()));
        }
        let known =
            |key: &ApiKeyConfig| IndexedKey { digest: KeyDigest(key.sha256), identity: to_identity(source, key) };
        let mut known: Vec<IndexedKey> = keys.iter().map(known).collect();
        known.sort_unstable_by_key(|known| known.digest.0);
        // A key must not have two identities.
        if let Some(same) = known.chunk_by(|one, other| one.digest.0 == other.digest.0).find(|same| same.len() > 1) {
            let ids: Vec<_> = same.iter().filter_map(|known| known.identity.key_id.as_deref()).collect();
            return Err(ApiKeyClash::Key(ids.join("`, `")));
        }
        Ok(ApiKeyIndex(known))
    }

    fn find(&self, presented: &[u8]) -> Option<&Identity> {
        let digest = digest::sha256(presented);
        let prefix = &digest[..PREFIX_BYTES];
        // The timing reveals at most the prefix of a digest, and clients cannot choose the digest of their guess. The
        // rest is compared in constant time.
        let first = self.0.partition_point(|known| known.digest.0[..PREFIX_BYTES] < *prefix);
        let alike = self.0[first..].iter().take_while(|known| known.digest.0.starts_with(prefix));
        let same = |known: &&IndexedKey| verify_slices_are_equal(&known.digest.0, &digest).is_ok();
        Some(&alike.filter(same).last()?.identity)
    }
}

fn to_identity(source: &Arc<str>, key: &ApiKeyConfig) -> Identity {
    Identity {
        tenant: key.tenant.clone(),
        tier: key.tier.clone(),
        scopes: key.scopes.clone(),
        expires: key.expires.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
        key_id: Some(key.id.clone()),
        ..Identity::new(AuthMethod::ApiKey, Arc::clone(source), key.subject.clone())
    }
}

/// Parses a key file. Errors contain positions but no text, since lines contain keys and digests.
fn parse_key_file(path: &Path, content: &[u8]) -> Result<Vec<ApiKeyConfig>, ContentError> {
    load::load_key_file(path, content).map_err(|problems| {
        let place = |problem: &ConfigProblem| {
            let line = problem.line.map_or(String::new(), |line| format!("line {line}: "));
            let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
            format!("{line}{path}{}", problem.message)
        };
        let problems: Vec<String> = problems.as_slice().iter().map(place).collect();
        problems.join("; ").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn entry(id: &str, key: &[u8]) -> ApiKeyConfig {
        let sha256 = digest::sha256(key);
        let (subject, scopes) = (format!("{id}'s owner"), vec!["run".to_owned()]);
        ApiKeyConfig { id: id.to_owned(), sha256, subject, tenant: None, tier: None, scopes, expires: None }
    }

    fn source(name: &str, keys: Vec<ApiKeyConfig>) -> ApiKeyListConfig {
        ApiKeyListConfig { name: name.to_owned(), header: HeaderName::from_static("x-api-key"), file: None, keys }
    }

    #[test]
    fn authenticates_a_key_only_in_its_own_source() {
        let full = ApiKeyConfig {
            tenant: Some("acme".to_owned()),
            tier: Some("gold".to_owned()),
            expires: Some(100),
            ..entry("one", b"first key")
        };
        let keys = ApiKeys::new(&[
            source("web", vec![entry("other", b"other key"), full]),
            source("ops", vec![entry("two", b"second key")]),
        ]);
        let keys = keys.expect("usable");
        let found = keys.check("web", b"first key", at(99)).expect("believed");
        assert_eq!((found.method, &*found.source, found.subject.as_str()), (AuthMethod::ApiKey, "web", "one's owner"));
        assert_eq!((found.tenant.as_deref(), found.tier.as_deref()), (Some("acme"), Some("gold")));
        assert_eq!(
            (found.scopes, found.expires, found.key_id.as_deref()),
            (vec!["run".to_owned()], Some(at(100)), Some("one"))
        );
        // The key is refused from `expires` on.
        assert_eq!(keys.check("web", b"first key", at(100)).expect_err("expired"), AuthReason::Expired);
        for (source, key) in
            [("ops", "first key"), ("web", ""), ("web", "first ke"), ("web", "first key "), ("none", "first key")]
        {
            let refused = keys.check(source, key.as_bytes(), at(0)).expect_err("not believed");
            assert_eq!(refused, AuthReason::UnknownApiKey, "{source} {key:?}");
        }
        assert_eq!(keys.header("ops").map(HeaderName::as_str), Some("x-api-key"));
        assert_eq!(keys.header("none"), None);
    }

    #[test]
    fn finds_each_of_many_keys_and_no_other() {
        let text = |number: usize| format!("key {number}");
        let entries = (0..5000).map(|number| entry(&number.to_string(), text(number).as_bytes())).collect();
        let keys = ApiKeys::new(&[source("web", entries)]).expect("usable");
        for number in 0..5000 {
            let found = keys.check("web", text(number).as_bytes(), at(0)).expect("believed");
            assert_eq!(found.key_id, Some(number.to_string()));
            assert!(keys.check("web", text(number + 5000).as_bytes(), at(0)).is_err());
        }
    }

    /// Uses made-up digests with a common prefix, since finding real keys with one would take too long.
    #[test]
    fn distinguishes_digests_with_a_common_prefix() {
        let real = entry("real", b"key");
        let mut entries = vec![real.clone()];
        for (place, step) in [(4, 1_u8), (31, 1), (31, 255), (16, 128)] {
            let mut near = ApiKeyConfig { id: format!("near {place} {step}"), ..real.clone() };
            near.sha256[place] = near.sha256[place].wrapping_add(step);
            entries.push(near);
        }
        let keys = ApiKeys::new(&[source("web", entries.clone())]).expect("usable");
        assert_eq!(keys.check("web", b"key", at(0)).expect("believed").key_id.as_deref(), Some("real"));
        let keys = ApiKeys::new(&[source("web", entries.split_off(1))]).expect("usable");
        assert_eq!(keys.check("web", b"key", at(0)).expect_err("not there"), AuthReason::UnknownApiKey);
    }

    #[test]
    fn rejects_overlong_keys_without_a_lookup() {
        let key = [b'k'; MAX_KEY_BYTES + 1];
        let keys = ApiKeys::new(&[source("web", vec![entry("a", &key), entry("b", &key[1..])])]).expect("usable");
        assert_eq!(keys.check("web", &key, at(0)).expect_err("too long"), AuthReason::TooLarge);
        assert!(keys.check("web", &key[1..], at(0)).is_ok());
    }

    #[test]
    fn rejects_duplicate_keys_and_ids() {
        let refused = |keys| ApiKeys::new(&[source("web", keys)]).expect_err("refused").to_string();
        assert_eq!(
            refused(vec![entry("a", b"1"), entry("b", b"2"), entry("c", b"1")]),
            "one key has several ids: `a`, `c`"
        );
        assert!(refused(vec![entry("a", b"1"), entry("a", b"2")]).contains("the id `a` is given twice"));
    }

    #[test]
    fn debug_output_hides_digests() {
        let keys = ApiKeys::new(&[source("web", vec![entry("a", b"1")])]).expect("usable");
        let shown = format!("{keys:?}");
        let digest = entry("a", b"1").sha256;
        assert!(shown.contains("***") && !shown.contains(&format!("{digest:?}")), "{shown}");
    }
}
