//! Frames: every split, limits, and malicious bytes.

use super::{encode_event, unhex, with_length_prefix};
use crate::codec::proto::{ProtoDecoder, ProtoError, ProtoStep, to_data_url};

const EVENTS: [&str; 4] = [
    r#"{"type":"RUN_STARTED","threadId":"th","runId":"r","input":{"threadId":"th","runId":"r","messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"url","value":"u"},"metadata":{"a":[1,2]}}]}],"tools":[],"context":[],"resume":[]}}"#,
    r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"中文"}"#,
    r#"{"type":"STATE_SNAPSHOT","snapshot":{"a":[1.10,{"b":null}],"c":"x"}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"th","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"r"}]}}"#,
];

fn corpus() -> Vec<u8> {
    EVENTS.iter().flat_map(|event| encode_event(event).0).collect()
}

/// Collects the steps for these pieces.
fn steps<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<ProtoStep>, bool) {
    let (mut decoder, mut all) = (ProtoDecoder::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                ProtoStep::More => break,
                step @ ProtoStep::Failed(_) => {
                    all.push(step);
                    return (all, false);
                }
                step => all.push(step),
            }
        }
        assert!(piece.is_empty());
    }
    (all, decoder.has_partial_frame())
}

#[test]
fn decodes_the_same_frames_at_every_split() {
    let bytes = corpus();
    let (whole, cut) = steps([bytes.as_slice()]);
    assert!(!cut);
    assert_eq!(whole.len(), EVENTS.len());
    assert!(whole.iter().all(|step| matches!(step, ProtoStep::Event { dropped: 0, .. })), "{whole:?}");
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(steps([first, second]).0, whole, "cut at {at}");
    }
    assert_eq!(steps(bytes.chunks(1)).0, whole);
    // A body that ends in the middle of a frame.
    let (all, cut) = steps([&bytes[..bytes.len() - 1]]);
    assert_eq!((all.len(), cut), (EVENTS.len() - 1, true));
}

#[test]
fn rejects_a_frame_by_its_declared_size() {
    let fault = ProtoError::FrameTooLarge { limit: 20 };
    let mut decoder = ProtoDecoder::new(20);
    let mut rest: &[u8] = &[0, 0, 0, 17, 1, 2];
    assert_eq!(decoder.next(&mut rest), ProtoStep::Failed(fault));
    let mut rest: &[u8] = &[];
    assert_eq!(decoder.next(&mut rest), ProtoStep::Failed(fault), "and nothing is read after it");
    let mut rest: &[u8] = &[0, 0, 0, 16];
    assert_eq!(ProtoDecoder::new(20).next(&mut rest), ProtoStep::More);
    let mut rest: &[u8] = &[0xff; 8];
    assert!(matches!(ProtoDecoder::default().next(&mut rest), ProtoStep::Failed(_)));
}

/// Two bytes of protobuf can become thirty of JSON.
#[test]
fn rejects_a_frame_with_json_over_the_limit() {
    let list: Vec<u8> = std::iter::repeat_n([0x12, 0], 50).flatten().collect();
    let message = [&unhex("4a68 0a020808")[..], &list].concat();
    let bytes = with_length_prefix(&message);
    assert!(matches!(
        ProtoDecoder::new(200).next(&mut bytes.as_slice()),
        ProtoStep::Failed(ProtoError::FrameTooLarge { limit: 200 })
    ));
    assert!(matches!(ProtoDecoder::new(2000).next(&mut bytes.as_slice()), ProtoStep::Event { .. }));
}

#[test]
fn encodes_an_unknown_message_as_a_data_url() {
    for (message, text) in [("", ""), ("66", "Zg=="), ("666f", "Zm8="), ("666f6f", "Zm9v"), ("fbff", "+/8=")] {
        assert_eq!(to_data_url(&unhex(message)), format!("data:application/vnd.ag-ui.event+proto;base64,{text}"));
    }
}

/// Generates pseudo-random numbers (Knuth's MMIX constants).
fn next_random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default()
}

#[test]
fn survives_mutated_frames_and_yields_only_json_objects() {
    let valid = corpus();
    let mut seed = 1;
    for round in 0..10_000 {
        let mut bytes = valid.clone();
        for _ in 0..1 + next_random(&mut seed) % 4 {
            let at = next_random(&mut seed) % bytes.len();
            let byte = u8::try_from(next_random(&mut seed) % 256).unwrap_or_default();
            match next_random(&mut seed) % 4 {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        for step in steps([bytes.as_slice()]).0 {
            if let ProtoStep::Event { text, .. } = step {
                let object =
                    crate::codec::json::parse_object(&text).unwrap_or_else(|error| panic!("{round}: {error}: {text}"));
                assert!(object.kind.is_some());
            }
        }
    }
}
