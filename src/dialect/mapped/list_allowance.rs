//! Limits what a file makes of a frame, of a request, and of all frames of a run.

use crate::codec::json;
use crate::dialect::memory_limits::ELEMENTS_LIMIT;
use crate::event::Json;
use std::cell::Cell;

/// Limits the elements of all lists of a frame or a request, and what is copied into what is made. A file may put a
/// long value into many places or into each element of a list, and may append a value to itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListAllowance {
    elements: Cell<usize>,
    bytes: Cell<usize>,
    /// `bytes` at the beginning
    granted: usize,
    is_exceeded: Cell<bool>,
}

/// Bytes that any frame or request may become.
const ALLOWED_BYTES: usize = 16 << 20;

/// Multiple of the length of a longer one.
const ALLOWED_GROWTH: usize = 3;

impl ListAllowance {
    /// Creates that of a frame or request of this length.
    pub(super) const fn new(length: usize) -> Self {
        let bytes = ALLOWED_BYTES.saturating_add(length.saturating_mul(ALLOWED_GROWTH));
        ListAllowance {
            elements: Cell::new(ELEMENTS_LIMIT),
            bytes: Cell::new(bytes),
            granted: bytes,
            is_exceeded: Cell::new(false),
        }
    }

    pub(super) const fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    /// Returns the bytes of what was made.
    fn made_bytes(&self) -> usize {
        self.granted.saturating_sub(self.bytes.get())
    }

    /// Takes what is copied. Nothing more may be made once there was too much.
    pub(super) fn take_bytes(&self, bytes: usize) -> bool {
        self.take(&self.bytes, bytes)
    }

    /// Takes the elements of a list apart, unless there are too many.
    pub(super) fn elements<'l>(&self, list: &'l Json<'_>) -> Vec<Json<'l>> {
        match self.take(&self.elements, json::count_elements(list)) {
            true => json::parse_elements(list).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    fn take(&self, from: &Cell<usize>, amount: usize) -> bool {
        match from.get().checked_sub(amount) {
            Some(left) => from.set(left),
            None => self.is_exceeded.set(true),
        }
        !self.is_exceeded()
    }
}

/// Bytes that may be made of the frames of a run, however small they are: rules may use a long value that the run keeps
/// with each frame.
const RUN_BYTES: usize = 1024 << 20;

/// Multiple of what the agent has sent.
const RUN_GROWTH: usize = 16;

/// Limits what is made in a run.
#[derive(Debug, Default)]
pub(super) struct RunAllowance {
    read: usize,
    made: usize,
}

impl RunAllowance {
    /// Adds a frame of this length, and what was made of it.
    pub(super) fn add_frame(&mut self, length: usize, lists: &ListAllowance) {
        self.read = self.read.saturating_add(length);
        self.made = self.made.saturating_add(lists.made_bytes());
    }

    pub(super) const fn is_exceeded(&self) -> bool {
        self.made > RUN_BYTES.saturating_add(self.read.saturating_mul(RUN_GROWTH))
    }
}
