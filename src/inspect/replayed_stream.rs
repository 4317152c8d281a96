//! A run's translator, given the same steps again.

use super::capture_step::CaptureStep;
use super::stream_settings::StreamSettings;
use crate::translate::report::TranslationReport;
use crate::translate::{ConversationState, Stream, StreamError};

#[derive(Debug)]
pub(crate) struct ReplayedStream {
    stream: Stream,
    /// true once the stream reads no further
    is_stopped: bool,
}

impl ReplayedStream {
    pub(crate) fn new(settings: &StreamSettings, conversation: ConversationState) -> ReplayedStream {
        let stream = settings.create_stream(conversation).with_thread(&settings.ids, settings.thread.clone());
        ReplayedStream { stream, is_stopped: false }
    }

    /// Takes the next step, at `now_ms` since the epoch, and appends what the client is written.
    ///
    /// # Errors
    /// Returns the error that stopped the stream, once.
    pub(crate) fn apply(
        &mut self,
        now_ms: i64,
        step: &CaptureStep,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StreamError> {
        let applied = match step {
            CaptureStep::Responded(framing) => {
                self.stream.read_as(*framing);
                Ok(())
            }
            CaptureStep::Followed(run_id) => {
                self.stream.follow_run(run_id.as_deref());
                Ok(())
            }
            CaptureStep::Read(_) if self.is_stopped => Ok(()),
            CaptureStep::Read(_) => self.stream.push(bytes, now_ms, out),
            CaptureStep::Reconnected => {
                self.stream.resume();
                Ok(())
            }
            CaptureStep::BodyEnded => self.stream.finish(now_ms, out),
            CaptureStep::Failed(failure) => {
                self.stream.fail(&failure.0, &failure.1, now_ms, out);
                Ok(())
            }
            CaptureStep::Cancelled => {
                self.stream.cancel(now_ms, out);
                Ok(())
            }
        };
        self.is_stopped |= applied.is_err();
        applied
    }

    /// Returns whether the stream reads no further.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns whether the run has had its terminal event.
    pub(crate) fn is_ended(&self) -> bool {
        self.stream.ending().is_some()
    }

    pub(crate) fn frames_read(&self) -> u64 {
        self.stream.frames_read()
    }

    pub(crate) fn report_mut(&mut self) -> &mut TranslationReport {
        self.stream.report_mut()
    }
}
