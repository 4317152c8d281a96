//! Random bytes in random pushes, compared with a simple parse of the whole body.

use super::*;

/// Generates the same numbers in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn random_bytes(&mut self) -> Vec<u8> {
        let spices: &[&[u8]] = &[
            b"data",
            b"\n\ndata:",
            b"\n\ndata:",
            b"\nid:",
            b"\nevent:",
            b"data:",
            b"data: ",
            b"event",
            b"event:",
            b"id:",
            b"id",
            b"retry:",
            b":",
            b" ",
            b"\n",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b"\0",
            b"7",
            b"{}",
            b"\xEF\xBB\xBF",
            b"\xEF",
            b"\xE2\x82\xAC",
            b"\xF0\x9F",
            b"\x98",
            b"\xC3",
        ];
        let mut soup = Vec::new();
        for _ in 0..self.next_below(60) {
            match self.next_below(12) {
                0 => soup.push(u8::try_from(self.next_below(256)).unwrap()),
                _ => soup.extend_from_slice(spices[self.next_below(spices.len())]),
            }
        }
        soup
    }

    fn random_pushes<'a>(&mut self, mut body: &'a [u8]) -> Vec<&'a [u8]> {
        let most = 1 + self.next_below(40);
        let mut pushes = Vec::new();
        while !body.is_empty() {
            let (push, rest) = body.split_at(self.next_below(most + 1).min(body.len()));
            pushes.push(push);
            body = rest;
        }
        pushes
    }
}

/// Decodes a whole body as the standard specifies, ignoring limits and speed.
fn reference_decode(body: &[u8]) -> Vec<Seen> {
    let text = String::from_utf8_lossy(body);
    let text = with_lf(text.strip_prefix('\u{FEFF}').unwrap_or(&text));
    let (mut data, mut event, mut id) = (String::new(), String::new(), None);
    let mut frames = Vec::new();
    // Two line ends after the body dispatch its last event, as `finish` does.
    for line in format!("{text}\n\n").lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                let name = Some(std::mem::take(&mut event)).filter(|name| !name.is_empty());
                if data.pop().is_some() {
                    frames.push((std::mem::take(&mut data), name, id.take()));
                }
            }
            "data" => data.extend([value, "\n"]),
            "event" => value.clone_into(&mut event),
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            _ => {}
        }
    }
    frames
}

#[test]
fn decodes_random_bytes_as_the_standard_does() {
    let mut numbers = Numbers(1);
    let mut frames = 0;
    for round in 0..10_000 {
        let soup = numbers.random_bytes();
        let expected = reference_decode(&soup);
        let reading = read_pushes(SseLimits::default(), numbers.random_pushes(&soup));
        assert_eq!(reading.frames, expected, "round {round}: {}", soup.escape_ascii());
        assert_eq!(reading.fault, None);
        frames += expected.len();

        let tight = SseLimits { line: numbers.next_below(20), frame: numbers.next_below(12) };
        let reading = read_pushes(tight, [&*soup]);
        assert_eq!(read_pushes(tight, numbers.random_pushes(&soup)), reading, "{}", soup.escape_ascii());
        assert!(expected.starts_with(&reading.frames), "a limit only ends the stream");
    }
    assert!(frames > 10_000, "the soups hold frames");
}
