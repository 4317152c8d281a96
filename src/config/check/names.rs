//! Resolves names of issuers, lists of API keys and rate limits.

use crate::config::checker::{ConfigChecker, Place, ReferenceKind, hint_for_quotes};
use crate::config::kind;
use crate::config::problem::{did_you_mean, nearest};
use crate::config::scalar::NONE;
use crate::config::text::Scalar;

impl ConfigChecker<'_> {
    pub(super) fn resolve_names(
        &mut self,
        names: &[Scalar<kind::Text>],
        at: &Place,
        what: ReferenceKind,
        known: &[&str],
    ) -> Vec<Option<String>> {
        let names = names.iter().enumerate();
        names
            .map(|(index, name)| self.resolve_name(&name.value, &at.index(index).with_position_of(name), what, known))
            .collect()
    }

    pub(super) fn resolve_name(
        &mut self,
        written: &str,
        at: &Place,
        what: ReferenceKind,
        known: &[&str],
    ) -> Option<String> {
        let scalar = self.expand_scalar(written, at)?;
        if known.contains(&scalar.text.as_str()) {
            return Some(scalar.text);
        }
        if self.kinds_with_unnamed.contains(&what) {
            return None;
        }
        let what = match what {
            ReferenceKind::Dialect => "a dialect",
            ReferenceKind::Method => "an issuer or a list of API keys",
            ReferenceKind::RateLimit => "a rate limit",
        };
        let is_auth = |line: &str| line.starts_with("auth:") || line.starts_with("\"auth\"");
        let hint = if let Some(hint) = hint_for_quotes(written) {
            hint.to_owned()
        } else if known == [NONE] && nearest(&scalar.text, known).is_empty() && !self.source.text.lines().any(is_auth) {
            format!("this file has no `auth`: list issuers or API keys there, or write `auth: {NONE}` here")
        } else if known.is_empty() {
            format!("this file does not define {what}")
        } else {
            // A suggestion would reveal the value of a variable.
            did_you_mean(if scalar.substituted { "" } else { &scalar.text }, known)
        };
        self.report_error(at, format!("{} is not the name of {what}", scalar.display), hint);
        None
    }
}
