//! The protobuf wire format: tags, varints, fields, and length-prefixed messages.

use super::MessageError;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;

/// Maximum length of a 64-bit varint in bytes.
const VARINT_BYTES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
    /// a wire type that the schema does not use
    Other,
}

/// Reads the fields of one message, skipping groups as unknown fields.
#[derive(Debug)]
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        FieldReader { rest: bytes }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, MessageError> {
        let mut groups = 0usize;
        loop {
            if self.rest.is_empty() {
                return if groups == 0 { Ok(None) } else { Err(MessageError::Wire) };
            }
            let tag = u32::try_from(self.read_varint()?).map_err(|_| MessageError::Wire)?;
            let number = tag >> 3;
            let wire_type = tag & 7;
            if number == 0 {
                return Err(MessageError::Wire);
            }
            let payload = match wire_type {
                VARINT => WireValue::Varint(self.read_varint()?),
                FIXED64 => WireValue::Double(f64::from_le_bytes(self.take_array()?)),
                BYTES => {
                    let length = usize::try_from(self.read_varint()?).map_err(|_| MessageError::Length)?;
                    WireValue::Bytes(self.take_bytes(length)?)
                }
                FIXED32 => {
                    self.take_bytes(4)?;
                    WireValue::Other
                }
                GROUP => {
                    groups += 1;
                    continue;
                }
                GROUP_END if groups > 0 => {
                    groups -= 1;
                    continue;
                }
                _ => return Err(MessageError::Wire),
            };
            if groups == 0 {
                return Ok(Some((number, payload)));
            }
        }
    }

    fn read_varint(&mut self) -> Result<u64, MessageError> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().take(VARINT_BYTES).enumerate() {
            // The tenth byte can hold only one bit.
            if at == VARINT_BYTES - 1 && byte > 1 {
                return Err(MessageError::Wire);
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(MessageError::Length)
    }

    fn take_bytes(&mut self, length: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MessageError::Length)?;
        self.rest = rest;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        self.take_bytes(N)?.try_into().map_err(|_| MessageError::Length)
    }
}

fn write_tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    write_varint(out, u64::from(number << 3 | wire_type));
}

pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

const fn low_bits(value: u64) -> u8 {
    value.to_le_bytes()[0] & 0x7f
}

pub(super) fn write_number(out: &mut Vec<u8>, field: u32, value: u64) {
    write_tag(out, field, VARINT);
    write_varint(out, value);
}

pub(super) fn write_double(out: &mut Vec<u8>, field: u32, value: f64) {
    write_tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn write_string(out: &mut Vec<u8>, field: u32, value: &str) {
    write_tag(out, field, BYTES);
    write_varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// An open message, which must be closed in the same buffer.
#[derive(Debug)]
#[must_use = "an opened message has to be closed with `end`"]
pub(super) struct LengthPrefix {
    position: usize,
    reserved: usize,
}

/// Begins a message field. If `hint` predicts its length well, [`end_message`] need not move any bytes.
pub(super) fn begin_message(out: &mut Vec<u8>, field: u32, hint: usize) -> LengthPrefix {
    write_tag(out, field, BYTES);
    let position = out.len();
    let reserved = varint_len(hint);
    out.resize(position + reserved, 0);
    LengthPrefix { position, reserved }
}

pub(super) fn end_message(out: &mut Vec<u8>, open: LengthPrefix) {
    let LengthPrefix { position: at, reserved: room } = open;
    let length = out.len() - at - room;
    let needed = varint_len(length);
    match needed.cmp(&room) {
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Less => drop(out.drain(at..at + room - needed)),
        std::cmp::Ordering::Greater => drop(out.splice(at..at, std::iter::repeat_n(0, needed - room))),
    }
    let mut value = length;
    for byte in &mut out[at..at + needed] {
        *byte = low_bits(value as u64) | 0x80;
        value >>= 7;
    }
    out[at + needed - 1] &= 0x7f;
}

const fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    if bits == 0 { 1 } else { bits.div_ceil(7) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_true_length_whatever_the_hint() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384] {
            for hint in [0, 127, 128, 20_000, 3_000_000] {
                let mut out = vec![0xee];
                let open = begin_message(&mut out, 2, hint);
                out.extend(std::iter::repeat_n(b'x', length));
                end_message(&mut out, open);
                let mut expected = vec![0xee];
                write_string(&mut expected, 2, &"x".repeat(length));
                assert_eq!(out, expected, "{length} guessed as {hint}");
            }
        }
    }

    #[test]
    fn reads_fields_and_skips_groups() {
        let bytes = [
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            // A group numbered 4 that contains a field numbered 1.
            &[0x23, 0x08, 0x01, 0x24],
            &[0x12, 0x01, b'a'],
            &[0x1d, 1, 2, 3, 4],
        ]
        .concat();
        let mut fields = FieldReader::new(&bytes);
        assert_eq!(fields.next(), Ok(Some((1, WireValue::Varint(u64::MAX)))));
        assert_eq!(fields.next(), Ok(Some((2, WireValue::Bytes(b"a")))));
        assert_eq!(fields.next(), Ok(Some((3, WireValue::Other))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn rejects_malformed_fields() {
        let rows: [(&[u8], MessageError); 9] = [
            (&[0x80], MessageError::Length),
            (&[0x08], MessageError::Length),
            (&[0x12, 0x02, b'a'], MessageError::Length),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], MessageError::Length),
            (&[0x09, 1, 2, 3], MessageError::Length),
            (&[0x00, 0x00], MessageError::Wire),
            (&[0x0c], MessageError::Wire),
            (&[0x0b], MessageError::Wire),
            (&[0x0f], MessageError::Wire),
        ];
        for (bytes, why) in rows {
            assert_eq!(FieldReader::new(bytes).next(), Err(why), "{bytes:x?}");
        }
    }
}
