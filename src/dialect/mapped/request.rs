//! Makes the request of an agent whose dialect is described by a file.

use super::answered_calls::AnsweredCalls;
use super::list_allowance::ListAllowance;
use super::message_reasoning::MessageReasoning;
use super::request_target::RequestTarget;
use super::template::{LeftOutElements, ValueScope, join_text_parts};
use super::{Mapping, ThreadState};
use crate::codec::json;
use crate::event::{Field, Json, get, input};

const TOO_LONG: &str = "The lists of this request have too many elements, or become too long in the form of the agent.";

const NO_TEMPLATE: &str =
    "The agent has no request for this: none of those in its dialect file is for messages like these.";

/// The reason why a request cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestFault {
    /// The file has no request without what earlier runs of the thread kept, and nothing is.
    ConversationLost,
    Unsendable(String),
}

/// A request as the agent gets it.
#[derive(Debug)]
pub(crate) struct MappedRequest {
    /// `None` for AG-UI's
    pub(crate) body: Option<Json<'static>>,
    pub(crate) target: RequestTarget,
    /// messages and other elements of lists for which the template has no form
    pub(crate) left_out: u64,
    /// whether it has a value that earlier runs of the thread kept
    pub(crate) reads_thread: bool,
}

impl Mapping {
    /// Returns whether the file has requests, but none for this one of AG-UI.
    pub(crate) fn lacks_request(&self, input: &Json<'_>) -> bool {
        let made = self.make_request(input, &ThreadState::default());
        matches!(made, Err(RequestFault::Unsendable(reason)) if reason == NO_TEMPLATE)
    }

    /// Returns whether the URL of the request for this one of AG-UI has a value that only an earlier run keeps.
    pub(crate) fn needs_earlier_run(&self, input: &Json<'_>) -> bool {
        let thread = ThreadState { is_lost: true, ..ThreadState::default() };
        matches!(self.make_request(input, &thread), Err(RequestFault::ConversationLost))
    }

    /// Makes the request from AG-UI's. Returns `None` if the file has no template for it. Fails with the reason if none
    /// of its templates is for this request, or a value cannot be sent.
    pub(crate) fn make_request(
        &self,
        input: &Json<'_>,
        thread: &ThreadState,
    ) -> Result<Option<MappedRequest>, RequestFault> {
        if self.requests.is_empty() {
            return Ok(None);
        }
        let messages = json::parse_member(input, Field::Messages.camel());
        let messages = messages.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let new = NewInput::find(&messages);
        let slots = self.request_paths.read(input.as_str());
        let answered_calls = AnsweredCalls::new(&messages);
        let reasoning = MessageReasoning::new(&messages);
        let left_out = LeftOutElements::new(new.plain_user.map(|at| messages[at].as_str()));
        let lists = ListAllowance::new(input.as_str().len());
        let scope = ValueScope {
            slots: &slots,
            thread: &thread.values,
            user_text: new.user_text.as_deref(),
            new_messages: &messages[new.first..],
            answered_calls: Some(&answered_calls),
            reasoning: Some(&reasoning),
            left_out: Some(&left_out),
            lists: Some(&lists),
            ..ValueScope::default()
        };
        let template = self.requests.iter().find(|template| scope.holds(&template.conditions));
        let template = template.ok_or_else(|| match thread.is_lost {
            true => RequestFault::ConversationLost,
            false => RequestFault::Unsendable(NO_TEMPLATE.to_owned()),
        })?;
        let target = template.target.make(&scope, &self.thread_names).map_err(|fault| {
            match thread.is_lost && fault.lacks_kept {
                true => RequestFault::ConversationLost,
                false => RequestFault::Unsendable(fault.reason),
            }
        })?;
        let body = template.body.as_ref().and_then(|body| body.make(&scope)).map(Json::into_owned);
        if lists.is_exceeded() {
            return Err(RequestFault::Unsendable(TOO_LONG.to_owned()));
        }
        Ok(Some(MappedRequest {
            body,
            target,
            left_out: left_out.total(&reasoning),
            reads_thread: template.reads_thread,
        }))
    }
}

/// The client's part of a conversation since the last answer.
struct NewInput {
    /// text of the last user message; its text parts are joined with line feeds
    user_text: Option<String>,
    /// position of that message, if its content is text alone
    plain_user: Option<usize>,
    /// position of the first message after the last one of the assistant
    first: usize,
}

impl NewInput {
    fn find(messages: &[Json<'_>]) -> Self {
        let mut new = NewInput { user_text: None, plain_user: None, first: 0 };
        let mut has_user = false;
        for (at, message) in messages.iter().enumerate().rev() {
            let Some(message) = json::parse_message(message) else { continue };
            if !has_user && input::has_role(&message, input::USER) {
                has_user = true;
                let content = get(&message, Field::Content);
                new.plain_user = content.and_then(Json::text).map(|_| at);
                new.user_text = content.and_then(|own| own.text().map(Into::into).or_else(|| join_text_parts(own)));
            }
            if new.first == 0 && input::has_role(&message, input::ASSISTANT) {
                new.first = at + 1;
            }
            if has_user && new.first > 0 {
                break;
            }
        }
        new
    }
}
