//! Values that no message may repeat, and files that the configuration names.

use std::path::PathBuf;

use super::{ConfigChecker, SourcePosition, position};
use crate::config::file::{Scalar, Text};
use crate::config::scalar::{self, ScalarError};
use crate::config::schema::kind;
use crate::config::substitution::{SubstitutionError, expand};
use crate::net::read_file::read_regular_file;

impl ConfigChecker<'_> {
    /// Replaces the variables of a secret. Messages name the key, never its value.
    pub(super) fn read_secret<K>(
        &mut self,
        written: &Text<K>,
        path: &str,
        place: Option<SourcePosition>,
    ) -> Option<String> {
        const REFERENCE_HINT: &str =
            "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";
        let (message, hint) = match expand(written.expose_secret(), self.source.context.lookup) {
            Ok(read) if !read.text.is_empty() => return Some(read.text),
            Ok(_) => ("the value is empty".to_owned(), "write a value or remove the key".to_owned()),
            Err(SubstitutionError::Unset(name)) => {
                let hint = format!("set it where Diglot is started: `{name}`");
                (format!("the environment variable `{name}` is not set"), hint)
            }
            // The text between the braces may be part of the secret.
            Err(SubstitutionError::Unclosed | SubstitutionError::Malformed(_)) => {
                ("`${` in the value is not followed by a valid variable name".to_owned(), REFERENCE_HINT.to_owned())
            }
        };
        self.report_error(path, place, message, hint);
        None
    }

    pub(super) fn parse_secret<T, K>(
        &mut self,
        text: &Scalar<K>,
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        let secret = self.read_secret(&text.value, path, position(text.defined))?;
        match read(&secret) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.report_error(path, position(text.defined), format!("the value {}", fault.predicate), fault.hint);
                None
            }
        }
    }

    /// A file that the configuration names, and what is in it now. A relative name starts at the configuration's folder.
    pub(super) fn read_named_file(&mut self, text: &Scalar<kind::FileName>, path: &str) -> Option<(PathBuf, Vec<u8>)> {
        let file = self.resolve_file_name(text, path)?;
        match read_regular_file(&file) {
            Ok(bytes) => Some((file, bytes)),
            Err(why) => {
                // The name is not quoted: it may be the secret itself, in place of the file that contains it.
                const HINT: &str = "name a file that this user may read, of at most 1 MiB; a relative name starts at the \
                                    directory of the configuration";
                self.report_error(path, position(text.defined), format!("the file {why}"), HINT);
                None
            }
        }
    }

    pub(super) fn resolve_file_name(&mut self, text: &Scalar<kind::FileName>, path: &str) -> Option<PathBuf> {
        self.read_value(text, path, scalar::parse_file_name).map(|file| self.source.context.base_dir.join(file))
    }
}
