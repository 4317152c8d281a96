//! Defines mappings of the file, with each key written only once.
//!
//! ```text
//! section! {
//!     /// The manual of the mapping.
//!     pub(crate) struct TimeoutsSpec => pub(crate) TimeoutsConfig {
//!         /// The manual of the key.
//!         pub(crate) idle: Scalar<kind::Duration> = text("5m");
//!         pub(crate) first_event: Option<Scalar<kind::Duration>>;
//!         pub(crate) server: Required<Scalar<kind::Name>>, required "the name, such as `server: a`";
//!         pub(crate) own_threads as "threads": Scalar<kind::Threads> = text("shared");
//!     }
//! }
//! ```
//! This defines the mapping as written (`TimeoutsSpec`), with its defaults and its schema, the checked mapping
//! (`TimeoutsConfig`), and the check that converts one to the other. A type may have its own check in `check/`:
//! [`FileValue`] instead of a checked struct, [`CrossCheck`] for rules between keys (`=> TimeoutsConfig,
//! cross-checked`).

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::checker::{ConfigChecker, Place};
use super::kind::ScalarKind;
use super::text::{OneOrList, Shorthand, Spanned, Text};

/// A value in the file that checks itself.
pub(crate) trait FileValue {
    type Checked;

    /// Reports every mistake in the value. Returns `None` if there are any.
    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Self::Checked>;

    /// Returns whether the key is omitted and has no default.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A mapping whose keys are checked one by one.
pub(crate) trait Section {
    const KEYS: &'static [&'static str];

    /// The checked keys; one with a mistake is `None`.
    type Keys;

    fn check_keys(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Self::Keys;
}

/// Rules that involve several keys of a mapping, and defaults that depend on other keys.
pub(crate) trait CrossCheck: Section {
    fn cross_check(&self, keys: &mut Self::Keys, checker: &mut ConfigChecker<'_>, at: &Place);
}

pub(crate) type KeysOf<S> = <S as Section>::Keys;

impl<K: ScalarKind> FileValue for Text<K> {
    type Checked = K::Value;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<K::Value> {
        checker.read(self, at)
    }
}

impl<T: FileValue> FileValue for Spanned<T> {
    type Checked = T::Checked;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<T::Checked> {
        self.value.check(checker, &at.with_position_of(self))
    }
}

impl<T: FileValue> FileValue for Option<T> {
    type Checked = Option<T::Checked>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Option<T::Checked>> {
        match self {
            Some(value) => value.check(checker, at).map(Some),
            None => Some(None),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: FileValue> FileValue for Vec<T> {
    type Checked = Vec<T::Checked>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<T::Checked>> {
        collect_all(self.iter().enumerate().map(|(index, one)| one.check(checker, &at.index(index))))
    }
}

impl<T: FileValue> FileValue for BTreeMap<String, T> {
    type Checked = Vec<(String, T::Checked)>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<(String, T::Checked)>> {
        collect_all(self.iter().map(|(name, value)| Some((name.clone(), value.check(checker, &at.key(name))?))))
    }
}

impl<T: FileValue + Shorthand> FileValue for OneOrList<T> {
    type Checked = Vec<T::Checked>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<Vec<T::Checked>> {
        let entries = self.entries(at);
        if entries.is_empty() && T::IS_NEVER_EMPTY {
            checker.report_error(at, "the list is empty", "write at least one value");
            return None;
        }
        collect_all(entries.into_iter().map(|(at, entry)| entry.check(checker, &at)))
    }
}

impl<T> OneOrList<T> {
    pub(crate) fn entries(&self, at: &Place) -> Vec<(Place, &T)> {
        match self {
            OneOrList::One(one) => vec![(at.clone(), one)],
            OneOrList::Many(many) => many
                .iter()
                .enumerate()
                .map(|(index, one)| (at.index(index).with_position_of(one), &one.value))
                .collect(),
        }
    }
}

/// Checks all values, even after an invalid one. Returns `None` if any is invalid.
pub(crate) fn collect_all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let values: Vec<Option<T>> = values.collect();
    values.into_iter().collect()
}

// A key without a default. Not a doc comment, which would appear in the schema.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WithoutDefault<T, const IS_REQUIRED: bool>(pub(crate) Option<T>);

pub(crate) type Required<T> = WithoutDefault<T, true>;

/// A key that may be omitted. The section's [`CrossCheck`] then fills in the value.
pub(crate) type Derived<T> = WithoutDefault<T, false>;

impl<T, const IS_REQUIRED: bool> Default for WithoutDefault<T, IS_REQUIRED> {
    fn default() -> Self {
        WithoutDefault(None)
    }
}

impl<T> Required<T> {
    /// Returns the value as written, or reports that the key is missing.
    pub(crate) fn require(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<&T> {
        if self.0.is_none() {
            checker.report_missing_key(at);
        }
        self.0.as_ref()
    }
}

impl<T, const IS_REQUIRED: bool> Deref for WithoutDefault<T, IS_REQUIRED> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<T, const IS_REQUIRED: bool> DerefMut for WithoutDefault<T, IS_REQUIRED> {
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.0
    }
}

impl<T: FileValue, const IS_REQUIRED: bool> FileValue for WithoutDefault<T, IS_REQUIRED> {
    type Checked = T::Checked;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<T::Checked> {
        if IS_REQUIRED && self.0.is_none() {
            checker.report_missing_key(at);
        }
        self.0.as_ref()?.check(checker, at)
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

/// Marks the keys whose flag is set as required.
pub(crate) fn require_keys(schema: &mut Schema, keys: &[(&str, bool)]) {
    let required: Vec<&str> = keys.iter().filter(|(_, is_required)| *is_required).map(|(key, _)| *key).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
}

macro_rules! section {
    // A mapping with a hand-written check.
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident {
            $($(#[$key_meta:meta])* $key_vis:vis $key:ident $(as $name:literal)?: $type:ty $(= $default:expr)? $(, required $example:literal)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, ::serde::Deserialize, ::serde::Serialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(transform = $Spec::require_keys)]
        $vis struct $Spec {
            $(
                $(#[$key_meta])*
                $(#[serde(rename = $name)])?
                #[serde(skip_serializing_if = "crate::config::section::FileValue::is_absent")]
                pub(crate) $key: $type,
            )*
        }

        impl $Spec {
            fn require_keys(schema: &mut ::schemars::Schema) {
                $crate::config::section::require_keys(
                    schema,
                    &[$((section!(@name $key $($name)?), section!(@is_required $($example)?))),*],
                );
            }
        }

        impl Default for $Spec {
            fn default() -> $Spec {
                $Spec { $($key: section!(@default $($default)?)),* }
            }
        }

        const _: () = {
            use $crate::config::checker::{ConfigChecker, Place};
            use $crate::config::section::{FileValue, Section};

            #[allow(dead_code, reason = "a check need not use every key")]
            pub(crate) struct Keys {
                $(pub(crate) $key: Option<<$type as FileValue>::Checked>,)*
            }

            impl Section for $Spec {
                const KEYS: &'static [&'static str] = &[$(section!(@name $key $($name)?)),*];
                type Keys = Keys;

                fn check_keys(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Keys {
                    Keys {
                        $($key: self.$key.check(checker, &at.key(section!(@name $key $($name)?))$(.with_example($example))?),)*
                    }
                }
            }
        };
    };
    // A mapping whose checked struct has the same keys.
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident => $(#[$checked_meta:meta])* $checked_vis:vis $Checked:ident $(, $cross:ident-checked)? {
            $($(#[$key_meta:meta])* $key_vis:vis $key:ident $(as $name:literal)?: $type:ty $(= $default:expr)? $(, required $example:literal)?;)*
        }
        $($(#[$group_meta:meta])* $group_key_vis:vis $group:ident => $group_vis:vis $Group:ident {
            $($(#[$inner_meta:meta])* $inner_vis:vis $inner:ident $(as $inner_name:literal)?: $inner_type:ty $(= $inner_default:expr)?;)*
        })?
    ) => {
        section! {
            $(#[$meta])*
            $vis struct $Spec {
                $($(#[$key_meta])* $key_vis $key $(as $name)?: $type $(= $default)? $(, required $example)?;)*
                $($($(#[$inner_meta])* $inner_vis $inner $(as $inner_name)?: $inner_type $(= $inner_default)?;)*)?
            }
        }

        $(#[$meta])*
        $(#[$checked_meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(private_interfaces, reason = "the checked type of a key is public where the key is")]
        $checked_vis struct $Checked {
            $($(#[$key_meta])* $key_vis $key: <$type as $crate::config::section::FileValue>::Checked,)*
            $($(#[$group_meta])* $group_key_vis $group: ::std::sync::Arc<$Group>,)?
        }

        $(
            $(#[$group_meta])*
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            #[allow(private_interfaces, reason = "the checked type of a key is public where the key is")]
            $group_vis struct $Group {
                $($(#[$inner_meta])* $inner_vis $inner: <$inner_type as $crate::config::section::FileValue>::Checked,)*
            }
        )?

        const _: () = {
            use $crate::config::checker::{ConfigChecker, Place};
            use $crate::config::section::{CrossCheck, FileValue, Section};

            impl FileValue for $Spec {
                type Checked = $Checked;

                fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<$Checked> {
                    let mut keys = self.check_keys(checker, at);
                    self.cross_check(&mut keys, checker, at);
                    Some($Checked {
                        $($key: keys.$key?,)*
                        $($group: $Group { $($inner: keys.$inner?,)* }.into(),)?
                    })
                }
            }
        };

        section!(@cross $Spec $($cross)?);
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $name:literal) => { $name };
    (@is_required) => { false };
    (@is_required $example:literal) => { true };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@cross $Spec:ident cross) => {};
    (@cross $Spec:ident) => {
        impl $crate::config::section::CrossCheck for $Spec {
            fn cross_check(
                &self,
                _: &mut $crate::config::section::KeysOf<$Spec>,
                _: &mut $crate::config::checker::ConfigChecker<'_>,
                _: &$crate::config::checker::Place,
            ) {}
        }
    };
}

pub(crate) use section;
