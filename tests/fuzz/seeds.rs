//! The first inputs of each target, from the golden cases and other files of the repository.

use crate::sides::{FILE_DIALECTS, NOW, SIDES, ids, load_file_dialect, side};
use diglot::codec::Framing;
use diglot::codec::sse::SseLimits;
use diglot::fuzzing::auth::{AUDIENCE, ISSUER, NOW as TOKEN_NOW, sign_token};
use diglot::translate::Stream;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger files are left out: they make every mutation slower, and cover little more.
const LARGEST: usize = 4 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the cases below `tests/golden/<kind>`: the two sides, and the text of the file.
fn golden(kind: &str, file: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for pair in folders(&root().join("tests/golden").join(kind)) {
        let name = pair.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((from, to)) = name.split_once("-to-") else { continue };
        // An option with a free value is not one of the sides.
        if side(from).is_none() || side(to).is_none() {
            continue;
        }
        for case in folders(&pair) {
            let text = fs::read_to_string(case.join(file)).unwrap_or_default();
            if !text.is_empty() && text.len() <= LARGEST {
                found.push((from.to_owned(), to.to_owned(), text));
            }
        }
    }
    found
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut folders: Vec<PathBuf> = entries.unwrap_or_default();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// Each case for its own client and for another one, so that every pair of sides has some.
fn with_sides(cases: Vec<(String, String, String)>) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (at, (from, to, text)) in cases.into_iter().enumerate() {
        for to in [to.as_str(), SIDES[at % SIDES.len()]] {
            inputs.push(format!("{from} {to}\n{text}").into_bytes());
        }
    }
    inputs
}

pub fn streams() -> Vec<Vec<u8>> {
    with_sides(agent_bodies())
}

/// The agents' bodies of the golden cases and of the dialect files that ship.
fn agent_bodies() -> Vec<(String, String, String)> {
    let mut bodies = Vec::new();
    for name in FILE_DIALECTS {
        let own = load_file_dialect(name).examples().0.into_iter().filter(|body| body.len() <= LARGEST);
        bodies.extend(own.map(|body| ((*name).to_owned(), "ag-ui".to_owned(), body)));
    }
    bodies.extend(golden("stream", "input.sse"));
    bodies
}

/// The dialect files that ship, each example by itself with the rules or with the request that it tests.
pub fn dialect_files() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for name in FILE_DIALECTS {
        let path = root().join(format!("config/dialects/{name}.yaml"));
        let text = fs::read_to_string(path).unwrap_or_default();
        // Variables depend on the environment.
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).map(without_variables);
        let text = lines.collect::<Vec<_>>().join("\n") + "\n";
        let Some((parts, examples)) = text.split_once("\ntests:\n") else { continue };
        let Some((head, rules)) = parts.split_once("\nevents:\n") else { continue };
        let examples = examples.split("  - name: ").skip(1);
        inputs.extend(examples.map(|example| {
            let head = if example.contains("\n    request:") { head } else { "name: agent" };
            format!("{head}\nevents:\n{rules}\ntests:\n  - name: {example}").into_bytes()
        }));
    }
    inputs
}

/// Writes the default for a variable.
fn without_variables(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, (_, after))) =
        rest.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once(":-")?)))
    {
        let (default, after) = after.split_once('}').unwrap_or((after, ""));
        out += before;
        out += default;
        rest = after;
    }
    out + rest
}

pub fn requests() -> Vec<Vec<u8>> {
    with_sides(golden("request", "input.json"))
}

pub fn sse() -> Vec<Vec<u8>> {
    let mut inputs: Vec<Vec<u8>> = [
        "data: a\n\ndata\n\nevent: e\nid: 1\ndata: b\ndata: c\n\n",
        "\u{feff}data: a\r\n\r\nretry: 7\r\rid\n: comment\ndata:b",
        "id: 1\n\ndata: a\n\nid: x\0\ndata: b\n\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    inputs.push(b"data: \xf0\x9f\x98\x80\xff\r\ndata: \xe2\x82\n\n".to_vec());
    inputs.extend(golden("stream", "input.sse").into_iter().step_by(40).map(|(_, _, text)| text.into_bytes()));
    inputs
}

/// Golden cases with ids that differ in each repetition, whole and without the ends of what they begin.
pub fn growth() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (at, (from, to, text)) in agent_bodies().into_iter().enumerate().step_by(5) {
        let frames: Vec<&str> = text.split("\n\n").filter(|frame| !frame.trim().is_empty()).collect();
        let [first, middle @ .., last] = frames.as_slice() else { continue };
        let is_begin =
            |frame: &&&str| !frame.contains("_END\"") && !frame.contains("_FINISHED\"") && !frame.contains("STOP\"");
        let begins: Vec<&str> = middle.iter().filter(is_begin).copied().collect();
        for parts in [middle.to_vec(), begins] {
            let mut repeated = String::new();
            for part in parts.iter().take_while(|part| part.len() < 500).take(8) {
                if repeated.len() + part.len() < 1000 {
                    repeated += &format!("{part}\n\n");
                }
            }
            let numbered = number_ids(repeated.trim_end());
            let to = if at % 2 == 0 { to.as_str() } else { SIDES[at % SIDES.len()] };
            inputs.push(format!("{from} {to}\n{first}\n%%\n{numbered}\n%%\n{last}").into_bytes());
        }
    }
    inputs
}

/// Appends `#` to the value of each member whose name ends like an id.
fn number_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["Id\":\"", "_id\":\"", "\"id\":\"", "Name\":\""]
        .iter()
        .filter_map(|name| rest.find(name).map(|at| at + name.len()))
        .min()
    {
        let end = rest[at..].find('"').map_or(rest.len(), |length| at + length);
        out += &rest[..end];
        // The ids of the run are those of its start.
        if !rest[..at].ends_with("threadId\":\"") && !rest[..at].ends_with("runId\":\"") {
            out.push('#');
        }
        rest = &rest[end..];
    }
    out + rest
}

pub fn protobuf() -> Vec<Vec<u8>> {
    let Some(ag_ui) = side("ag-ui") else { return Vec::new() };
    let mut inputs = Vec::new();
    let cases = golden("stream", "expected.sse").into_iter().filter(|(_, to, _)| to == "ag-ui").step_by(4);
    for (_, _, text) in cases {
        let mut stream = Stream::new(ag_ui, ag_ui, Some(ids()), SseLimits::default());
        stream.write_as(Framing::Proto);
        let mut binary = vec![b'<'];
        if stream.push(text.as_bytes(), NOW, &mut binary).is_ok() {
            inputs.push(binary);
        }
        inputs.push(format!(">{text}").into_bytes());
    }
    inputs
}

pub fn tokens() -> Vec<Vec<u8>> {
    let header = r#"{"alg":"HS256","typ":"at+jwt","kid":"a"}"#;
    let claims = format!(
        r#"{{"iss":"{ISSUER}","aud":["{AUDIENCE}"],"sub":"ada","exp":{},"iat":{},"nbf":{TOKEN_NOW}.5,"org":{{"id":"acme"}},"scope":"a b"}}"#,
        TOKEN_NOW + 60,
        TOKEN_NOW - 60,
    );
    let mut inputs = vec![
        format!("t{}", sign_token(header.as_bytes(), claims.as_bytes())),
        format!("s{header}\n{claims}"),
        format!("s{}\n{claims}", r#"{"alg":"HS256","crit":["b64"],"b64":false}"#),
        format!("s{}\n{claims}", r#"{"alg":"none"}"#),
    ];
    let keys = [
        r#"{"kty":"EC","crv":"P-256","kid":"a","use":"sig","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
        r#"{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","key_ops":["verify"],"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        r#"{"kty":"oct","k":"hunter2canary"}"#,
        r#"{"kty":"EC","crv":"P-256","d":"hunter2canary","x":"hunter2canary","y":"hunter2canary"}"#,
        r#"{"kty":"RSA","n":"hunter2canary","e":"AQAB","alg":"hunter2canary"}"#,
    ];
    inputs.push(format!("j{{\"keys\":[{}]}}", keys.join(",")));
    inputs.extend(keys.map(|key| format!("j{{\"keys\":[{key}]}}")));
    inputs.push(
        "p-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n".to_owned(),
    );
    inputs.push("p-----BEGIN RSA PRIVATE KEY-----\nhunter2canary\n-----END RSA PRIVATE KEY-----\n".to_owned());
    inputs.into_iter().map(String::into_bytes).collect()
}

pub fn proxy_header() -> Vec<Vec<u8>> {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let v2 = |command: u8, family: u8, rest: &[u8]| {
        let length = u16::try_from(rest.len()).unwrap_or_default().to_be_bytes();
        [SIGNATURE, &[command, family], &length, rest, b"GET / HTTP/1.1\r\n"].concat()
    };
    vec![
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443\r\nGET / HTTP/1.1\r\n".to_vec(),
        b"PROXY TCP6 2001:db8::7 ::1 4660 443\r\n".to_vec(),
        b"PROXY UNKNOWN ffff::1 whatever\r\n".to_vec(),
        v2(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 1, 0xbb]),
        v2(0x21, 0x21, &[7; 36]),
        v2(0x21, 0x31, &[0; 216]),
        v2(0x20, 0x00, &[]),
        v2(
            0x21,
            0x11,
            &[&[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 1, 0xbb][..], &[2, 0, 4, b'h', b'o', b's', b't', 4, 0, 0]]
                .concat(),
        ),
    ]
}

pub fn cursor() -> Vec<Vec<u8>> {
    ["aaaaaaaaaq-0", "abcdefg234-18446744073709551615", "aaaaaaaaaa-01", "-"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

pub fn config() -> Vec<Vec<u8>> {
    let mut inputs: Vec<Vec<u8>> = [
        "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}\n",
        "auth:\n  api_keys:\n    - name: a\n      header: x-key\n      keys:\n        - id: a\n          sha256: x\n",
        "auth:\n  issuers:\n    - name: a\n      issuer: https://i\n      audience: a\n      secret: x\n",
        "redis:\n  url: rediss://u:p@h:1/2\n  password: x\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    for file in ["config/diglot.yaml", "tests/it/schema/everything.yaml"] {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        // Comments are most of the first file; variables depend on the environment.
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.contains("${"));
        let text = lines.collect::<Vec<_>>().join("\n") + "\n";
        // Each key of the top level by itself, with what is below it.
        let mut section = String::new();
        for line in text.lines() {
            if !line.starts_with([' ', '-']) && !section.is_empty() {
                inputs.push(std::mem::take(&mut section).into_bytes());
            }
            section += line;
            section.push('\n');
        }
        inputs.push(section.into_bytes());
        inputs.push(text.into_bytes());
    }
    inputs
}

pub fn replay() -> Vec<Vec<u8>> {
    let inputs: [&[u8]; 5] = [
        &[0, 0, 1, 3, 2, 3, 5, 0, 3, 9, 6, 0, 7, 4, 21, 0, 33, 1, 10, 0],
        &[0, 1, 244, 200, 244, 200, 244, 200, 244, 200, 6, 0, 8, 8, 243, 99, 57, 0, 57, 1],
        &[0, 1, 0, 2, 1, 255, 13, 254, 5, 1, 5, 0, 11, 0, 4, 77, 9, 0, 9, 1, 23, 0, 0, 3, 35, 1, 47, 0],
        &[5, 0, 0, 0, 6, 0, 5, 0, 4, 1, 4, 1, 117, 0, 117, 1, 23, 0],
        &[11, 0, 0, 0, 0, 1, 0, 2, 0, 3, 4, 255, 4, 254, 4, 253, 4, 252, 6, 0, 6, 1, 6, 2, 6, 3, 23, 0, 23, 1, 0, 0],
    ];
    inputs.map(<[u8]>::to_vec).to_vec()
}
