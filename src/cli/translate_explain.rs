//! What happened to each event, in words: the lines of `translate --explain`.

use super::recording::Place;
use crate::dialect::Dialect;
use crate::translate::trace::Note;
use crate::translate::{Loss, Repair};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most names that one line lists of a kind; the rest is counted.
const SHOWN: usize = 12;

/// Gathers what the summary says.
#[derive(Debug, Default)]
pub(super) struct Explain {
    read: usize,
    written: usize,
    carried: BTreeMap<String, u64>,
    repairs: [u64; Repair::ALL.len()],
    losses: [u64; Loss::ALL.len()],
}

/// What the notes about one event say, sorted.
#[derive(Default)]
struct Sorted {
    read: Option<String>,
    canonical: Vec<&'static str>,
    written: Vec<String>,
    /// members, and the key under which they travel
    carried: Vec<(Vec<String>, String)>,
    repairs: Vec<&'static str>,
    losses: Vec<&'static str>,
}

impl Explain {
    /// The line about one event, or about the end of the input, to be put behind the name of the file.
    pub fn line(&mut self, place: Option<Place>, notes: &[Note], agent: &Dialect) -> Option<String> {
        if notes.is_empty() && place.is_none() {
            return None;
        }
        let sorted = self.sort(notes, agent);
        let mut line = match place {
            Some(place) => place.to_string(),
            None => ": the end of the input".to_owned(),
        };
        match sorted.read {
            Some(read) => line.push_str(&read),
            None if place.is_some() => line.push_str(" without a type"),
            None => {}
        }
        line.push(':');
        // Writing into memory cannot fail.
        let _ = match (sorted.canonical.as_slice(), sorted.written.as_slice()) {
            ([], []) if sorted.losses.is_empty() => write!(line, " held until more is known"),
            ([], []) => write!(line, " nothing written"),
            (canonical, []) => write!(line, " read as {}, nothing written", list(canonical)),
            (canonical, written) if canonical.iter().eq(written) => write!(line, " written as {}", list(written)),
            ([], written) => write!(line, " written as {}", list(written)),
            (canonical, written) => write!(line, " read as {}, written as {}", list(canonical), list(written)),
        };
        for (names, home) in &sorted.carried {
            let _ = write!(line, "; carried {} in {home}", list(names));
        }
        for (word, names) in [("repaired", &sorted.repairs), ("lost", &sorted.losses)] {
            if !names.is_empty() {
                let _ = write!(line, "; {word}: {}", list(names));
            }
        }
        Some(line)
    }

    fn sort(&mut self, notes: &[Note], agent: &Dialect) -> Sorted {
        let mut sorted = Sorted::default();
        for note in notes {
            match note {
                Note::Read(wire, row) => {
                    self.read += 1;
                    let row = row.map(|row| format!(", {}", row.seed)).unwrap_or_default();
                    sorted.read = Some(format!(" {} ({}{row})", shown(wire), agent.name));
                }
                Note::Canonical(kind, names, home) => {
                    sorted.canonical.push(kind.wire());
                    self.carry(names, home, &mut sorted);
                }
                Note::Passed(_, names, home) => self.carry(names, home, &mut sorted),
                Note::Written(wire, names, home) => {
                    self.written += 1;
                    sorted.written.push(shown(wire));
                    self.carry(names, home, &mut sorted);
                }
                Note::Repair(repair) => {
                    self.repairs[*repair as usize] += 1;
                    sorted.repairs.push(repair.label());
                }
                Note::Loss(loss) => {
                    self.losses[*loss as usize] += 1;
                    sorted.losses.push(loss.label());
                }
            }
        }
        sorted
    }

    fn carry(&mut self, names: &[String], home: &str, sorted: &mut Sorted) {
        if names.is_empty() {
            return;
        }
        for name in names {
            *self.carried.entry(shown(name)).or_default() += 1;
        }
        let group = (names.iter().map(|name| shown(name)).collect(), home.to_owned());
        if !sorted.carried.contains(&group) {
            sorted.carried.push(group);
        }
    }

    /// The last line.
    pub fn summary(&self) -> String {
        let repairs = Repair::ALL.iter().map(|one| (one.label(), self.repairs[*one as usize]));
        let losses = Loss::ALL.iter().map(|one| (one.label(), self.losses[*one as usize]));
        format!(
            "{} event(s) in, {} out; carried: {}; repaired: {}; lost: {}",
            self.read,
            self.written,
            counted(self.carried.iter().map(|(name, count)| (name.as_str(), *count))),
            counted(repairs),
            counted(losses)
        )
    }
}

/// Names with their counts; "nothing" where there are none.
pub(super) fn counted<'n>(all: impl Iterator<Item = (&'n str, u64)>) -> String {
    let some: Vec<String> =
        all.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
    if some.is_empty() { "nothing".to_owned() } else { list(&some) }
}

/// A text from outside, short and on one line.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(64).collect()
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let (said, rest) = names.split_at(names.len().min(SHOWN));
    let said: Vec<&str> = said.iter().map(AsRef::as_ref).collect();
    match rest.len() {
        0 => said.join(", "),
        more => format!("{} and {more} more", said.join(", ")),
    }
}
