//! Makes the request of an agent whose dialect is described by a file.

use super::template::{ValueScope, join_text_parts};
use super::{Mapping, ThreadValues};
use crate::codec::json;
use crate::event::{Field, Json, get, input};
use std::cell::Cell;

/// A request as the agent gets it.
#[derive(Debug)]
pub(crate) struct MappedRequest {
    pub(crate) body: Json<'static>,
    /// messages and other elements of lists for which the template has no form
    pub(crate) left_out: u64,
}

impl Mapping {
    /// Makes the request from AG-UI's. Returns `None` if the file has no template for it.
    pub(crate) fn make_request(&self, input: &Json<'_>, thread: &ThreadValues) -> Option<MappedRequest> {
        let template = self.request.as_ref()?;
        let text = last_user_text(input);
        let slots = self.request_paths.read(input.as_borrowed());
        let left_out = Cell::new(0);
        let scope = ValueScope {
            slots: &slots,
            thread,
            user_text: text.as_deref(),
            left_out: Some(&left_out),
            ..ValueScope::default()
        };
        let body = template.make(&scope)?.into_owned();
        Some(MappedRequest { body, left_out: left_out.get() })
    }
}

/// Returns the text of the last user message; its text parts are joined with line feeds.
fn last_user_text(request: &Json<'_>) -> Option<String> {
    let messages = json::parse_member(request, Field::Messages.camel())?;
    let messages = json::parse_elements(&messages)?;
    let last = messages
        .iter()
        .rev()
        .find_map(|message| json::parse_message(message).filter(|message| input::has_role(message, input::USER)))?;
    let content = get(&last, Field::Content)?;
    content.text().map(Into::into).or_else(|| join_text_parts(content))
}
