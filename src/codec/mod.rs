//! Bytes ⇄ frames ⇄ members: the event-stream framing and the JSON payload, as independent parts.

pub mod json;
pub mod sse;
