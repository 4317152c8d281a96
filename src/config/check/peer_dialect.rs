//! What clients and agents speak: dialects and their options.

use serde_saphyr::Spanned;

use super::{Check, Named, Position, position, quoted};
use crate::config::file::{self, SideMapping, Text};
use crate::config::problem::{did_you_mean, nearest};
use crate::config::{scalar, slip};
use crate::dialect::{self, Dialect, Set, Side};

impl Check<'_> {
    pub(super) fn side(&mut self, written: &Spanned<file::Side>, at: &str) -> Option<Side> {
        match &written.value {
            file::Side::Name(name) if name == dialect::AUTO => Some(Side::auto()),
            file::Side::Name(name) => self.dialect(name, at, position(written.defined)).map(Side::new),
            file::Side::Mapping(mapping) => {
                let name = self.required(mapping.dialect.as_ref(), at, "dialect", position(written.defined))?;
                let path = format!("{at}.dialect");
                if name.value == dialect::AUTO {
                    let key = at.rsplit('.').next().unwrap_or(at);
                    let hint = format!("write `{key}: {}`", dialect::AUTO);
                    self.note(&path, position(name.defined), format!("`{}` takes no options", dialect::AUTO), hint);
                    return None;
                }
                let dialect = self.dialect(&name.value, &path, position(name.defined))?;
                self.options(dialect, mapping, at)
            }
        }
    }

    fn options(&mut self, dialect: &'static Dialect, mapping: &SideMapping, at: &str) -> Option<Side> {
        let mut side = Side::new(dialect);
        let written = [
            ("content", &mapping.content),
            ("fields", &mapping.fields),
            ("pin", &mapping.pin),
            ("timestamp", &mapping.timestamp),
        ];
        let mut all = Some(());
        for (key, written) in written {
            let chosen = written.as_ref().map(|written| self.option(dialect, written, at, key));
            match chosen {
                Some(Some(set)) => set(&mut side),
                Some(None) => all = None,
                None => {}
            }
        }
        if let Some(written) = &mapping.interrupt_tool {
            let path = self.belongs(dialect, written, at, dialect::INTERRUPT_TOOL);
            match path.and_then(|path| self.read(&written.value, &path, position(written.defined), scalar::tool)) {
                Some(tool) => side.interrupt_tool = tool,
                None => all = None,
            }
        }
        let side = self.words(mapping, at, side);
        all.and(side)
    }

    /// Whether the dialect has an option; notes it where it is written otherwise.
    pub(super) fn has_option(
        &mut self,
        dialect: &'static Dialect,
        key: &str,
        written: Option<&Text>,
        at: &str,
    ) -> bool {
        let has = dialect.options.contains(&key);
        if !has {
            let others = dialect::ALL.iter().filter(|other| other.options.contains(&key)).map(|other| other.name);
            let hint = format!("take it away; it belongs to {}", quoted(others));
            let message = format!("the dialect `{}` has no option `{key}`", dialect.name);
            let place = written.and_then(|written| position(written.defined));
            self.note(&format!("{at}.{key}"), place, message, hint);
        }
        has
    }

    /// What a choice of an option sets.
    fn option(&mut self, dialect: &'static Dialect, written: &Text, at: &str, key: &str) -> Option<Set> {
        let path = self.belongs(dialect, written, at, key)?;
        let choices: Vec<(&str, Set)> = dialect::choices(key).map(|(_, word, set)| (*word, *set)).collect();
        self.choice(written, &path, &choices)
    }

    /// The path of an option, or a note that the dialect does not have it.
    fn belongs(&mut self, dialect: &'static Dialect, written: &Text, at: &str, key: &str) -> Option<String> {
        let path = format!("{at}.{key}");
        if !self.has_option(dialect, key, Some(written), at) {
            return None;
        }
        Some(path)
    }

    pub(super) fn dialect(&mut self, name: &str, path: &str, position: Option<Position>) -> Option<&'static Dialect> {
        let scalar = self.scalar(name, path, position)?;
        let dialect = self.known_dialect(&scalar.text);
        let built_in: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
        let may_be = self.unnamed.contains(&Named::Dialect) && nearest(&scalar.text, &built_in).is_empty();
        let mistaken = may_be || self.mistaken.iter().any(|name| name == scalar.text.as_str());
        if dialect.is_none() && !mistaken {
            let known = self.dialect_names();
            // The nearest name would tell what a variable holds.
            let nearest = did_you_mean(if scalar.substituted { "" } else { &scalar.text }, &known);
            let hint = slip::quotes(name).map_or(nearest, str::to_owned);
            self.note(path, position, format!("{} is no dialect", scalar.shown), hint);
        }
        dialect
    }
}
