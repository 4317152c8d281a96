//! Events that AG-UI 1.0 retired and its client still understands (`specs/ag-ui-1.0.md` §1.3).
//!
//! They carry no ids. The client turns each into the event of reasoning that it was, with ids that it makes up itself.

use super::Kind;
use super::run::Move;

/// A retired event: what it is now, and what it does to the span or message that has no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// value of `type`
    pub wire: &'static str,
    /// the event that it became
    pub kind: Kind,
    /// whether it opens, uses or closes what it speaks of
    pub step: Move,
    /// whether it speaks of the message inside the span
    pub message: bool,
}

/// Every retired event.
pub const ALL: &[Retired] = &[
    Retired { wire: "THINKING_START", kind: Kind::ReasoningStart, step: Move::Open, message: false },
    Retired { wire: "THINKING_TEXT_MESSAGE_START", kind: Kind::ReasoningMessageStart, step: Move::Open, message: true },
    Retired {
        wire: "THINKING_TEXT_MESSAGE_CONTENT",
        kind: Kind::ReasoningMessageContent,
        step: Move::Use,
        message: true,
    },
    Retired { wire: "THINKING_TEXT_MESSAGE_END", kind: Kind::ReasoningMessageEnd, step: Move::Close, message: true },
    Retired { wire: "THINKING_END", kind: Kind::ReasoningEnd, step: Move::Close, message: false },
];

/// The retired event that is written `wire`.
#[must_use]
pub fn by_wire(wire: &str) -> Option<&'static Retired> {
    ALL.iter().find(|retired| retired.wire == wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::run::Item;

    #[test]
    fn none_is_current_and_each_does_what_its_successor_does() {
        for retired in ALL {
            assert_eq!(Kind::from_wire(retired.wire), None);
            let (item, step, _) = Item::touched_by(retired.kind).expect("a boundary or a piece");
            assert_eq!((step, item == Item::ReasoningMessage), (retired.step, retired.message), "{}", retired.wire);
        }
    }
}
