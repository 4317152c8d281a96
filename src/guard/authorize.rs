//! Whether a caller may use a route.

use super::Gate;
use crate::error::Rejection;
use http::request::Parts;

/// The gate.
#[derive(Clone, Debug)]
pub struct Authorize;

impl Gate for Authorize {
    async fn pass(&self, _head: &mut Parts) -> Result<(), Rejection> {
        Ok(())
    }
}
