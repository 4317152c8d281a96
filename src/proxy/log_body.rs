//! A response body that reads a run's log.

use super::pipe::BodyAborted;
use crate::replay::LogReader;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Debug)]
pub(super) struct LogBody(pub(crate) LogReader);

impl Body for LogBody {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        self.0.poll_next(cx).map(|next| next.map(|piece| piece.map(Frame::data).map_err(|_| BodyAborted)))
    }

    /// Nothing follows in a body whose client was disconnected while its connection is sending, which may stop.
    fn size_hint(&self) -> SizeHint {
        if self.0.is_cut_off() { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}
