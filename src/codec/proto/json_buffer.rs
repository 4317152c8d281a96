//! JSON text with a size limit.

use super::MessageError;
use crate::event::{Json, needs_no_escape};

#[derive(Debug)]
pub(super) struct JsonBuffer {
    out: String,
    limit: usize,
    pub(crate) dropped: usize,
}

impl JsonBuffer {
    pub(crate) fn new(limit: usize) -> Self {
        JsonBuffer { out: String::new(), limit, dropped: 0 }
    }

    pub(crate) fn push(&mut self, piece: &str) -> Result<(), MessageError> {
        if self.out.len() + piece.len() > self.limit {
            return Err(MessageError::TooLarge);
        }
        self.out.push_str(piece);
        Ok(())
    }

    pub(crate) fn string(&mut self, text: &str) -> Result<(), MessageError> {
        if needs_no_escape(text) {
            self.push("\"")?;
            self.push(text)?;
            return self.push("\"");
        }
        self.push(Json::string(text).as_str())
    }

    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.out
    }

    pub(crate) fn into_string(self) -> String {
        self.out
    }

    /// Writes a member name, with a comma before all but the first.
    pub(crate) fn write_name(&mut self, name: &str) -> Result<(), MessageError> {
        if !self.out.ends_with('{') {
            self.push(",")?;
        }
        self.push("\"")?;
        self.push(name)?;
        self.push("\":")
    }
}
