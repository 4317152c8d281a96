//! Frames of a dialect that a file describes.

use super::EventReader;
use crate::codec::json;
use crate::dialect::{ThreadChange, ThreadState};
use crate::event::{Event, EventType, Json};
use crate::translate::RunIds;
use crate::translate::explain_trace::TraceEntry;
use crate::translate::list_budget;
use crate::translate::repeated_frames::{TEXT_MEMBERS, VaryingMembers};
use crate::translate::report::{EventSink, TranslationReport};

impl EventReader {
    /// Sets the ids of the request.
    pub(crate) fn with_ids(mut self, ids: Option<&RunIds>) -> Self {
        if let Some(ids) = ids {
            self.begin_thread(ids, ThreadState::default());
        }
        self
    }

    /// Sets the ids of the request for a dialect that a file describes, and what earlier runs of the thread kept.
    pub(crate) fn begin_thread(&mut self, ids: &RunIds, thread: ThreadState) {
        if let Some(mapped) = &mut self.mapped {
            mapped.begin(ids.thread_id.clone(), ids.run_id.clone(), thread);
        }
    }

    pub(crate) fn take_thread_change(&mut self) -> Option<ThreadChange> {
        self.mapped.as_mut()?.take_thread_change()
    }

    /// Returns the path where the dialect file has the frames' content, if no frame had any there.
    pub(crate) fn missing_payload(&self) -> Option<&'static str> {
        self.mapped.as_ref()?.missing_payload()
    }

    /// Returns true if the last frame of a body is incomplete when it is no JSON object. The data of an agent whose
    /// dialect is described by a file may be no JSON at all, such as `[DONE]`, or empty behind an `event:` line.
    pub(crate) fn drops_cut_frame(&self, event_line: Option<&str>, data: &str) -> bool {
        let Some(mapping) = self.dialect.mapping else { return true };
        let data = data.trim();
        let is_cut_word = event_line.is_none() && (data.is_empty() || mapping.is_cut_word(data));
        is_cut_word || (data.starts_with('{') && json::parse_value(data).is_none())
    }

    /// Ends a run whose agent ends it by ending the stream.
    pub(crate) fn end_stream(&mut self, sink: &mut impl EventSink) {
        if let Some(mapped) = &mut self.mapped {
            mapped.end_stream(sink);
        }
    }

    /// Returns whether the `event:` line of a frame may decide what the frame means.
    pub(crate) fn reads_event_line(&self) -> bool {
        self.dialect.mapping.is_some_and(|mapping| mapping.reads_event_line)
    }

    pub(crate) fn varying_members(&self) -> VaryingMembers<'static> {
        match self.dialect.mapping {
            Some(mapping) => VaryingMembers { copied: &mapping.copied_members, read: Some(&mapping.read_members) },
            None => VaryingMembers { copied: &TEXT_MEMBERS, read: None },
        }
    }

    /// Returns whether the agent may send whole texts, which are compared with what was sent.
    pub(crate) fn compares_texts(&self) -> bool {
        self.dialect.mapping.is_some_and(|mapping| mapping.has_whole_texts)
    }

    /// Takes note of a frame that repeated the last one, with another text in quotes.
    pub(crate) fn add_repeated_text(&mut self, quoted: &str) {
        if let Some(mapped) = &mut self.mapped {
            mapped.add_repeated_text(&Json::from_trusted(quoted).text().unwrap_or_default());
        }
    }

    /// Reads a frame by the rules of a file.
    pub(super) fn read_mapped_frame(&mut self, event_line: Option<&str>, data: &str, sink: &mut impl EventSink) {
        let Some(mapped) = &mut self.mapped else { return };
        let is_named = sink.report().agent_names.is_some();
        mapped.trace = (is_named || sink.report().trace.is_some()).then(Default::default);
        let kind = mapped.read_frame(event_line, data, &mut CheckedSink(sink));
        sink.report().has_excess |= mapped.has_excess();
        if let Some(own) = mapped.trace.take() {
            if let (Some(names), Some(name)) = (&mut sink.report().agent_names, &own.name) {
                names.add(name);
            }
            if let Some(trace) = &mut sink.report().trace {
                trace.entries.push(TraceEntry::Mapped(own));
            }
        }
        let label = kind.map_or(self.dialect.other_label_index(), |kind| self.dialect.label_index(kind));
        sink.report().events_read.add(label);
        self.last_mapped = kind.filter(|kind| *kind != EventType::Raw).or(self.last_mapped);
        self.last_copy = u8::try_from(label).ok().zip(mapped.copied_content());
        self.first_frames.add(self.peer, kind.is_none(), event_line, data);
    }
}

/// Emits no lists with more elements than are taken apart: a file may put any list of a frame into an event.
struct CheckedSink<'s, S>(&'s mut S);

impl<S: EventSink> EventSink for CheckedSink<'_, S> {
    fn emit(&mut self, event: Event<'_>) {
        match list_budget::exceeds_limit_of_event(&event) {
            true => self.0.report().has_excess = true,
            false => self.0.emit(event),
        }
    }

    fn report(&mut self) -> &mut TranslationReport {
        self.0.report()
    }
}
