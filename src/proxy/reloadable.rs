//! The stack that requests go through now: another one from the moment on that the configuration is another.

use crate::net::SwapCell;
use std::task::{Context, Poll};
use tower::Service;

/// A service that can be replaced while it serves. A request goes through one of them from its beginning to its end.
#[derive(Debug)]
pub(crate) struct ReloadableService<S>(pub(crate) SwapCell<S>);

impl<S> Clone for ReloadableService<S> {
    fn clone(&self) -> Self {
        ReloadableService(self.0.clone())
    }
}

impl<R, S: Service<R> + Clone> Service<R> for ReloadableService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // Whichever it will be is always ready; see `refusal::Answer`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> S::Future {
        S::clone(&self.0.load()).call(request)
    }
}
