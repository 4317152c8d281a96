//! Checks the dialects of clients and agents and their options.

use crate::config::checker::{ConfigChecker, Place, ReferenceKind, hint_for_quotes};
use crate::config::dialect_text::is_dialect_path;
use crate::config::file::{PeerDialectMapping, PeerDialectSpec};
use crate::config::kind::ScalarKind;
use crate::config::problem::{did_you_mean, nearest, quote_names};
use crate::config::section::FileValue;
use crate::config::shipped_dialects::{SHIPPED_DIALECTS, image_path};
use crate::config::text::Scalar;
use crate::dialect::{self, Dialect, PeerDialect};

impl FileValue for PeerDialectSpec {
    type Checked = PeerDialect;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<PeerDialect> {
        match self {
            PeerDialectSpec::Name(name) if **name == *dialect::AUTO => Some(PeerDialect::new_auto()),
            PeerDialectSpec::Name(name) => checker.resolve_dialect(name, at, &[dialect::AUTO]).map(PeerDialect::new),
            PeerDialectSpec::Mapping(mapping) => mapping.check(checker, at),
        }
    }
}

impl FileValue for PeerDialectMapping {
    type Checked = PeerDialect;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<PeerDialect> {
        let place = at.key("dialect").with_example("the dialect, such as `dialect: hai`");
        let name = self.dialect.require(checker, &place)?;
        let place = place.with_position_of(name);
        if *name.value == *dialect::AUTO {
            let key = at.path.rsplit('.').next().unwrap_or(&at.path);
            let hint = format!("write `{key}: {}`", dialect::AUTO);
            checker.report_error(&place, format!("`{}` takes no options", dialect::AUTO), hint);
            return None;
        }
        let dialect = checker.resolve_dialect(&name.value, &place, &[])?;
        let mut side = PeerDialect::new(dialect);
        let setters = [
            checker.read_option(dialect, self.content.as_ref(), at, "content"),
            checker.read_option(dialect, self.fields.as_ref(), at, "fields"),
            checker.read_option(dialect, self.pin.as_ref(), at, "pin"),
            checker.read_option(dialect, self.timestamp.as_ref(), at, "timestamp"),
        ];
        let interrupt_tool = checker.read_option(dialect, self.interrupt_tool.as_ref(), at, dialect::INTERRUPT_TOOL);
        let words = checker.check_roles_and_errors(self, at, &mut side);
        for setter in setters {
            if let Some(set) = setter? {
                set(&mut side);
            }
        }
        words?;
        if let Some(tool) = interrupt_tool? {
            side.interrupt_tool = tool;
        }
        Some(side)
    }
}

impl ConfigChecker<'_> {
    #[expect(clippy::option_option, reason = "a missing key is not a mistake")]
    fn read_option<K: ScalarKind>(
        &mut self,
        dialect: &'static Dialect,
        written: Option<&Scalar<K>>,
        at: &Place,
        key: &str,
    ) -> Option<Option<K::Value>> {
        let Some(written) = written else { return Some(None) };
        let place = at.value_of(key, written);
        self.check_option(dialect, key, &place)?;
        self.read(&written.value, &place).map(Some)
    }

    pub(super) fn check_option(&mut self, dialect: &'static Dialect, key: &str, at: &Place) -> Option<()> {
        if dialect.option_names.contains(&key) {
            return Some(());
        }
        let others = dialect::ALL.iter().filter(|other| other.option_names.contains(&key)).map(|other| other.name);
        let hint = format!("remove it; it applies only to {}", quote_names(&others.collect::<Vec<_>>(), " or "));
        self.report_error(at, format!("the dialect `{}` has no option `{key}`", dialect.name), hint);
        None
    }

    /// Finds the dialect with this name. `other_names` are suggested too.
    pub(super) fn resolve_dialect(
        &mut self,
        name: &str,
        at: &Place,
        other_names: &[&'static str],
    ) -> Option<&'static Dialect> {
        let scalar = self.expand_scalar(name, at)?;
        let dialect = self.find_dialect(&scalar.text);
        let built_in = dialect::ALL.iter().map(|dialect| dialect.name);
        let built_in: Vec<&str> = built_in.chain(other_names.iter().copied()).collect();
        let may_be_unnamed =
            self.kinds_with_unnamed.contains(&ReferenceKind::Dialect) && nearest(&scalar.text, &built_in).is_empty();
        if dialect.is_none() && !may_be_unnamed && !self.invalid_dialects.contains(&scalar.text) {
            // A suggestion would reveal the value of a variable.
            let known = [&self.dialect_names(), other_names].concat();
            let mut nearest = did_you_mean(if scalar.substituted { "" } else { &scalar.text }, &known);
            if at.is_agent() && nearest.starts_with("use one of") {
                nearest += "; a dialect that a file describes needs the file: `dialect_files: [FILE.yaml]`";
            }
            let of_file = if scalar.substituted { None } else { hint_for_file(&scalar.text, at) };
            let hint = of_file.or(hint_for_quotes(name).map(str::to_owned)).unwrap_or(nearest);
            self.report_error(at, format!("{} is not a dialect", scalar.display), hint);
        }
        if let Some(own) = dialect.filter(|dialect| dialect.mapping.is_some())
            && !at.is_agent()
        {
            let hint = "use it for `agent`, and write the dialect of the client here, such as `client: ag-ui`";
            self.report_error(at, format!("`{}` is described by a file, which is for agents only", own.name), hint);
            return None;
        }
        dialect
    }
}

/// Returns a hint for the name of a dialect file, or of a dialect whose file is not named.
fn hint_for_file(name: &str, at: &Place) -> Option<String> {
    let is_shipped = SHIPPED_DIALECTS.iter().any(|(shipped, _)| *shipped == name);
    if !is_shipped && !is_dialect_path(name) {
        return None;
    }
    if !at.is_agent() {
        return Some("a dialect file is for the `agent` of a route; write the name of a dialect here".to_owned());
    }
    Some(match is_shipped {
        true => format!(
            "add `dialect_files: [{}]` at the top of the configuration, or where you have the file",
            image_path(name)
        ),
        false => format!(
            "add `dialect_files: [{name}]` at the top of the configuration, and write the `name` in that file here"
        ),
    })
}
