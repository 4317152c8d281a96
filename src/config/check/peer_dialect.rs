//! Checks the dialects of clients and agents and their options.

use super::{ConfigChecker, ReferenceKind, SourcePosition, position, quote_names};
use crate::config::file::{self, PeerDialectMapping, Scalar};
use crate::config::problem::{did_you_mean, nearest};
use crate::config::schema::kind::OpenKind;
use crate::config::{scalar, yaml_hints};
use crate::dialect::{self, Dialect, OptionSetter, PeerDialect};

impl ConfigChecker<'_> {
    pub(super) fn check_peer_dialect(
        &mut self,
        written: &file::Spanned<file::PeerDialectSpec>,
        at: &str,
    ) -> Option<PeerDialect> {
        match &written.value {
            file::PeerDialectSpec::Name(name) if **name == *dialect::AUTO => Some(PeerDialect::new_auto()),
            file::PeerDialectSpec::Name(name) => {
                self.resolve_dialect(name, at, position(written.defined)).map(PeerDialect::new)
            }
            file::PeerDialectSpec::Mapping(mapping) => {
                let name = self.require_main_key(mapping.dialect.as_ref(), at, "dialect", position(written.defined))?;
                let path = format!("{at}.dialect");
                if *name.value == *dialect::AUTO {
                    let key = at.rsplit('.').next().unwrap_or(at);
                    let hint = format!("write `{key}: {}`", dialect::AUTO);
                    self.report_error(
                        &path,
                        position(name.defined),
                        format!("`{}` takes no options", dialect::AUTO),
                        hint,
                    );
                    return None;
                }
                let dialect = self.resolve_dialect(&name.value, &path, position(name.defined))?;
                self.check_options(dialect, mapping, at)
            }
        }
    }

    fn check_options(
        &mut self,
        dialect: &'static Dialect,
        mapping: &PeerDialectMapping,
        at: &str,
    ) -> Option<PeerDialect> {
        let mut side = PeerDialect::new(dialect);
        let options = [
            mapping.content.as_ref().map(|written| self.read_option(dialect, written, at, "content")),
            mapping.fields.as_ref().map(|written| self.read_option(dialect, written, at, "fields")),
            mapping.pin.as_ref().map(|written| self.read_option(dialect, written, at, "pin")),
            mapping.timestamp.as_ref().map(|written| self.read_option(dialect, written, at, "timestamp")),
        ];
        let mut all = Some(());
        for option in options {
            match option {
                Some(Some(set)) => set(&mut side),
                Some(None) => all = None,
                None => {}
            }
        }
        if let Some(written) = &mapping.interrupt_tool {
            let path = self.option_path(dialect, written, at, dialect::INTERRUPT_TOOL);
            match path
                .and_then(|path| self.read(&written.value, &path, position(written.defined), scalar::parse_client_tool))
            {
                Some(tool) => side.interrupt_tool = tool,
                None => all = None,
            }
        }
        let side = self.check_roles_and_errors(mapping, at, side);
        all.and(side)
    }

    /// Returns whether the dialect has an option; reports an option that it does not have.
    pub(super) fn has_option(
        &mut self,
        dialect: &'static Dialect,
        key: &str,
        written: Option<&Scalar<impl OpenKind>>,
        at: &str,
    ) -> bool {
        let has = dialect.option_names.contains(&key);
        if !has {
            let others = dialect::ALL.iter().filter(|other| other.option_names.contains(&key)).map(|other| other.name);
            let hint = format!("remove it; it applies only to {}", quote_names(others));
            let message = format!("the dialect `{}` has no option `{key}`", dialect.name);
            let place = written.and_then(|written| position(written.defined));
            self.report_error(&format!("{at}.{key}"), place, message, hint);
        }
        has
    }

    /// Reads the choice of an option.
    fn read_option(
        &mut self,
        dialect: &'static Dialect,
        written: &Scalar<impl OpenKind>,
        at: &str,
        key: &str,
    ) -> Option<OptionSetter> {
        let path = self.option_path(dialect, written, at, key)?;
        let choices: Vec<(&str, OptionSetter)> =
            dialect::choices_for(key).map(|(_, word, set)| (*word, *set)).collect();
        self.read_choice(written, &path, &choices)
    }

    /// The path of an option, or a note that the dialect does not have it.
    fn option_path(
        &mut self,
        dialect: &'static Dialect,
        written: &Scalar<impl OpenKind>,
        at: &str,
        key: &str,
    ) -> Option<String> {
        let path = format!("{at}.{key}");
        if !self.has_option(dialect, key, Some(written), at) {
            return None;
        }
        Some(path)
    }

    pub(super) fn resolve_dialect(
        &mut self,
        name: &str,
        path: &str,
        position: Option<SourcePosition>,
    ) -> Option<&'static Dialect> {
        let scalar = self.expand_scalar(name, path, position)?;
        let dialect = self.find_dialect(&scalar.text);
        let built_in: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
        let may_be =
            self.kinds_with_unnamed.contains(&ReferenceKind::Dialect) && nearest(&scalar.text, &built_in).is_empty();
        let mistaken = may_be || self.invalid_dialects.iter().any(|name| name == scalar.text.as_str());
        if dialect.is_none() && !mistaken {
            let known = self.dialect_names();
            // The nearest name would tell what a variable holds.
            let nearest = did_you_mean(if scalar.substituted { "" } else { &scalar.text }, &known);
            let hint = yaml_hints::hint_for_quotes(name).map_or(nearest, str::to_owned);
            self.report_error(path, position, format!("{} is not a dialect", scalar.display), hint);
        }
        dialect
    }
}
