//! Interns values for the life of the process, so that a reload uses memory only for new ones. Equal values share one
//! address.

use parking_lot::Mutex;
use std::collections::HashSet;

use crate::dialect::{Dialect, DialectOverrides, MappedDialect, ValueAlias};

static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
pub(super) static VALUE_ALIASES: Mutex<Vec<&'static [ValueAlias]>> = Mutex::new(Vec::new());
pub(super) static NAMES: Mutex<Vec<&'static [&'static str]>> = Mutex::new(Vec::new());
static DIALECTS: Mutex<Vec<(DialectOverrides, &'static Dialect)>> = Mutex::new(Vec::new());
static FILE_DIALECTS: Mutex<Vec<(MappedDialect, &'static Dialect)>> = Mutex::new(Vec::new());

pub(super) fn intern_text(text: &str) -> &'static str {
    let mut texts = TEXTS.lock();
    let texts = texts.get_or_insert_default();
    texts.get(text).copied().unwrap_or_else(|| {
        let kept = String::leak(text.to_owned());
        texts.insert(kept);
        kept
    })
}

pub(super) fn intern_dialect(changes: DialectOverrides) -> &'static Dialect {
    find_or_build(&DIALECTS, changes, DialectOverrides::into_dialect)
}

pub(crate) fn intern_file_dialect(file: MappedDialect) -> &'static Dialect {
    find_or_build(&FILE_DIALECTS, file, MappedDialect::into_dialect)
}

/// Returns the dialects of all files that were read.
pub(crate) fn interned_file_dialects() -> Vec<&'static Dialect> {
    FILE_DIALECTS.lock().iter().map(|(_, dialect)| *dialect).collect()
}

fn find_or_build<T: Clone + PartialEq>(
    dialects: &Mutex<Vec<(T, &'static Dialect)>>,
    description: T,
    build: fn(T) -> &'static Dialect,
) -> &'static Dialect {
    let mut dialects = dialects.lock();
    if let Some((_, kept)) = dialects.iter().find(|(own, _)| *own == description) {
        return kept;
    }
    let kept = build(description.clone());
    dialects.push((description, kept));
    kept
}

pub(super) fn intern<T: PartialEq>(lists: &Mutex<Vec<&'static [T]>>, list: Vec<T>) -> &'static [T] {
    let mut lists = lists.lock();
    if let Some(kept) = lists.iter().find(|kept| ***kept == *list) {
        return kept;
    }
    let kept: &'static [T] = Vec::leak(list);
    lists.push(kept);
    kept
}
