//! Everything a run's translator is made of, except its input.

use crate::codec::Framing;
use crate::codec::sse::SseLimits;
use crate::config::RouteConfig;
use crate::config::process::ALLOWS_SHORTCUT;
use crate::dialect::{PeerDialect, ThreadState};
use crate::translate::{AllowedTools, ConversationState, GuardMode, RunIds, Stream};
use std::num::NonZero;
use std::sync::Arc;

/// The settings of a route and the request, from which a run's translator can be made more than once.
#[derive(Clone, Debug)]
pub(crate) struct StreamSettings {
    pub(crate) agent: PeerDialect,
    pub(crate) client: PeerDialect,
    pub(crate) ids: RunIds,
    pub(crate) limits: SseLimits,
    pub(crate) guard: GuardMode,
    pub(crate) tools: Option<Arc<AllowedTools>>,
    pub(crate) max_events: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    /// of the client's stream
    pub(crate) framing: Framing,
    /// present if the client can resume from an event
    pub(crate) frame_token: Option<Box<str>>,
    /// what earlier runs of the thread kept, for an agent whose dialect is described by a file
    pub(crate) thread: ThreadState,
}

impl StreamSettings {
    /// Returns the settings of a run on a route, with a stream of server-sent events. `frame` limits an event.
    pub(crate) fn for_route(
        route: &RouteConfig,
        frame: usize,
        tools: Option<Arc<AllowedTools>>,
        client: PeerDialect,
        agent: PeerDialect,
        ids: RunIds,
    ) -> StreamSettings {
        StreamSettings {
            agent,
            client,
            ids,
            limits: SseLimits { line: frame, frame },
            guard: route.guard,
            tools,
            max_events: route.access.run.events.map(NonZero::get),
            max_bytes: route.access.run.bytes.map(NonZero::get),
            framing: Framing::Sse,
            frame_token: None,
            thread: ThreadState::default(),
        }
    }

    pub(crate) fn with_thread(mut self, thread: ThreadState) -> StreamSettings {
        self.thread = thread;
        self
    }

    pub(crate) fn create_stream(&self, conversation: ConversationState) -> Stream {
        let mut stream = Stream::new(self.agent, self.client, Some(self.ids.clone()), self.limits)
            .with_guard_mode(self.guard)
            .with_conversation(conversation)
            .with_allowed_tools(self.tools.clone())
            .with_budget(self.max_events, self.max_bytes);
        if !*ALLOWS_SHORTCUT {
            stream = stream.without_shortcut();
        }
        if let Some(token) = &self.frame_token {
            stream = stream.with_frame_ids(token);
        }
        stream.write_as(self.framing);
        stream
    }
}
