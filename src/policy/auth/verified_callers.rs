//! Callers whose tokens were verified in full.
//!
//! A client sends the same token with every run. Everything about it but the times follows from its text, the keys and
//! the settings of its issuer, so a token that was accepted is found by its digest, and only its times are checked
//! again. A set of other keys, and an issuer with other settings, start empty.

use super::jwt::VerifiedCaller;
use crate::net::digest::Sha256Digest;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Maximum length of all remembered tokens of one key set together. Callers can only add tokens that their issuer has
/// signed; the claims of one take a few times its length.
const MAX_REMEMBERED_BYTES: usize = 512 << 10;

#[derive(Default)]
pub(super) struct VerifiedCallers(Mutex<CallerGenerations>);

/// When the recent half is full, it replaces the older one: what was used in between is kept.
#[derive(Default)]
struct CallerGenerations {
    recent: HashMap<Sha256Digest, VerifiedCaller>,
    recent_bytes: usize,
    older: HashMap<Sha256Digest, VerifiedCaller>,
}

impl VerifiedCallers {
    pub(super) fn find(&self, digest: &Sha256Digest) -> Option<VerifiedCaller> {
        self.0.lock().find(digest)
    }

    pub(super) fn insert(&self, digest: Sha256Digest, caller: VerifiedCaller) {
        self.0.lock().insert(digest, caller);
    }
}

impl CallerGenerations {
    fn find(&mut self, digest: &Sha256Digest) -> Option<VerifiedCaller> {
        if let Some(caller) = self.recent.get(digest) {
            return Some(caller.clone());
        }
        let caller = self.older.remove(digest)?;
        self.insert(*digest, caller.clone());
        Some(caller)
    }

    fn insert(&mut self, digest: Sha256Digest, caller: VerifiedCaller) {
        if self.recent_bytes + caller.length > MAX_REMEMBERED_BYTES / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
        self.recent_bytes += caller.length;
        // Two requests may bring the same token at once.
        if let Some(same) = self.recent.insert(digest, caller) {
            self.recent_bytes -= same.length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::digest::sha256;
    use crate::policy::auth::jwt::TokenTimes;
    use crate::policy::identity::Identity;
    use crate::telemetry::label::AuthMethod;
    use std::sync::Arc;

    fn caller(subject: &str, length: usize) -> VerifiedCaller {
        let identity = Identity::new(AuthMethod::Jwt, "corp".into(), subject.to_owned());
        VerifiedCaller { identity: Arc::new(identity), times: TokenTimes::default(), length }
    }

    #[test]
    fn remembers_the_callers_in_use_and_never_more_than_the_limit() {
        let mut callers = CallerGenerations::default();
        let used = sha256(b"in use");
        callers.insert(used, caller("ada", 700));
        for number in 0..2000_usize {
            let digest = sha256(&number.to_be_bytes());
            callers.insert(digest, caller("bob", 4096));
            // The same again takes no more.
            callers.insert(digest, caller("bob", 4096));
            if number % 50 == 0 {
                let found = callers.find(&used).expect("in use");
                assert_eq!(found.identity.subject, "ada", "after {number} others");
            }
            let all = callers.recent.values().chain(callers.older.values());
            assert!(all.map(|caller| caller.length).sum::<usize>() <= MAX_REMEMBERED_BYTES);
            assert_eq!(callers.recent.values().map(|caller| caller.length).sum::<usize>(), callers.recent_bytes);
        }
        assert!(callers.find(&sha256(&0_usize.to_be_bytes())).is_none());
    }
}
