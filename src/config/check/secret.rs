//! Values that no message may repeat, and files that the configuration names.

use std::path::PathBuf;

use super::{Check, Position, position, shown};
use crate::config::file::Text;
use crate::config::load;
use crate::config::scalar::{self, Fault};
use crate::config::variable::{Failure, expand};

impl Check<'_> {
    /// A text that is shown to nobody.
    pub(super) fn secret(&mut self, written: &str, path: &str, place: Option<Position>) -> Option<String> {
        const FORM: &str = "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";
        let (message, hint) = match expand(written, self.source.with.lookup) {
            Ok(read) if !read.text.is_empty() => return Some(read.text),
            Ok(_) => ("the value is empty".to_owned(), "write one, or take the key away".to_owned()),
            Err(Failure::Unset(name)) => {
                let hint = format!("set it where Diglot is started: `{name}`");
                (format!("the environment variable `{name}` is not set"), hint)
            }
            // What stands between the braces may be a piece of the secret.
            Err(Failure::Unclosed | Failure::Malformed(_)) => {
                ("`${` in the value names no variable".to_owned(), FORM.to_owned())
            }
        };
        self.note(path, place, message, hint);
        None
    }

    /// Reads a value that is shown to nobody.
    pub(super) fn secret_value<T>(&mut self, text: &Text, path: &str, read: fn(&str) -> Result<T, Fault>) -> Option<T> {
        let secret = self.secret(&text.value, path, position(text.defined))?;
        match read(&secret) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.note(path, position(text.defined), format!("the value {}", fault.is), fault.hint);
                None
            }
        }
    }

    /// A file that the configuration names, and what is in it now. A relative name starts at the configuration's folder.
    pub(super) fn file(&mut self, text: &Text, path: &str) -> Option<(PathBuf, Vec<u8>)> {
        let file = self.file_name(text, path)?;
        match load::bytes(&file) {
            Ok(bytes) => Some((file, bytes)),
            Err(why) => {
                let shown = shown(&text.value, text.value.contains("${"));
                const HINT: &str = "name a file that this user may read, of at most 1 MiB; a relative name starts at the \
                                    folder of the configuration";
                self.note(path, position(text.defined), format!("{shown} {why}"), HINT);
                None
            }
        }
    }

    pub(super) fn file_name(&mut self, text: &Text, path: &str) -> Option<PathBuf> {
        self.value(text, path, scalar::file).map(|file| self.source.with.base.join(file))
    }
}
