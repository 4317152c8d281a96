//! Searches all states that a protocol can reach, breadth first, so that the first violation has the shortest trace.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

/// A protocol as states and steps.
pub trait Protocol {
    type State: Clone + Eq + Hash;

    fn first_state(&self) -> Self::State;

    /// Returns every step that is possible. Steps that change nothing may be left out.
    fn steps(&self, from: &Self::State) -> Vec<Step<Self::State>>;

    /// Returns the property that the state violates.
    fn violation(&self, state: &Self::State) -> Option<&'static str>;

    /// Returns whether nothing is left to do. Every state must be able to get there by calm steps.
    fn is_at_rest(&self, state: &Self::State) -> bool;
}

pub struct Step<S> {
    pub actor: &'static str,
    pub action: &'static str,
    pub next: S,
    /// whether it happens by itself: neither a fault nor a decision of a client or an operator
    pub calm: bool,
}

/// A property that does not hold, and the shortest way there.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub property: &'static str,
    trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "violated: {}", self.property)?;
        self.trace.iter().enumerate().try_for_each(|(at, step)| writeln!(f, "{:4}. {step}", at + 1))
    }
}

pub const NEVER_ENDS: &str = "nothing stays for ever: without further requests and faults, everything ends";

/// How a state was reached first.
#[derive(Clone, Copy)]
struct Origin {
    from: usize,
    actor: &'static str,
    action: &'static str,
}

/// Visits every state, at most `limit`. Returns their number.
pub fn search<P: Protocol>(protocol: &P, limit: usize) -> Result<usize, Violation> {
    let first = protocol.first_state();
    let mut indices = HashMap::from([(first.clone(), 0)]);
    let mut origins = vec![Origin { from: 0, actor: "", action: "" }];
    let mut calm_predecessors: Vec<Vec<usize>> = vec![Vec::new()];
    let mut rests = vec![protocol.is_at_rest(&first)];
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((at, state)) = queue.pop_front() {
        if let Some(property) = protocol.violation(&state) {
            return Err(Violation { property, trace: trace(&origins, at) });
        }
        for Step { actor, action, next, calm } in protocol.steps(&state) {
            let known = indices.get(&next).copied();
            let index = known.unwrap_or(origins.len());
            if known.is_none() {
                origins.push(Origin { from: at, actor, action });
                calm_predecessors.push(Vec::new());
                rests.push(protocol.is_at_rest(&next));
                indices.insert(next.clone(), index);
                queue.push_back((index, next));
            }
            if calm {
                calm_predecessors[index].push(at);
            }
        }
        assert!(origins.len() <= limit, "more than {limit} states: make the scenario smaller");
    }
    match find_endless(&calm_predecessors, &rests) {
        Some(endless) => Err(Violation { property: NEVER_ENDS, trace: trace(&origins, endless) }),
        None => Ok(origins.len()),
    }
}

/// Returns the first state from which no calm steps lead to a state of rest.
fn find_endless(calm_predecessors: &[Vec<usize>], rests: &[bool]) -> Option<usize> {
    let mut ends = rests.to_vec();
    let mut queue: Vec<usize> = (0..rests.len()).filter(|index| rests[*index]).collect();
    while let Some(index) = queue.pop() {
        for &before in &calm_predecessors[index] {
            if !std::mem::replace(&mut ends[before], true) {
                queue.push(before);
            }
        }
    }
    ends.iter().position(|ends| !ends)
}

fn trace(origins: &[Origin], mut at: usize) -> Vec<String> {
    let mut steps = Vec::new();
    while at > 0 {
        let Origin { from, actor, action } = origins[at];
        steps.push(format!("{actor} {action}"));
        at = from;
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts to three, and may jump to a number from which nothing leads on.
    struct Counter {
        forbidden: u8,
        jumps: bool,
    }

    impl Protocol for Counter {
        type State = u8;

        fn first_state(&self) -> u8 {
            0
        }

        fn steps(&self, from: &u8) -> Vec<Step<u8>> {
            let count = (*from < 3).then(|| Step { actor: "it", action: "counts", next: from + 1, calm: true });
            let jump =
                (self.jumps && *from == 1).then_some(Step { actor: "it", action: "jumps", next: 9, calm: false });
            count.into_iter().chain(jump).collect()
        }

        fn violation(&self, state: &u8) -> Option<&'static str> {
            (*state == self.forbidden).then_some("not this number")
        }

        fn is_at_rest(&self, state: &u8) -> bool {
            *state == 3
        }
    }

    #[test]
    fn finds_the_shortest_trace_and_states_that_never_end() {
        assert_eq!(search(&Counter { forbidden: 7, jumps: false }, 10), Ok(4));
        let found = search(&Counter { forbidden: 2, jumps: false }, 10).expect_err("2 is reached");
        assert_eq!(found.trace, ["it counts", "it counts"]);
        let found = search(&Counter { forbidden: 7, jumps: true }, 10).expect_err("9 is no rest");
        assert_eq!((found.property, found.trace), (NEVER_ENDS, vec!["it counts".to_owned(), "it jumps".to_owned()]));
    }
}
