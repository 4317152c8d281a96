//! Recordings of a build without `otel`: there are none.

use super::context::{Context, Parent};
use super::{Arrival, Method};
use crate::error::Rejection;
use crate::telemetry::Metrics;
use crate::telemetry::occurrence::{Refused, RunEnded};
use http::HeaderValue;
use std::sync::Arc;
use std::time::Duration;

/// There is none.
#[derive(Clone, Debug)]
pub(super) enum Recorder {}

/// Of a span that nobody hears of.
#[derive(Debug, Default)]
pub(super) struct Recording;

impl Recorder {
    pub(super) fn from_environment(_: &Arc<Metrics>) -> Result<Option<Recorder>, String> {
        Ok(None)
    }

    pub(super) fn server(&self, _: Option<&Parent>, _: Arrival<'_>) -> (Context, Recording) {
        match *self {}
    }

    pub(super) fn client(
        &self,
        _: &Context,
        _: Option<&HeaderValue>,
        _: Method,
        _: &str,
        _: &str,
    ) -> (Context, Recording) {
        match *self {}
    }

    pub(super) fn flush(&self, _: Duration) {
        match *self {}
    }
}

impl Recording {
    pub(super) fn is_recording(&self) -> bool {
        false
    }

    pub(super) fn run(&mut self, _: &RunEnded<'_>) {}

    pub(super) fn refusal(&mut self, _: &Refused<'_>) {}

    pub(super) fn answer(&mut self, _: u16) {}

    pub(super) fn head(&mut self, _: u16) {}

    pub(super) fn fail(&mut self, _: &Rejection) {}

    pub(super) fn end(&mut self) {}

    pub(super) fn abandon(&mut self) {}
}
