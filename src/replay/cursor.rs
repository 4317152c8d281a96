//! Event ids of stored runs, `<token>-<number>`, which clients send to resume.

use std::fmt;

/// Lower-case base32 (RFC 4648, section 6).
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Token length: 10 characters, or 50 bits.
const TOKEN_LENGTH: usize = 10;

/// Distinguishes runs with the same ids. Not a secret, since access depends on the caller's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunToken([u8; TOKEN_LENGTH]);

impl RunToken {
    pub(crate) fn new(random: u64) -> RunToken {
        let mut rest = random;
        RunToken(std::array::from_fn(|_| {
            let [five, ..] = rest.to_le_bytes();
            rest >>= 5;
            ALPHABET[usize::from(five) % ALPHABET.len()]
        }))
    }

    pub(crate) fn as_str(&self) -> &str {
        // The alphabet is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The position after the last event that a client received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) token: RunToken,
    /// number of the event, counted from 1; 0 means before the first event
    pub(crate) number: u64,
}

impl Cursor {
    /// Parses a cursor. Returns `None` if it is not in the gateway's format.
    pub(crate) fn parse(text: &str) -> Option<Cursor> {
        let (token, number) = text.split_once('-')?;
        let token = <[u8; TOKEN_LENGTH]>::try_from(token.as_bytes()).ok()?;
        let canonical = number.bytes().all(|each| each.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
        if !canonical || !token.iter().all(|letter| ALPHABET.contains(letter)) {
            return None;
        }
        Some(Cursor { token: RunToken(token), number: number.parse().ok()? })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.token.as_str(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_cursors_that_it_wrote() {
        for (random, number) in [(0, 0), (u64::MAX, 1), (0x1234_5678_9abc_def0, u64::MAX)] {
            let cursor = Cursor { token: RunToken::new(random), number };
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor), "{cursor}");
        }
        assert_eq!(RunToken::new(1 << 49).as_str(), "aaaaaaaaaq");
        assert_ne!(RunToken::new(1), RunToken::new(2));
        for text in [
            "",
            "-",
            "aaaaaaaaaa",
            "aaaaaaaaaa-",
            "aaaaaaaaaa-x",
            "aaaaaaaaaa-+1",
            "aaaaaaaaaa-01",
            "aaaaaaaaaa--1",
            "aaaaaaaaaa-1 ",
            "aaaaaaaaaa-18446744073709551616",
            "aaaaaaaaa-1",
            "aaaaaaaaaaa-1",
            "AAAAAAAAAA-1",
            "aaaaaaaaa1-1",
            "1-0",
        ] {
            assert_eq!(Cursor::parse(text), None, "{text:?}");
        }
    }
}
