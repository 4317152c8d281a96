//! Target `protobuf`: the binary transport of AG-UI, both ways.
//!
//! An input begins with `<` and has a body in protobuf, or with `>` and has one in server-sent events.
//!
//! The laws: frames do not depend on the pieces; what is written in protobuf and read again is what would have been written as text
//! (L1), and the verifier accepts it; the work is linear.

use crate::exact_json::canonical;
use crate::judge::{Judge, accepts, frames};
use crate::sides::{NOW, cuts, ids, side};
use crate::work;
use diglot::codec::Framing;
use diglot::codec::proto::{ProtoDecoder, ProtoStep};
use diglot::codec::sse::SseLimits;
use diglot::translate::{EventLoss, Stream};

const BASE_WORK: u64 = 200_000;
const WORK_PER_BYTE: u64 = 2_000;

pub fn run(input: &[u8]) {
    let judge = Judge { target: "protobuf", input };
    let (framing, body) = match input {
        [b'<', body @ ..] => (Framing::Proto, body),
        [b'>', body @ ..] => (Framing::Sse, body),
        _ => return,
    };
    if framing == Framing::Proto {
        check_decoder(&judge, body);
    }
    let ((text, losses), work) = work::measure(|| translate(body, framing, Framing::Sse));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    let Some(ag_ui) = side("ag-ui") else { return };
    if let Err(why) = accepts(ag_ui, ag_ui, &text) {
        judge.fail(&format!("{why}\noutput\n{}", String::from_utf8_lossy(&text)));
    }
    let binary = translate(body, framing, Framing::Proto);
    judge.require(binary.1 == losses, || format!("protobuf loses more: {losses:?} {:?}", binary.1));
    let (back, _) = translate(&binary.0, Framing::Proto, Framing::Sse);
    let [expected, back] =
        [&text, &back].map(|body| frames(body).iter().map(|frame| canonical(frame)).collect::<Vec<_>>());
    judge.require(expected == back, || {
        let at = (0..expected.len().max(back.len())).find(|at| expected.get(*at) != back.get(*at)).unwrap_or_default();
        format!("L1 does not hold at {at}\ntext     {:?}\nprotobuf {:?}", expected.get(at), back.get(at))
    });
}

fn translate(body: &[u8], read: Framing, write: Framing) -> (Vec<u8>, [u32; EventLoss::ALL.len()]) {
    let Some(ag_ui) = side("ag-ui") else { return Default::default() };
    let mut stream = Stream::new(ag_ui, ag_ui, Some(ids()), SseLimits::default());
    stream.read_as(read);
    stream.write_as(write);
    let mut out = Vec::new();
    let read = stream.push(body, NOW, &mut out).and_then(|()| stream.finish(NOW, &mut out));
    if let Err(error) = read {
        stream.fail("stopped", &error.to_string(), NOW, &mut out);
    }
    (out, stream.report().losses)
}

fn check_decoder(judge: &Judge<'_>, body: &[u8]) {
    let whole = decode(&[body]);
    for step in &whole {
        if let ProtoStep::Event { text, .. } = step {
            let read = canonical(text);
            judge.require(!read.contains("<<"), || format!("an event is no JSON with unique keys: {read}"));
        }
    }
    for pieces in cuts(body) {
        let split = decode(&pieces);
        judge.require(split == whole, || format!("frames depend on the pieces\nwhole {whole:?}\nsplit {split:?}"));
    }
}

fn decode(pieces: &[&[u8]]) -> Vec<ProtoStep> {
    let (mut decoder, mut steps) = (ProtoDecoder::default(), Vec::new());
    for mut piece in pieces.iter().copied() {
        loop {
            match decoder.next(&mut piece) {
                ProtoStep::More => break,
                step @ ProtoStep::Failed(_) => {
                    steps.push(step);
                    return steps;
                }
                step => steps.push(step),
            }
        }
    }
    steps
}
