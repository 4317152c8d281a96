//! Whether a request says properly whom it is for.

use super::Gate;
use crate::error::Rejection;
use http::request::Parts;

/// The gate.
#[derive(Clone, Debug)]
pub struct Host;

impl Gate for Host {
    async fn pass(&self, _head: &mut Parts) -> Result<(), Rejection> {
        Ok(())
    }
}
