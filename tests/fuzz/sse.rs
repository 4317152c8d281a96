//! Target `sse`: the SSE decoder against a simple reading of the standard, for every way to cut the body.

use crate::judge::Judge;
use crate::sides::cuts;
use crate::work;
use diglot::codec::sse::SseLimits;
use diglot::fuzzing::framing::{OwnedFrame, decode_sse};

const BASE_WORK: u64 = 10_000;
const WORK_PER_BYTE: u64 = 200;

pub fn run(input: &[u8]) {
    let judge = Judge { target: "sse", input };
    let (whole, work) = work::measure(|| decode_sse(SseLimits::default(), [input]));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    let expected = reference_decode(input);
    judge.require(!whole.is_refused && whole.frames == expected, || {
        format!("the standard has another result\nexpected {expected:?}\ndecoded {whole:?}")
    });
    let size = input.first().map_or(0, |byte| usize::from(*byte));
    let tight = SseLimits { line: size % 24, frame: size / 24 };
    let limited = decode_sse(tight, [input]);
    judge.require(expected.starts_with(&limited.frames), || format!("a limit changes frames: {limited:?}"));
    for pieces in cuts(input) {
        for (limits, expected) in [(SseLimits::default(), &whole), (tight, &limited)] {
            let split = decode_sse(limits, pieces.iter().copied());
            judge.require(split == *expected, || {
                format!("{limits:?}: the frames depend on the pieces\nwhole {expected:?}\nsplit {split:?}")
            });
        }
    }
}

/// Decodes a whole body as the standard specifies, ignoring limits and speed.
fn reference_decode(body: &[u8]) -> Vec<OwnedFrame> {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut data, mut event, mut id) = (String::new(), String::new(), None);
    let mut frames = Vec::new();
    // Two line ends after the body dispatch its last event, as the decoder does at a clean end.
    for line in format!("{text}\n\n").split('\n') {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                let event = Some(std::mem::take(&mut event)).filter(|event| !event.is_empty());
                if data.pop().is_some() {
                    frames.push(OwnedFrame { data: std::mem::take(&mut data), event, id: id.take() });
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
