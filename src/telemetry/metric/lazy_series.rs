//! Series that are made when something is first counted with them: there may be hundreds of them, of which a process sees a
//! dozen.

use super::cell::Cell;
use super::family::Family;
use crate::dialect::Dialect;
use std::fmt;
use std::sync::OnceLock;

/// A closed list of labels.
pub(super) trait Names: fmt::Debug + Send + Sync {
    /// All of them, in their order.
    fn all(&self) -> Vec<&'static str>;
}

impl Names for fn() -> Vec<&'static str> {
    fn all(&self) -> Vec<&'static str> {
        self()
    }
}

impl Names for &'static Dialect {
    fn all(&self) -> Vec<&'static str> {
        self.labels()
    }
}

/// Series of a metric that differ in their last label alone.
pub(super) struct Lazy<N, M> {
    family: Family<M>,
    /// the values of the labels before the last
    before: Box<[Box<str>]>,
    names: N,
    cells: OnceLock<Box<[OnceLock<M>]>>,
}

impl<N: Names, M: Cell> Lazy<N, M> {
    pub(super) fn new(family: &Family<M>, before: &[&str], names: N) -> Self {
        let before = before.iter().map(|&value| value.into()).collect();
        Lazy { family: family.clone(), before, names, cells: OnceLock::new() }
    }

    /// The series of the label at that place in the list. It exists from now on.
    pub(super) fn at(&self, place: usize) -> &M {
        let cells = self.cells.get_or_init(|| self.names.all().iter().map(|_| OnceLock::new()).collect());
        cells[place].get_or_init(|| {
            let mut values: Vec<&str> = self.before.iter().map(|value| &**value).collect();
            values.push(self.names.all()[place]);
            self.family.with(&values)
        })
    }

    /// Makes all of them.
    pub(super) fn made(self) -> Self {
        (0..self.names.all().len()).for_each(|place| {
            self.at(place);
        });
        self
    }
}

impl<N, M> fmt::Debug for Lazy<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").field("before", &self.before).finish_non_exhaustive()
    }
}
