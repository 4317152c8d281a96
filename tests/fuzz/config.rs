//! Target `config`: a configuration file.
//!
//! The laws: no message, and not the effective configuration, quotes a secret; loading again gives the same; the effective
//! configuration of a valid file without secrets is a valid file with the same effect; the work is linear.

use crate::judge::Judge;
use crate::work;
use diglot::fuzzing::config::{LoadedText, load_config, plant_secrets};

const BASE_WORK: u64 = 2_000_000;
const WORK_PER_BYTE: u64 = 10_000;

/// The secret that must not be quoted.
pub const CANARY: &str = "hunter2canary";

/// Keys whose value is a secret wherever they are.
const SECRET_KEYS: [&str; 3] = ["secret", "password", "sha256"];

pub fn run(input: &[u8]) {
    // A reference to a variable would make the result depend on the environment.
    if input.windows(2).any(|two| two == b"${") || input.windows(CANARY.len()).any(|word| word == CANARY.as_bytes()) {
        return;
    }
    let judge = Judge { target: "config", input };
    let (loaded, work) = work::measure(|| load_config(input));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    judge.require(load_config(input) == loaded, || "loading again gives another result".to_owned());
    if let Some(effective) = loaded.effective.as_deref().filter(|effective| !effective.contains("***")) {
        let again = load_config(effective.as_bytes());
        judge.require(again.effective.as_deref() == Some(effective) || has_digest(effective), || {
            format!("the effective configuration has another effect\n{effective}\n{again:#?}")
        });
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let planted = [plant_secrets(text, CANARY), plant_in_lines(text)];
    for text in planted.into_iter().flatten() {
        let LoadedText { effective, messages } = load_config(text.as_bytes());
        let shown = messages + &effective.unwrap_or_default();
        judge.require(!shown.contains(CANARY), || format!("a secret is quoted\n{text}\nshown\n{shown}"));
    }
}

/// The digest of an API key is shortened in the effective configuration.
fn has_digest(effective: &str) -> bool {
    effective.contains("sha256:")
}

/// Writes the canary into each line `secret: …`, also where the text is no YAML.
fn plant_in_lines(text: &str) -> Option<String> {
    let mut planted = false;
    let lines = text.lines().map(|line| {
        let bare = line.trim_start_matches([' ', '-']);
        let key = bare.split(':').next().unwrap_or_default();
        if SECRET_KEYS.contains(&key) && bare.len() > key.len() {
            planted = true;
            format!("{}{key}: {CANARY}\n", &line[..line.len() - bare.len()])
        } else {
            format!("{line}\n")
        }
    });
    let text: String = lines.collect();
    planted.then_some(text)
}
