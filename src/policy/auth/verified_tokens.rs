//! Tokens whose signatures a key set has verified.
//!
//! A client sends the same token with every run, and an ES256 signature costs as much as half a short run. Only the result for
//! the signature is remembered: the times, the audience and all other claims are checked for every request, and a set of
//! other keys begins without a memory.

use super::jwt::UnverifiedToken;
use crate::net::digest::{Sha256Digest, sha256};
use parking_lot::Mutex;
use std::collections::HashSet;

/// Maximum number of remembered tokens of one key set. Callers can only add tokens that their issuer has signed.
const MAX_TOKENS: usize = 4096;

#[derive(Default)]
pub(super) struct VerifiedTokens(Mutex<TokenGenerations>);

/// When the recent half is full, it replaces the older one: what was used in between is kept.
#[derive(Default)]
struct TokenGenerations {
    recent: HashSet<Sha256Digest>,
    older: HashSet<Sha256Digest>,
}

impl VerifiedTokens {
    /// Returns whether `verify` succeeds or succeeded for the same signed text and signature.
    pub(super) fn check(&self, token: &UnverifiedToken<'_>, verify: impl FnOnce() -> bool) -> bool {
        // The signed text has one dot, so the second one begins the signature.
        let digest = sha256(&[token.signing_input, b".", &token.signature].concat());
        if self.0.lock().contains(&digest) {
            return true;
        }
        let is_valid = verify();
        if is_valid {
            self.0.lock().insert(digest);
        }
        is_valid
    }
}

impl TokenGenerations {
    fn contains(&mut self, digest: &Sha256Digest) -> bool {
        if self.recent.contains(digest) {
            return true;
        }
        let is_older = self.older.remove(digest);
        if is_older {
            self.insert(*digest);
        }
        is_older
    }

    fn insert(&mut self, digest: Sha256Digest) {
        if self.recent.len() >= MAX_TOKENS / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_tokens_in_use_and_never_more_than_the_limit() {
        let mut tokens = TokenGenerations::default();
        let used = sha256(b"in use");
        tokens.insert(used);
        for number in 0..10 * MAX_TOKENS {
            tokens.insert(sha256(&number.to_be_bytes()));
            if number % 1000 == 0 {
                assert!(tokens.contains(&used), "after {number} others");
            }
            assert!(tokens.recent.len() + tokens.older.len() <= MAX_TOKENS);
        }
        assert!(!tokens.contains(&sha256(&0_usize.to_be_bytes())));
    }
}
