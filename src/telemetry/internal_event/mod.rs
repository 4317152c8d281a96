//! Log events, one struct each. `emit` writes the log line and updates the metrics.
//!
//! Text from clients and agents is truncated and escaped, so that it cannot forge log lines.

/// Declares events as `level Name { fields } (log fields) "message";`. A `counts(metrics: &Type) { … }` before the log
/// fields updates metrics in `emit`.
macro_rules! log_events {
    ($($(#[$doc:meta])* $level:ident $name:ident $(<$lifetime:lifetime>)? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
    } $(counts($metrics:ident: &$metrics_type:ty) $count:block)? ($($($log:tt)+)?) $message:literal;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name $(<$lifetime>)? { $($(#[$field_doc])* pub(crate) $field: $type),* }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            pub(crate) fn emit(self $(, $metrics: &$metrics_type)?) {
                let $name { $($field),* } = self;
                $($count)?
                tracing::$level!($($($log)+,)? $message);
            }
        }
    )+};
}

mod collector;
mod inspect;
mod policy;
mod listener;
mod process;
mod run;
mod upstream;

pub(crate) use collector::*;
pub(crate) use inspect::*;
pub(crate) use listener::*;
pub(crate) use policy::*;
pub(crate) use process::*;
pub(crate) use run::*;
pub(crate) use upstream::*;

use super::label::AuthMethod;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum length of client or agent text in a log line, in characters.
pub(crate) const MAX_TEXT_CHARS: usize = 200;

/// The known facts about the caller, without credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerInfo<'a> {
    pub(crate) address: Option<IpAddr>,
    pub(crate) method: AuthMethod,
    /// the issuer, or the API key list
    pub(crate) source: Option<&'a str>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) key_id: Option<&'a str>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Truncates untrusted text and replaces characters that could forge or garble a log line.
pub(super) fn sanitize(text: &str) -> String {
    // Nearly every text is of this kind, which needs no look at its characters.
    if text.len() <= MAX_TEXT_CHARS && text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    text.chars().take(MAX_TEXT_CHARS).map(|c| if is_unsafe_char(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns whether `c` ends a line, controls a terminal or changes the text direction.
fn is_unsafe_char(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || separates || turns
}
