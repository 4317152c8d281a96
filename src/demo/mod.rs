//! Demo agents without a model: one fixed conversation in any of the dialects.
//!
//! `diglot demo`, the end-to-end tests and the load tests use them. `conversation` has the content, which is the same for every
//! agent; a file per dialect prints its events exactly like an agent of that protocol; [`router`] serves an agent over HTTP.
//!
//! # The conversation
//! The first request gets some thinking, a text, and a call of the front-end tool `confirmAction`. The request with the
//! tool's result (its last message has the role `tool`) gets "deployed" or "cancelled". Ids derive from the run id: the
//! message is `msg-<runId>`, the call `call-<runId>`, the AG-UI reasoning `think-<runId>`.
//!
//! # Test options
//! A test sets a size or a failure in the request itself, as members of `forwardedProps.diglot`. A gateway forwards
//! `forwardedProps` unchanged, so the options work with and without a gateway:
//!
//! | member | behaviour of the agent |
//! |---|---|
//! | `"events": N` | its text is N pieces `第i段 ` (i from 1) instead of the scripted ones, produced as the client reads |
//! | `"idle": true` | sends its first text piece, then nothing until the client leaves |
//! | `"fail": "truncate"` | ends the body cleanly after the first text piece, without an end of the run |
//! | `"fail": "reset"` | breaks the connection after the first text piece, inside the chunked body |
//! | `"fail": "error"` | sends RUN_ERROR after the first text piece and ends |
//! | `"fail": "status"` | answers 503 with `{"error":{"message":"model overloaded"}}` and `Retry-After: 7` |
//! | `"fail": "html"` | answers 200 with a page of `text/html`, as a login wall or a misrouted proxy does |
//!
//! `fail` overrides `idle`; both combine with `events`. An invalid option is answered with 400, because a test whose option
//! is ignored proves nothing.

mod assembler;
mod conversation;
mod demo_ids;
mod ag_ui;
mod ag_ui_0;
mod ag_ui_snake;
mod cloudbase;
mod hai;
mod social_app;
mod test_options;
mod demo_script;
mod server;

#[cfg(test)]
pub(crate) use demo_script::events;
pub(crate) use server::{router, serve};

/// The protocol of a demo agent, and for HAI the format of its text deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemoAgent {
    /// HAI with plain strings as text deltas (seed 3.3.1). Its thinking is still an `output` object, since a string has no
    /// kind.
    HaiString,
    /// HAI with `{"output": …}` blocks as all deltas (seed 4.1 and 4.2).
    HaiBlocks,
    /// AG-UI 1.0.
    AgUi,
    /// AG-UI 0.x, with thinking without ids.
    AgUi0,
    /// AG-UI with snake_case ids and its own vocabulary (seed 002).
    AgUiSnake,
    /// CloudBase (seed 003).
    Cloudbase,
    /// social-app (seed 004). Its text is sent in one event at the end, so options on text pieces show only then.
    SocialApp,
}
