//! Agents to try the gateway with: no model behind them, one fixed conversation, spoken in any of the dialects.
//!
//! They serve the first minute (`diglot demo` has something to talk to), the end-to-end tests and the load tests.
//! What they say stands in `conversation` and is the same for every agent; how an agent says it stands in a file per
//! dialect, each printing an event exactly as an agent of that protocol does; [`router`] puts one on HTTP.
//!
//! # The conversation
//! A first request gets some thinking, a text, and a call of the front-end tool `confirmAction`. The request that
//! answers it (its last message has the role `tool`) gets "deployed" or "cancelled". Ids come from the request's run
//! id: the message is `msg-<runId>`, the call `call-<runId>`, the AG-UI reasoning `think-<runId>`.
//!
//! # Test levers
//! Tests ask for a size or a failure in the request itself, as members of `forwardedProps.diglot`. A gateway passes
//! `forwardedProps` on untouched, so a test behind one has the same levers as a test without:
//!
//! | member | what the agent does |
//! |---|---|
//! | `"events": N` | its text is N pieces `第i段 ` (i from 1) in place of the scripted ones; they are produced as the client reads |
//! | `"idle": true` | says its first text piece, then nothing until the client leaves |
//! | `"fail": "truncate"` | ends the body cleanly after the first text piece, without an end of the run |
//! | `"fail": "reset"` | breaks the connection after the first text piece, inside the chunked body |
//! | `"fail": "error"` | says RUN_ERROR after the first text piece and ends |
//! | `"fail": "status"` | answers 503 with `{"error":{"message":"model overloaded"}}` and `Retry-After: 7` |
//! | `"fail": "html"` | answers 200 with a page of `text/html`, as a login wall or a misrouted proxy does |
//!
//! `fail` wins over `idle`; both combine with `events`. A lever that is not understood is answered with 400, because
//! a test whose lever is silently ignored proves nothing.

mod ag_ui;
mod ag_ui_0;
mod ag_ui_snake;
mod assembler;
mod cloudbase;
mod conversation;
mod demo_script;
mod hai;
mod server;
mod social_app;
mod test_options;

#[cfg(test)]
pub(crate) use demo_script::events;
pub(crate) use server::{router, serve};

/// Which agent is played: the protocol, and for HAI the form of its text deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemoAgent {
    /// HAI whose text deltas are plain strings (seed 3.3.1). Its thinking is still an `output` object, since a
    /// string cannot say what kind of text it is.
    HaiString,
    /// HAI whose deltas are all `{"output": …}` blocks (seed 4.1 and 4.2).
    HaiBlocks,
    /// AG-UI 1.0.
    AgUi,
    /// AG-UI 0.x, with thinking that has no ids.
    AgUi0,
    /// AG-UI with snake_case ids and words of its own (seed 002).
    AgUiSnake,
    /// CloudBase (seed 003).
    Cloudbase,
    /// social-app (seed 004). Its text comes whole at the end, so a test's levers on text pieces are not seen before that.
    SocialApp,
}
