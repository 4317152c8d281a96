//! A service that can be replaced while it runs.

use crate::net::SwapCell;
use std::task::{Context, Poll};
use tower::Service;

/// Passes requests to the current service; a reload replaces it for new requests.
#[derive(Clone)]
pub(crate) struct ReloadableService<S>(pub(crate) SwapCell<S>);

impl<R, S: Service<R> + Clone> Service<R> for ReloadableService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // All stacks are always ready; see `ErrorResponder`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> S::Future {
        S::clone(&self.0.load()).call(request)
    }
}
