//! Parses and formats the `traceparent` and `tracestate` headers (W3C Trace Context, level 2).
//!
//! ```text
//!   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//!   │  trace id                         parent id        flags
//!   version
//! ```

use http::HeaderValue;
use std::fmt;
use uuid::Uuid;

/// The sampled flag: "The caller may have recorded trace data".
const SAMPLED_FLAG: u8 = 1;

/// The random trace ID flag of level 2: the id is random enough for sampling decisions.
pub(super) const RANDOM_FLAG: u8 = 2;

/// Length of a version 00 `traceparent`.
const TRACEPARENT_LENGTH: usize = 55;

/// Maximum number of `tracestate` members: "There can be a maximum of 32 list-members in a list" (tracestate Header
/// Field Values).
const MAX_MEMBERS: usize = 32;

/// Maximum length of `tracestate`: "Vendors SHOULD propagate at least 512 characters of a combined header" (tracestate
/// Limits).
const STATE_LIMIT: usize = 512;

/// Length above which a member is removed first: "Entries larger than 128 characters long SHOULD be removed first"
/// (tracestate Limits).
const MEMBER_LIMIT: usize = 128;

/// A trace id: 16 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(pub(super) u128);

/// A span id: 8 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    /// known flags only
    pub(super) flags: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct TraceParent {
    pub(super) context: TraceContext,
    pub(super) tracestate: Option<HeaderValue>,
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TraceId {
    pub(super) fn random() -> TraceId {
        // Level 2 requires the right-most 7 bytes to be random, as in a version 4 UUID.
        TraceId(Uuid::new_v4().as_u128())
    }
}

impl SpanId {
    pub(super) fn random() -> SpanId {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // The fixed bits of a UUID are at different positions in its halves. The result is 0, an invalid id, once in
        // 2^64.
        SpanId((high ^ low).max(1))
    }
}

impl TraceContext {
    fn parse_traceparent(text: &[u8]) -> Option<TraceContext> {
        // "If the size of the header is shorter than 55 characters, the vendor should not parse the header and should
        // restart the trace" (Versioning of traceparent). Version 00 has exactly this length; in later versions more
        // may follow after a dash.
        let (head, rest) = text.split_at_checked(TRACEPARENT_LENGTH)?;
        let version = parse_hex(&head[..2])?;
        // "Version ff is forbidden" (version).
        let known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => matches!(rest, [] | [b'-', ..]),
        };
        if !known || head[2] != b'-' || head[35] != b'-' || head[52] != b'-' {
            return None;
        }
        let trace_id = parse_hex(&head[3..35])?;
        let span_id = u64::try_from(parse_hex(&head[36..52])?).ok()?;
        let flags = u8::try_from(parse_hex(&head[53..])?).ok()?;
        // "All zeroes forbidden", in both ids (version-format).
        if trace_id == 0 || span_id == 0 {
            return None;
        }
        // "The behavior of other flags [...] is reserved for future use. Vendors MUST set those to zero" (Other Flags).
        Some(TraceContext {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            flags: flags & (SAMPLED_FLAG | RANDOM_FLAG),
        })
    }

    pub(super) fn root() -> TraceContext {
        // Sampled, although the flag of an undecided trace "should be set to 0 as the default option": most agents do
        // not record unsampled traces, so adding a gateway would lose an agent's traces. The gateway's log also records
        // the trace id of each run.
        TraceContext { trace_id: TraceId::random(), span_id: SpanId::random(), flags: SAMPLED_FLAG }
    }

    pub(super) fn child(&self) -> TraceContext {
        TraceContext { span_id: SpanId::random(), ..*self }
    }

    #[cfg(feature = "otel")]
    pub(super) fn with_sampled(mut self, sampled: bool) -> TraceContext {
        self.flags = if sampled { self.flags | SAMPLED_FLAG } else { self.flags & !SAMPLED_FLAG };
        self
    }

    /// Formats a version 00 `traceparent`.
    pub(super) fn to_header(self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)).ok()
    }
}

impl TraceParent {
    /// Parses `traceparent` and `tracestate`. Returns `None` if `traceparent` is missing or invalid.
    pub(crate) fn from_headers<'h>(
        parents: impl IntoIterator<Item = &'h HeaderValue>,
        states: impl IntoIterator<Item = &'h HeaderValue>,
    ) -> Option<TraceParent> {
        let mut parents = parents.into_iter();
        let context = parents.next().and_then(|line| TraceContext::parse_traceparent(line.as_bytes()))?;
        // More than one is ambiguous: the W3C tests expect "a newly generated trace_id".
        if parents.next().is_some() {
            return None;
        }
        // "If the vendor failed to parse traceparent, it MUST NOT attempt to parse tracestate" (Tracestate Header).
        Some(TraceParent { context, tracestate: parse_tracestate(states) })
    }
}

/// Returns the valid members of all `tracestate` lines in order. Returns `None` if one is malformed, since the W3C
/// tests then expect "the tracestate to be discarded".
fn parse_tracestate<'h>(lines: impl IntoIterator<Item = &'h HeaderValue>) -> Option<HeaderValue> {
    let mut members: Vec<&str> = Vec::new();
    for line in lines {
        for member in line.to_str().ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            // "Empty and whitespace-only list members are allowed."
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            // "Only one entry per key is allowed" (Combined Header Value).
            let twice = members.iter().any(|other| other.split_once('=').is_some_and(|(own, _)| own == key));
            if !is_key(key) || !is_value(value) || twice || members.len() == MAX_MEMBERS {
                return None;
            }
            members.push(member);
        }
    }
    let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>().saturating_sub(1);
    if length(&members) > STATE_LIMIT {
        members.retain(|member| member.len() <= MEMBER_LIMIT);
    }
    // "Then entries SHOULD be removed starting from the end."
    while length(&members) > STATE_LIMIT {
        members.pop();
    }
    if members.is_empty() { None } else { HeaderValue::try_from(members.join(",")).ok() }
}

/// Checks a level 2 `key`: `( lcalpha / DIGIT ) 0*255 ( lcalpha / DIGIT / "_" / "-" / "*" / "/" / "@" )`.
fn is_key(key: &str) -> bool {
    let first = key.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    first && key.len() <= 256 && key.bytes().all(rest)
}

/// Checks a `value`: up to 256 visible characters and blanks except `,` and `=`, not ending in a blank.
fn is_value(value: &str) -> bool {
    let may = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(may) && !value.ends_with(' ')
}

/// Parses lower-case hex digits (`HEXDIGLC`).
fn parse_hex(digits: &[u8]) -> Option<u128> {
    let is_valid = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_valid)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn header_values(lines: &[&str]) -> Vec<HeaderValue> {
        lines.iter().map(|line| HeaderValue::from_bytes(line.as_bytes()).expect("a value")).collect()
    }

    fn read(parents: &[&str], states: &[&str]) -> Option<TraceParent> {
        TraceParent::from_headers(&header_values(parents), &header_values(states))
    }

    #[test]
    fn accepts_valid_traceparents_and_rejects_others() {
        for (flags, kept) in [("00", 0), ("01", 1), ("02", 2), ("03", 3), ("ff", 3), ("fc", 0)] {
            for version in ["00", "01", "cc", "fe"] {
                let text = format!("{version}-{TRACE}-{SPAN}-{flags}");
                let TraceContext { trace_id, span_id, flags } =
                    TraceContext::parse_traceparent(text.as_bytes()).expect(&text);
                assert_eq!(
                    (trace_id.to_string(), span_id.to_string(), flags),
                    (TRACE.to_owned(), SPAN.to_owned(), kept)
                );
            }
        }
        let later = format!("01-{TRACE}-{SPAN}-01-what-comes-later");
        assert!(TraceContext::parse_traceparent(later.as_bytes()).is_some(), "{later}");
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("01-{TRACE}-{SPAN}-01x"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}_01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("00-{}é-{SPAN}-01", &TRACE[2..]),
        ] {
            assert!(TraceContext::parse_traceparent(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn ignores_repeated_traceparents() {
        let one = format!("00-{TRACE}-{SPAN}-01");
        assert!(read(&[&one], &[]).is_some());
        assert!(read(&[&one, &one], &[]).is_none() && read(&[], &["a=1"]).is_none());
        assert!(read(&[&format!("{one},{one}")], &[]).is_none());
    }

    #[test]
    fn forwards_only_valid_tracestates() {
        let long = "v".repeat(129);
        let many = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let filled =
            |count: usize| (0..count).map(|n| format!("k{n}={}", "v".repeat(100))).collect::<Vec<_>>().join(",");
        let one = format!("00-{TRACE}-{SPAN}-01");
        for (lines, expected) in [
            (
                vec!["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"],
                Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".to_owned()),
            ),
            (vec!["a=1 ,\tb=2", "", "c@d= 3"], Some("a=1,b=2,c@d= 3".to_owned())),
            (vec!["0a=1,,"], Some("0a=1".to_owned())),
            (vec![&*many(32)], Some(many(32))),
            (vec![&*many(33)], None),
            (vec![" , ,"], None),
            (vec!["a=1,a=2"], None),
            (vec!["A=1"], None),
            (vec!["a"], None),
            (vec!["a="], None),
            (vec!["=1"], None),
            (vec!["a=b=c"], None),
            (vec!["a=é"], None),
            (vec![&*format!("a={}", "v".repeat(257))], None),
            // The long member is removed first, then the last ones.
            (vec![&*format!("x={long},{}", filled(4))], Some(filled(4))),
            (vec![&*filled(6)], Some(filled(4))),
        ] {
            let state = read(&[&one], &lines).expect("a parent").tracestate;
            let state = state.as_ref().map(|state| state.to_str().expect("ASCII").to_owned());
            assert_eq!(state, expected, "{lines:?}");
        }
    }

    #[test]
    fn parses_the_headers_that_it_writes() {
        let root = TraceContext::root();
        let child = root.child();
        for own in [root, child] {
            let header = own.to_header().expect("a value");
            assert_eq!(TraceContext::parse_traceparent(header.as_bytes()), Some(own), "{header:?}");
        }
        assert_eq!((child.trace_id, child.flags), (root.trace_id, 1));
        assert_ne!(child.span_id, root.span_id);
        assert_ne!(TraceContext::root().trace_id, root.trace_id);
    }
}
