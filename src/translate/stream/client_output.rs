//! The stages after the run guard: the tools that the agent may call, and the client's dialect.

use crate::codec::Framing;
use crate::dialect::Dialect;
use crate::event::Event;
use crate::event::run::RunEnding;
use crate::translate::allowed_tools::ToolCallFilter;
use crate::translate::stream_error::StreamError;
use crate::translate::writer::{EventWriter, OutputContext};

/// The states in the diagram of `stream.rs`.
#[derive(Debug)]
pub(super) enum StreamState {
    Running,
    /// an event was withheld, so only [`super::Stream::fail`] may send anything more
    Stopped(StreamError),
    /// the terminal event was sent
    Closed(RunEnding),
}

#[derive(Debug)]
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct ClientOutput {
    pub(super) state: StreamState,
    pub(super) writer: EventWriter,
    pub(super) tool_filter: ToolCallFilter,
    pub(super) client: &'static Dialect,
}

impl ClientOutput {
    /// Sends an event, or stops the stream if that is impossible.
    pub(super) fn send(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) {
        if !matches!(self.state, StreamState::Running) {
            return;
        }
        let sent = match self.tool_filter.find_forbidden_call(&event) {
            Some(tool) => Err(StreamError::ForbiddenTool(tool)),
            None => self.write(event, to),
        };
        if let Err(error) = sent {
            self.state = StreamState::Stopped(error);
        }
    }

    pub(super) fn write(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        let before = to.out.len();
        let kind = event.kind;
        if let Some(trace) = &mut to.report.trace {
            trace.record_guarded(&event);
        }
        self.writer.write_event(event, to)?;
        if let Some(trace) = &mut to.report.trace {
            match self.writer.framing {
                Framing::Sse => trace.record_written(&to.out[before..], self.client),
                Framing::Proto => trace.record_protobuf(kind),
            }
        }
        Ok(())
    }

    /// Closes the stream if the run has ended and its terminal event was sent.
    pub(super) fn close(&mut self, ending: Option<RunEnding>) {
        if let (Some(ending), StreamState::Running) = (ending, &self.state) {
            self.state = StreamState::Closed(ending);
        }
    }
}
