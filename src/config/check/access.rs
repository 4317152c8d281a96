//! Who may call a route, how often and how much.

use super::Check;
use crate::config::access::Access;
use crate::config::file;

impl Check<'_> {
    pub(super) fn access(&mut self, _route: &file::Route, _at: &str) -> Option<Access> {
        Some(Access::default())
    }
}
