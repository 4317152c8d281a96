//! The body of an answer that reads a log.

use super::pipe::CutOff;
use crate::replay::Reader;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A client that reads a run's log.
#[derive(Debug)]
pub(super) struct Tail(pub Reader);

impl Body for Tail {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.0.poll_next(cx).map(|next| next.map(|piece| piece.map(Frame::data).map_err(|_| CutOff)))
    }
}
