//! The last step of a request for an agent whose dialect is described by a file: its own form of AG-UI's body.

use super::request_refusal::RequestRefusal;
use crate::dialect::{PeerDialect, RequestFault, RequestTarget, ThreadState};
use crate::event::{EventLoss, Json, LossCounts};

/// A body, and what comes with it.
pub(super) struct MappedBody {
    pub(super) body: String,
    pub(super) target: RequestTarget,
}

/// Makes the agent's body from AG-UI's, which other agents get as it is.
pub(super) fn map_body(
    body: String,
    agent: PeerDialect,
    thread: &mut ThreadState,
    losses: &mut LossCounts,
) -> Result<MappedBody, RequestRefusal> {
    let target = RequestTarget::default();
    let Some(mapping) = agent.dialect.mapping else { return Ok(MappedBody { body, target }) };
    let own = mapping.make_request(&Json::from_trusted(&*body), thread);
    let own = own.map_err(|fault| match fault {
        RequestFault::ConversationLost => RequestRefusal::conversation_lost(),
        RequestFault::Unsendable(reason) => RequestRefusal::malformed("", reason),
    })?;
    let Some(own) = own else { return Ok(MappedBody { body, target }) };
    losses[EventLoss::Downgraded as usize] += own.left_out;
    // An agent that gets all messages needs nothing from earlier runs.
    thread.is_lost &= own.reads_thread;
    Ok(MappedBody { body: own.body.map_or(body, |own| own.as_str().to_owned()), target: own.target })
}
