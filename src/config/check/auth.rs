//! Whom the gateway believes: issuers of tokens, lists of API keys, proxies.

use super::Check;
use crate::config::access::{Auth, TrustedProxies};
use crate::config::file::{self, Text};

impl Check<'_> {
    pub(super) fn trusted_proxies(&mut self, _written: &[Text]) -> Option<TrustedProxies> {
        Some(Vec::new())
    }

    pub(super) fn auth(&mut self, _written: &file::Auth) -> Option<Auth> {
        Some(Auth::default())
    }
}
