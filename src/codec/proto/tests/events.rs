//! Events and their messages: bytes from the real encoder, decoded JSON, and carried JSON.

use super::{decode_one, encode_event, normalise_json, unhex, with_length_prefix};
use crate::codec::json;
use crate::codec::proto::value::write_struct;
use crate::codec::proto::{
    EventTooLarge, FRAME_LIMIT, MessageError, ProtoDecoder, ProtoStep, WireFidelity, encode_frame,
};
use crate::event::{Event, EventType, Field, Json};

/// Bytes that `@ag-ui/proto` 1.0.0 wrote for these events (`encode`, run under node); `tests/interop/proto.test.mjs`
/// compares many more against the encoder itself.
const WRITTEN_BY_THE_REAL_ENCODER: &[(&str, &str)] = &[
    // The example in `specs/ag-ui-1.0.md` §4.4.
    (r#"{"type":"RUN_STARTED","threadId":"th","runId":"r"}"#, "620b0a02080b120274681a0172"),
    (r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#, "0a050a0012016d"),
    (r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"t","content":[]}"#, "b2010a0a0208151a016d220174"),
    (
        r#"{"type":"CUSTOM","name":"n","value":{"b":[1,{},null,[],"x",true,-0,1e+21]},"metadata":{"z":1,"a":null}}"#,
        "5a650a1d080a22190a0e0a017a120911000000000000f03f0a070a01611202080012016e1a412a3f0a3d0a0162123832360a0911\
         000000000000f03f0a022a000a0208000a0232000a031a01780a0220010a091100000000000000800a091150efe2d6e41a4b44",
    ),
    (
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":null},{"op":"remove","path":"/b","value":3}]}"#,
        "42210a020807120812022f61220208001211080112022f622209110000000000000840",
    ),
    (
        r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"t","content":{}}"#,
        "ba010c0a0208161a016d2201742a00",
    ),
    (
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["a"]},"usage":[{},{"model":"m","inputTokens":0}]}"#,
        "6a1f0a02080c1201741a01722a07737563636573733a003a0512016d1800420161",
    ),
    (
        r#"{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}"#,
        "d201120a0208191a016d2209726561736f6e696e67",
    ),
    (
        r#"{"type":"CUSTOM","name":"n","value":"x","timestamp":-5}"#,
        "5a170a0d080a10fbffffffffffffffff0112016e1a031a0178",
    ),
];

#[test]
fn writes_the_same_bytes_as_the_reference_encoder() {
    for (event, bytes) in WRITTEN_BY_THE_REAL_ENCODER {
        let expected = with_length_prefix(&unhex(bytes));
        assert_eq!(encode_event(event), (expected.clone(), WireFidelity::Exact), "{event}");
        assert_eq!(normalise_json(&decode_one(&expected)), normalise_json(event));
    }
}

/// The client fails on a media part without its source.
#[test]
fn leaves_out_parts_with_an_unknown_source() {
    let event = |part: &str| {
        let content = format!(r#"[{{"type":"text","text":"a"}}{part}]"#);
        format!(r#"{{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"t","content":{content}}}"#)
    };
    let (bytes, fidelity) = encode_event(&event(r#",{"type":"image","source":{"type":"weird","value":"x"}}"#));
    assert_eq!(fidelity, WireFidelity::Carried);
    // The members follow the base event, which carries the original.
    let (plain, _) = encode_event(&event(""));
    let base = [0x0a, 0x02, 0x08, 0x15];
    let at = plain.windows(base.len()).position(|window| window == base).expect("the base event");
    assert!(bytes.ends_with(&plain[at + base.len()..]), "{bytes:?}");
}

/// Events that protobuf cannot express (`specs/ag-ui-1.0.md` §4.5), and a few others.
const INEXPRESSIBLE: &[&str] = &[
    r#"{"type":"CUSTOM","name":"n","value":9007199254740993}"#,
    r#"{"type":"CUSTOM","name":"n","value":[1.10]}"#,
    r#"{"type":"CUSTOM","name":"n","value":1e400}"#,
    r#"{"type":"CUSTOM","name":"n","value":"\ud800"}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"more":[]}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"metadata":[]}"#,
    r#"{"type":"CUSTOM","name":"n","value":1.0,"metadata":{"a":1,"diglot":{"x":2}}}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"metadata":{"diglot":{"json":"{}"}}}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"metadata":{"d\u0069glot":{"js\u006fn":"{\"type\":\"CUSTOM\"}"}}}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"timestamp":1.5}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"timestamp":9007199254740993}"#,
    r#"{"type":"CUSTOM","name":"n","value":1,"rawEvent":null}"#,
    r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}"#,
    r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":{"a":1}}"#,
    r#"{"type":"RUN_ERROR","message":"m","usage":[]}"#,
    r#"{"type":"RUN_ERROR","message":"m","usage":[{"inputTokens":1.5}]}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":[]}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","more":1}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","interrupts":[]}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt"}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{}}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":"success"}"#,
    r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"s","outcome":{"type":"suspended","interruptIds":[]}}"#,
    r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1,"ext":2}]}"#,
    r#"{"type":"STATE_DELTA","delta":[{"op":"merge","path":"/a","value":1}]}"#,
    r#"{"type":"STATE_DELTA","delta":[{"path":"/a","value":1}]}"#,
    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[]}}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[]}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":[{"type":"text","text":"x"}]}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user"}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":{"a":1}}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"activity","activityType":"t","content":"x"}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":[{"type":"hologram"}]}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"x"}}]}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"alien","content":[]}]}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"assistant"}, 1]}"#,
];

#[test]
fn carries_events_that_protobuf_cannot_express_in_metadata() {
    for event in INEXPRESSIBLE {
        let (bytes, fidelity) = encode_event(event);
        assert_eq!(fidelity, WireFidelity::Carried, "{event}");
        assert_eq!(normalise_json(&decode_one(&bytes)), normalise_json(event));
    }
}

/// Checks that a reader unaware of the carried JSON still finds the other metadata and everything that protobuf can
/// express.
#[test]
fn keeps_existing_metadata_with_the_carried_event() {
    let (bytes, _) = encode_event(r#"{"type":"CUSTOM","name":"n","value":1.0,"metadata":{"a":1,"diglot":{"x":2}}}"#);
    // Under another key, nothing is restored.
    let at = bytes.windows(4).position(|four| four == b"json").expect("the name");
    let renamed = [&bytes[..at], b"jsom", &bytes[at + 4..]].concat();
    let text = decode_one(&renamed);
    let object = json::parse_object(&text).expect("an event");
    let metadata = crate::event::get(&object.members, Field::Metadata).expect("metadata");
    assert!(metadata.as_str().starts_with(r#"{"a":1,"diglot":{"x":2,"jsom":"{\"type\""#), "{metadata}");
    assert_eq!(crate::event::get(&object.members, Field::Value).expect("value").as_str(), "1");
}

#[test]
fn restores_only_a_carried_event_of_the_same_type() {
    let forged = |text: &str| {
        let carried = json::build_object(|object| object.member("json", Json::string(text).as_str()));
        let metadata = json::build_object(|object| object.member("diglot", carried.as_str()));
        let mut fields = Vec::new();
        write_struct(&mut fields, metadata.as_str());
        let fields: String = fields.iter().map(|byte| format!("{byte:02x}")).collect();
        decode_one(&with_length_prefix(&unhex(&format!("5a(0a(080a 22({fields})) 12(6e))"))))
    };
    assert_eq!(forged(r#"{"type":"CUSTOM"}"#), r#"{"type":"CUSTOM"}"#);
    for text in [r#"{"type":"RAW"}"#, "{}", "[]", "x", "", r#"{"type":"CUSTOM"},"x":1"#] {
        assert!(forged(text).starts_with(r#"{"type":"CUSTOM","metadata":{"diglot":{"json":"#), "{text}");
    }
}

#[test]
fn drops_the_carried_copy_before_refusing_a_large_event() {
    let large = |length: usize, value: &'static str| {
        Event::new(EventType::Custom)
            .with(Field::Name, Json::string(&"x".repeat(length)))
            .with(Field::Value, Json::from_trusted(value))
    };
    for (length, value, expected) in [
        (FRAME_LIMIT / 3, "1.0", Ok(WireFidelity::Carried)),
        (FRAME_LIMIT / 3 * 2, "1.0", Ok(WireFidelity::Lossy)),
        (FRAME_LIMIT / 3 * 2, "1", Ok(WireFidelity::Exact)),
        (FRAME_LIMIT, "1", Err(EventTooLarge)),
    ] {
        let mut out = vec![7];
        let event = large(length, value);
        assert_eq!(encode_frame(&mut out, event.kind, &event.members), expected, "{length} {value}");
        assert!(out.len() <= FRAME_LIMIT + 1 && out[0] == 7);
        assert_eq!(out.len() == 1, expected.is_err());
    }
}

/// Messages from other encoders: message hex, and its JSON or error.
#[test]
fn decodes_messages_like_the_reference_decoder() {
    let rows: &[(&str, Result<&str, MessageError>)] = &[
        ("", Err(MessageError::Envelope)),
        // Two event types; an arm that is not a message; a base with another type; no base.
        ("1a(0a(0802) 12(61)) 12(0a(0801) 12(61))", Err(MessageError::Envelope)),
        ("0801", Err(MessageError::Envelope)),
        ("62(0a(080c) 12(7468) 1a(72))", Err(MessageError::Envelope)),
        ("62(12(7468) 1a(72))", Err(MessageError::Envelope)),
        ("68656c6c6f", Err(MessageError::Wire)),
        ("62(0a(080b)) 00", Err(MessageError::Wire)),
        ("620b 0a02 080b 12", Err(MessageError::Length)),
        ("62(0a(080b) 1205)", Err(MessageError::Length)),
        ("62(0a(080b) 12(ff61))", Err(MessageError::Utf8)),
        // Pieces of the same type merge, and the last piece of a string wins.
        ("62(0a(080b) 12(7a)) 62(1a(72)) 7801", Err(MessageError::Envelope)),
        ("62(0a(080b) 12(61) 12(7a)) 62(1a(72))", Ok(r#"{"type":"RUN_STARTED","threadId":"z","runId":"r"}"#)),
        // Unknown fields at every level, known fields with another wire type, a group: all skipped.
        (
            "a00601 62(0a(080b 7801 a206(aa)) 12(7468) 1001 1a(72) fb01 0801 fc01)",
            Ok(r#"{"type":"RUN_STARTED","threadId":"th","runId":"r"}"#),
        ),
        // Missing strings are empty; the default operation is the first; an unknown one is its number.
        ("12(0a(0801))", Ok(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":""}"#)),
        ("42(0a(0807) 12(0809))", Ok(r#"{"type":"STATE_DELTA","delta":[{"op":"9","path":""}]}"#)),
        ("42(0a(0807) 12())", Ok(r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":""}]}"#)),
        // Content by role: missing content is an empty list for a user and nothing for an assistant; not every role
        // allows parts.
        (
            "4a(0a(0808) 12(12(75736572)))",
            Ok(r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"","role":"user","content":[]}]}"#),
        ),
        (
            "4a(0a(0808) 12(12(617373697374616e74)))",
            Ok(r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"","role":"assistant"}]}"#),
        ),
        ("4a(0a(0808) 12(12(617373697374616e74) 42()))", Err(MessageError::Content)),
        ("4a(0a(0808) 12(12(75736572) 1a(78) 42()))", Err(MessageError::Content)),
        ("4a(0a(0808) 12(12(75736572) 42(0a() 12())))", Err(MessageError::Content)),
        // An interrupt has its list; a list without an outcome stays a separate member.
        (
            "6a(0a(080c) 2a(696e74657272757074))",
            Ok(r#"{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"interrupt","interrupts":[]}}"#),
        ),
        ("6a(0a(080c) 42(61))", Ok(r#"{"type":"RUN_FINISHED","threadId":"","runId":"","pendingToolCallIds":["a"]}"#)),
        // JSON has no NaN, and an empty value is not a member.
        ("3a(0a(0806) 12(11 000000000000f87f))", Ok(r#"{"type":"STATE_SNAPSHOT","snapshot":null}"#)),
        ("3a(0a(0806) 12())", Ok(r#"{"type":"STATE_SNAPSHOT"}"#)),
    ];
    for (hex, expected) in rows {
        let bytes = with_length_prefix(&unhex(hex));
        match (ProtoDecoder::default().next(&mut bytes.as_slice()), expected) {
            (ProtoStep::Event { text, .. }, Ok(expected)) => assert_eq!(text, *expected, "{hex}"),
            (ProtoStep::Malformed { error: why, message }, Err(expected)) => {
                assert_eq!((why, message), (*expected, unhex(hex)), "{hex}");
            }
            (step, _) => panic!("{hex}: {step:?}, not {expected:?}"),
        }
    }
}

#[test]
fn skips_and_counts_parts_of_a_newer_protocol() {
    // A tool result with three parts: number 9, an image whose source is number 9, and text.
    let bytes = with_length_prefix(&unhex("b201(0a(0815) 1a(6d) 22(74) 3a(4a()) 3a(12(0a(4a()))) 3a(0a(0a(78))))"));
    let step = ProtoDecoder::default().next(&mut bytes.as_slice());
    let ProtoStep::Event { text, dropped } = step else { panic!("{step:?}") };
    let expected =
        r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"t","content":[{"type":"text","text":"x"}]}"#;
    assert_eq!((text.as_str(), dropped), (expected, 2));
}

#[test]
fn distinguishes_newer_events_from_malformed_bytes() {
    let step = |hex: &str| ProtoDecoder::default().next(&mut with_length_prefix(&unhex(hex)).as_slice());
    assert_eq!(step("9a06030a0178"), ProtoStep::Unknown { message: unhex("9a06030a0178") });
    assert!(matches!(step("9a0603ffffff"), ProtoStep::Malformed { error: MessageError::Envelope, .. }));
    assert!(matches!(step("980601"), ProtoStep::Malformed { error: MessageError::Envelope, .. }));
}
