//! Finds the members and elements of JSON text in one pass, without building values.
//!
//! The scanner accepts only text that serde_json accepts, with the same values (a test compares them). On anything else
//! it gives up, and the caller uses serde_json, which explains the error.

use std::borrow::Cow;

/// The scanner gave up: the text is malformed, or unusual.
#[derive(Debug)]
pub(super) struct ScanFailure;

#[derive(Debug)]
pub(super) struct ValueScanner<'a> {
    text: &'a str,
    at: usize,
    depth_limit: usize,
}

/// A member's name without its quotes, as it stands in the text.
#[derive(Debug)]
pub(super) struct RawName<'a> {
    text: &'a str,
    has_escapes: bool,
}

impl<'a> RawName<'a> {
    /// Returns the name if it has no escapes.
    #[inline]
    pub(super) fn plain(&self) -> Option<&'a str> {
        (!self.has_escapes).then_some(self.text)
    }

    /// Returns the name; fails if it is no Rust string, which a lone surrogate is not.
    #[inline]
    pub(super) fn decode(self) -> Result<Cow<'a, str>, ScanFailure> {
        if !self.has_escapes {
            return Ok(Cow::Borrowed(self.text));
        }
        self.decode_escapes().map(Cow::Owned)
    }

    /// Kept apart, so that the usual way is short enough to be inlined.
    #[cold]
    fn decode_escapes(&self) -> Result<String, ScanFailure> {
        serde_json::from_str(&["\"", self.text, "\""].concat()).map_err(|_| ScanFailure)
    }
}

impl<'a> ValueScanner<'a> {
    pub(super) fn new(text: &'a str, depth_limit: usize) -> Self {
        ValueScanner { text, at: 0, depth_limit }
    }

    /// Takes an object, and passes on each member with the text of its value.
    #[inline]
    pub(super) fn take_object(
        &mut self,
        mut on_member: impl FnMut(RawName<'a>, &'a str) -> Result<(), ScanFailure>,
    ) -> Result<(), ScanFailure> {
        match self.peek_byte() {
            Some(b'{') => self.take_members(1, |scanner, name| on_member(name, scanner.value_at_depth(1)?)),
            _ => Err(ScanFailure),
        }
    }

    /// Takes an array, and passes on the text of each element.
    pub(super) fn take_array(&mut self, mut on_element: impl FnMut(&'a str)) -> Result<(), ScanFailure> {
        match self.peek_byte() {
            Some(b'[') => self.take_elements(1, |scanner| {
                on_element(scanner.value_at_depth(1)?);
                Ok(())
            }),
            _ => Err(ScanFailure),
        }
    }

    /// Takes a value of any type, and returns its text.
    pub(super) fn take_value(&mut self) -> Result<&'a str, ScanFailure> {
        self.value_at_depth(0)
    }

    /// Succeeds if nothing but whitespace is left.
    pub(super) fn finish(&mut self) -> Result<(), ScanFailure> {
        if self.peek_byte().is_none() { Ok(()) } else { Err(ScanFailure) }
    }

    /// Takes a value inside `depth` others, and returns its text.
    pub(super) fn value_at_depth(&mut self, depth: usize) -> Result<&'a str, ScanFailure> {
        let first = self.peek_byte().ok_or(ScanFailure)?;
        let start = self.at;
        match first {
            b'"' => drop(self.skip_string()?),
            b'{' => self.take_members(depth + 1, |scanner, _| scanner.value_at_depth(depth + 1).map(drop))?,
            b'[' => self.take_elements(depth + 1, |scanner| scanner.value_at_depth(depth + 1).map(drop))?,
            b't' => self.skip_word("true")?,
            b'f' => self.skip_word("false")?,
            b'n' => self.skip_word("null")?,
            _ => self.skip_number()?,
        }
        self.text.get(start..self.at).ok_or(ScanFailure)
    }

    /// Takes what `take` does, from the next byte on, and returns its text.
    #[inline]
    pub(super) fn take_text(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<(), ScanFailure>,
    ) -> Result<&'a str, ScanFailure> {
        let start = self.at;
        take(self)?;
        self.text.get(start..self.at).ok_or(ScanFailure)
    }

    /// Takes an object whose brace is the next byte. `take_value` gets the name of each member, and takes its value,
    /// which is inside `depth` others.
    #[inline]
    pub(super) fn take_members(
        &mut self,
        depth: usize,
        mut take_value: impl FnMut(&mut Self, RawName<'a>) -> Result<(), ScanFailure>,
    ) -> Result<(), ScanFailure> {
        self.begin_nested(depth)?;
        if self.peek_byte() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.take_name()?;
            if self.peek_byte() != Some(b':') {
                return Err(ScanFailure);
            }
            self.at += 1;
            take_value(self, name)?;
            if !self.take_separator(b'}')? {
                return Ok(());
            }
        }
    }

    /// Takes an array whose bracket is the next byte. `take_element` takes each element, which is inside `depth`
    /// others.
    #[inline]
    pub(super) fn take_elements(
        &mut self,
        depth: usize,
        mut take_element: impl FnMut(&mut Self) -> Result<(), ScanFailure>,
    ) -> Result<(), ScanFailure> {
        self.begin_nested(depth)?;
        if self.peek_byte() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            take_element(self)?;
            if !self.take_separator(b']')? {
                return Ok(());
            }
        }
    }

    /// Takes a brace or a bracket, unless too many are open.
    #[inline]
    fn begin_nested(&mut self, depth: usize) -> Result<(), ScanFailure> {
        self.at += 1;
        if depth > self.depth_limit { Err(ScanFailure) } else { Ok(()) }
    }

    /// Takes a comma and returns true, or takes the end and returns false.
    #[inline]
    fn take_separator(&mut self, end: u8) -> Result<bool, ScanFailure> {
        let next = self.peek_byte();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(byte) if byte == end => Ok(false),
            _ => Err(ScanFailure),
        }
    }

    #[inline]
    fn take_name(&mut self) -> Result<RawName<'a>, ScanFailure> {
        if self.peek_byte() != Some(b'"') {
            return Err(ScanFailure);
        }
        let start = self.at + 1;
        let has_escapes = self.skip_string()?;
        self.text.get(start..self.at - 1).map(|text| RawName { text, has_escapes }).ok_or(ScanFailure)
    }

    /// Skips whitespace, and returns the next byte without taking it.
    #[inline]
    pub(super) fn peek_byte(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                byte => return byte.copied(),
            }
        }
    }

    /// Skips a string and returns true if it has escapes, which may be lone surrogates.
    #[inline]
    fn skip_string(&mut self) -> Result<bool, ScanFailure> {
        let bytes = self.text.as_bytes();
        let mut has_escapes = false;
        self.at += 1;
        loop {
            self.at = plain_end(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += escape_length(bytes, self.at)?;
                }
                _ => return Err(ScanFailure),
            }
        }
    }

    fn skip_word(&mut self, word: &str) -> Result<(), ScanFailure> {
        let matches = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        if matches { Ok(()) } else { Err(ScanFailure) }
    }

    fn skip_number(&mut self) -> Result<(), ScanFailure> {
        self.skip_if(|byte| byte == b'-');
        if self.skip_if(|byte| byte == b'0') {
            // "Leading zeros are not allowed" (RFC 8259 §6).
            if self.skip_digits() > 0 {
                return Err(ScanFailure);
            }
        } else if self.skip_digits() == 0 {
            return Err(ScanFailure);
        }
        if self.skip_if(|byte| byte == b'.') && self.skip_digits() == 0 {
            return Err(ScanFailure);
        }
        if self.skip_if(|byte| matches!(byte, b'e' | b'E')) {
            self.skip_if(|byte| matches!(byte, b'+' | b'-'));
            if self.skip_digits() == 0 {
                return Err(ScanFailure);
            }
        }
        Ok(())
    }

    fn skip_if(&mut self, accepts: impl Fn(u8) -> bool) -> bool {
        let is_next = self.text.as_bytes().get(self.at).is_some_and(|byte| accepts(*byte));
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }
}

/// Returns the position of the next quote, backslash or control character.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some((chunk, _)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk()) {
        let ends = string_ends(u64::from_le_bytes(*chunk));
        if ends != 0 {
            return at + (ends.trailing_zeros() / 8) as usize;
        }
        at += size_of::<u64>();
    }
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    at + bytes[at..].iter().take_while(|byte| is_plain(byte)).count()
}

/// Sets the highest bit of the first byte that is a quote, a backslash or a control character. Bits of the bytes after
/// that one may be wrong, because a subtraction borrows from them.
const fn string_ends(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    let quote = (word ^ (EACH * b'"' as u64)).wrapping_sub(EACH);
    let backslash = (word ^ (EACH * b'\\' as u64)).wrapping_sub(EACH);
    let control = word.wrapping_sub(EACH * b' ' as u64);
    // Bytes of other characters than ASCII have the highest bit themselves.
    (quote | backslash | control) & !word & (EACH << 7)
}

fn escape_length(bytes: &[u8], at: usize) -> Result<usize, ScanFailure> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => {
            let digits = bytes.get(at + 2..at + 6).ok_or(ScanFailure)?;
            if digits.iter().all(u8::is_ascii_hexdigit) { Ok(6) } else { Err(ScanFailure) }
        }
        _ => Err(ScanFailure),
    }
}
