//! Demo agents without a model: one fixed conversation in every dialect.
//!
//! `diglot demo`, the end-to-end tests and the load tests use them. `conversation` has the content, which is the same
//! for every agent. Each dialect's folder has a file `demo_agent.txt` with its events, exactly as an agent of that
//! protocol prints them; [`router`] serves an agent over HTTP.
//!
//! # Agent files
//! Each line is the name of an event of the conversation, a space, and the event's JSON. An event without a line is not
//! sent. `text_block` replaces `text` for an agent that writes blocks, and `call_arguments` comes after all
//! `call_arguments_piece`. Lines that begin with `#` are comments. Placeholders:
//!
//! | placeholder | value |
//! |---|---|
//! | `$thread` `$run` `$message` `$call` `$thinking` | ids, as JSON strings |
//! | `$value` | the piece of text or arguments, or the status, as a JSON string |
//! | `$json` | the arguments, as JSON |
//! | `$whole_text` | the text so far, as a JSON string |
//! | `$now_ms` `$now_s` | ms and seconds since the epoch |
//!
//! # The conversation
//! The first request is answered with some thinking, text, and a call of the front-end tool `confirmAction`. The
//! request with the tool's result (its last message has the role `tool`) is answered with "deployed" or "cancelled".
//! Ids derive from the run id: the message is `msg-<runId>`, the call `call-<runId>`, the AG-UI reasoning
//! `think-<runId>`.
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
//! | `"fail": "html"` | answers 200 with a `text/html` page, like a login wall or a misrouted proxy |
//!
//! `fail` overrides `idle`; both combine with `events`. Invalid options are answered with 400, because a test proves
//! nothing if its option is ignored. An agent that a dialect file describes ([`ExampleAgent`]) has the user's last text
//! in place of `forwardedProps`, which few APIs have.

mod conversation;
mod demo_ids;
mod test_options;
mod demo_script;
mod server;
mod replay_agent;
mod example_agent;

/// The routes of an agent.
pub(crate) type AgentRouter = axum::Router;

pub(crate) use example_agent::{
    AgentExample, ExampleAgent, ExampleAnswer, ExampleOutcome, UserTextPlace, example_router,
};
pub(crate) use replay_agent::{ReplayEnding, ReplayScript, replay_router};
pub(crate) use server::{router, serve};
