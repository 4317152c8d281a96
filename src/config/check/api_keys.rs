//! Checks lists of API keys.

use std::path::Path;

use crate::config::access::ApiKeyConfig;
use crate::config::checker::{AuthMethodRef, ConfigChecker, Place};
use crate::config::file::{ApiKeyFile, ApiKeyListSpec, ApiKeySpec};
use crate::config::parse::{decode_utf8, parse_and_check};
use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::config::section::{CrossCheck, FileValue, KeysOf};
use crate::config::source::{LoadContext, SourceText};
use crate::config::text::Spanned;

/// Returns every problem in the file on failure.
pub(in crate::config) fn load_key_file(
    path: &Path,
    content: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    let name = path.display().to_string();
    let text = decode_utf8(&name, content)?;
    let both = parse_and_check::<ApiKeyFile, _>(&name, text, LoadContext::for_path(path, lookup), check_keys);
    both.map(|(_, keys)| keys).map_err(|problems| match problems.as_slice() {
        // The most frequent mistake is a list without `keys:`.
        [whole] if whole.path.is_empty() && whole.message.ends_with("found a list") => {
            whole.clone().with_hint("put `keys:` on its first line").into()
        }
        _ => problems,
    })
}

fn check_keys(source: &SourceText<'_>, file: &ApiKeyFile) -> Result<Vec<ApiKeyConfig>, Vec<ConfigProblem>> {
    let mut checker = ConfigChecker::new(source);
    let at = Place::new("keys");
    let keys = file.keys.check(&mut checker, &at);
    checker.report_equal_keys(&file.keys, &at);
    checker.finish(keys)
}

impl CrossCheck for ApiKeySpec {
    fn cross_check(&self, keys: &mut KeysOf<ApiKeySpec>, _: &mut ConfigChecker<'_>, _: &Place) {
        if self.subject.is_absent() {
            keys.subject.clone_from(&keys.id);
        }
    }
}

impl CrossCheck for ApiKeyListSpec {
    fn cross_check(&self, keys: &mut KeysOf<ApiKeyListSpec>, checker: &mut ConfigChecker<'_>, at: &Place) {
        let has_tenants = self.file.is_some() || self.keys.iter().any(|key| key.value.tenant.is_some());
        let key_header = keys.header.clone();
        checker.methods.extend(keys.name.clone().map(|name| AuthMethodRef {
            name,
            key_header,
            is_keys: true,
            has_tenants,
        }));
        checker.report_equal_keys(&self.keys, &at.key("keys"));
        if let (Some(Some(file)), Some(written)) = (&keys.file, &self.file) {
            let place = at.value_of("file", written);
            let content = checker.read_file(file, &place);
            let listed = keys.keys.as_deref().unwrap_or_default();
            if !content.is_some_and(|content| checker.check_key_file(file, &content, listed, &place)) {
                keys.file = None;
            }
        }
        let is_skipped = ["file", "keys"].iter().any(|key| checker.is_skipped(&at.key(key).path));
        if self.file.is_none() && self.keys.is_empty() && !is_skipped {
            let hint = "add `file` or a list `keys`, or remove the entry";
            checker.report_error(at, "this list has no keys, so no caller could authenticate with it", hint);
        }
    }
}

impl ConfigChecker<'_> {
    fn report_equal_keys(&mut self, keys: &[Spanned<ApiKeySpec>], at: &Place) {
        let entries = || keys.iter().enumerate().map(|(index, key)| (at.index(index), &key.value));
        let ids: Vec<_> = entries().filter_map(|(at, key)| self.locate(key.id.as_ref(), &at.key("id"))).collect();
        let digests: Vec<_> =
            entries().filter_map(|(at, key)| self.locate(key.sha256.as_ref(), &at.key("sha256"))).collect();
        self.report_duplicates(&ids, "this id is already used by", "give each key a unique id");
        let hint = "each key identifies one caller: generate another key";
        self.report_duplicates(&digests, "this is the same key as", hint);
    }

    /// Returns false after reporting invalid keys. Keys that are also in `listed` are reported, too.
    fn check_key_file(&mut self, file: &Path, content: &[u8], listed: &[ApiKeyConfig], at: &Place) -> bool {
        match load_key_file(file, content, self.source.context.lookup) {
            Ok(keys) => {
                let same = |one: &ApiKeyConfig, other: &ApiKeyConfig| one.id == other.id || one.sha256 == other.sha256;
                if let Some(twice) = keys.iter().find(|key| listed.iter().any(|listed| same(listed, key))) {
                    let message = format!("the key `{}` of the file is also in `keys`", twice.id);
                    self.report_error(at, message, "keep one of the two");
                }
                true
            }
            Err(problems) => {
                self.problems.extend(problems.as_slice().iter().cloned());
                false
            }
        }
    }
}
