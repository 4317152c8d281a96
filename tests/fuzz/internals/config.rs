//! The configuration; a module of `config`, whose parts are private to it.
#![allow(missing_docs, reason = "the targets that use it describe it")]

use super::dialect_file::{DialectFile, ExampleInput};
use super::schema::secrets::{holds_secrets, is_sensitive_path};
use super::{effective, intern_file_dialect, load};
use crate::dialect::PeerDialect;
use serde_json::Value;
use std::path::Path;

/// The output of a load.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadedText {
    /// the effective configuration, if the file is valid
    pub effective: Option<String>,
    /// everything else that is shown to an operator or logged
    pub messages: String,
}

/// Loads and prints a configuration as `diglot check` and a reload do. Without environment variables of its own it must be run
/// in a process that has no variable named in the text.
#[must_use]
pub fn load_config(text: &[u8]) -> LoadedText {
    let path = Path::new("/etc/diglot/diglot.yaml");
    let checked = load::load_bytes(path, text, |_, _, _| Ok(())).map(|_| ());
    let mut messages = checked.err().map(|problems| format!("{problems}\n{problems:?}\n")).unwrap_or_default();
    match effective::load_effective(path, text, |_, _, _| Ok(())) {
        Ok(loaded) => {
            messages += &format!("{:?}{:?}", loaded.warnings, loaded.config);
            LoadedText { effective: Some(loaded.yaml), messages }
        }
        Err(problems) => {
            messages += &format!("{problems}\n{problems:?}");
            LoadedText { effective: None, messages }
        }
    }
}

/// A dialect file, compiled.
#[derive(Debug)]
pub struct CompiledDialect(DialectFile);

impl CompiledDialect {
    /// Compiles a file without environment variables. Fails with what is shown to an operator.
    pub fn compile(text: &[u8]) -> Result<Self, String> {
        let compiled = DialectFile::compile("/etc/diglot/agent.yaml", text, &|_| None);
        compiled.map(CompiledDialect).map_err(|problems| problems.to_string())
    }

    /// Returns the agent of the dialect, which lives as long as the process.
    #[must_use]
    pub fn agent(&self) -> PeerDialect {
        PeerDialect::new(intern_file_dialect(self.0.dialect.clone()))
    }

    /// Returns the agents' bodies and AG-UI's requests of the file's own examples.
    #[must_use]
    pub fn examples(&self) -> (Vec<String>, Vec<String>) {
        let (mut bodies, mut requests) = (Vec::new(), Vec::new());
        for example in &self.0.examples {
            match &example.input {
                ExampleInput::Stream { bytes, .. } => bodies.push(bytes.clone()),
                ExampleInput::Answer { .. } => {}
                ExampleInput::Request { input, .. } => requests.push(input.as_str().to_owned()),
            }
        }
        (bodies, requests)
    }
}

/// Writes `canary` for every scalar at a sensitive place. Returns `None` if the text is no YAML mapping or has no such place.
#[must_use]
pub fn plant_secrets(text: &str, canary: &str) -> Option<String> {
    let mut document: Value = serde_saphyr::from_str(text).ok().filter(Value::is_object)?;
    let mut planted = 0;
    plant_below(&mut document, &mut String::new(), canary, &mut planted);
    (planted > 0).then(|| serde_saphyr::to_string(&document).ok()).flatten()
}

fn plant_below(value: &mut Value, path: &mut String, canary: &str, planted: &mut usize) {
    let length = path.len();
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                plant_below(member, path, canary, planted);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                plant_below(item, path, canary, planted);
                path.truncate(length);
            }
        }
        // Any name is valid for a new directory.
        scalar if path != "run_dir" && (is_sensitive_path(path) || !path.is_empty() && holds_secrets(path)) => {
            *scalar = canary.into();
            *planted += 1;
        }
        _ => {}
    }
}
