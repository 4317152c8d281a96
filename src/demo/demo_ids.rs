//! Ids for a demo agent's run.

use super::conversation::messages;
use serde_json::Value;

/// The ids of one run, as quoted JSON strings.
#[derive(Clone, Debug)]
pub(super) struct DemoIds {
    pub(crate) thread: String,
    pub(crate) run: String,
    pub(crate) message: String,
    pub(crate) call: String,
    pub(crate) thinking: String,
}

impl DemoIds {
    /// Reads the ids from a request. A missing run id is derived from the length of the conversation, so that each
    /// turn's messages and calls have different ids.
    pub(super) fn from_request(input: &Value) -> Self {
        let id = |names: [&str; 2]| names.into_iter().find_map(|name| input.get(name).and_then(Value::as_str));
        let turn = messages(input).len();
        let run = id(["runId", "run_id"]).map_or_else(|| format!("run-{turn}"), str::to_owned);
        Self {
            thread: json_string(id(["threadId", "thread_id"]).unwrap_or("thread")),
            message: json_string(&format!("msg-{run}")),
            call: json_string(&format!("call-{run}")),
            thinking: json_string(&format!("think-{run}")),
            run: json_string(&run),
        }
    }
}

/// Formats a JSON string without escaping non-ASCII characters (`ensure_ascii=False` in seed 4.2).
pub(super) fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}
