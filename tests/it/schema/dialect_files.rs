//! The JSON Schema of dialect files: it accepts the files that ship and every form of the reference, refuses what `check`
//! refuses for its form, and refuses nothing that `check` accepts.

use super::{mutations, read, schema_errors, visit_values};
use crate::support::gateway::diglot;
use crate::support::temp_folder::TempFolder;
use diglot::config::dialect_file_schema;
use serde_json::Value;

const FILES: [&str; 3] = ["openai-chat.yaml", "dify-chat.yaml", "coze-chat.yaml"];

/// Returns the first problem of each document, if any.
fn check_documents(documents: &[String]) -> Vec<Option<String>> {
    let folder = TempFolder::new();
    let paths: Vec<_> = (0..documents.len()).map(|at| folder.join(&format!("{at}.yaml"))).collect();
    for (path, document) in paths.iter().zip(documents) {
        std::fs::write(path, document).expect("a file");
    }
    let output =
        diglot().args(["check", "--test", "--format", "json"]).args(&paths).output().expect("the program runs");
    let problems: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let of_file = |path: &std::path::PathBuf| problems.iter().find(|problem| problem["file"].as_str() == path.to_str());
    paths.iter().map(|path| of_file(path).map(|problem| problem["message"].to_string())).collect()
}

#[test]
fn shipped_files_match_the_schema() {
    let documents = FILES.map(|file| read(&format!("config/dialects/{file}")));
    for (file, wrong) in FILES.iter().zip(schema_errors(&dialect_file_schema(), &documents)) {
        assert_eq!(wrong, None, "{file}");
    }
}

const DONE: &str = "events: [{done: true}]\n";

#[test]
fn schema_and_check_refuse_the_same_mistakes() {
    let wrong = [
        ("no name", DONE.to_owned()),
        ("no rules", "name: a\n".to_owned()),
        ("another key", format!("name: a\nevent: []\n{DONE}")),
        ("a name with blanks", format!("name: A b\n{DONE}")),
        ("a rule without an effect", "name: a\nevents: [{has: x}, {done: true}]\n".to_owned()),
        ("a misspelt effect", "name: a\nevents: [{has: x, emits: {}}, {done: true}]\n".to_owned()),
        ("an end that is none", "name: a\nevents: [{done: yes}]\n".to_owned()),
        ("two ends", "name: a\nevents: [{done: true, fail: {message: x}}]\n".to_owned()),
        ("a success that fails", "name: a\nevents: [{finish: {}, fail: {message: x}}]\n".to_owned()),
        ("an event without a type", "name: a\nevents: [{emit: {delta: x}, done: true}]\n".to_owned()),
        ("an unknown event", "name: a\nevents: [{emit: {type: TEXT}, done: true}]\n".to_owned()),
        ("an event that comes by itself", "name: a\nevents: [{emit: {type: RUN_STARTED}, done: true}]\n".to_owned()),
        (
            "a member of another event",
            "name: a\nevents: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: x, toolCallName: y}, done: true}]\n".to_owned(),
        ),
        ("a piece without text", "name: a\nevents: [{emit: {type: TEXT_MESSAGE_CHUNK}, done: true}]\n".to_owned()),
        (
            "a piece with both texts",
            "name: a\nevents: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: x, content: y}, done: true}]\n".to_owned(),
        ),
        ("a step without a name", "name: a\nevents: [{emit: {type: STEP_STARTED}, done: true}]\n".to_owned()),
        (
            "a result without a call",
            "name: a\nevents: [{emit: {type: TOOL_CALL_RESULT, content: x}, done: true}]\n".to_owned(),
        ),
        ("an unknown member of the end", "name: a\nevents: [{finish: {useage: 1}}]\n".to_owned()),
        ("an unknown part of an error", "name: a\nevents: [{done: true}, {fail: {mesage: x}}]\n".to_owned()),
        ("a kept name with a blank", "name: a\nevents: [{set: {a b: x}, done: true}]\n".to_owned()),
        ("an object in place of a value to compare", "name: a\nevents: [{when: {a: {b: 1}}, done: true}]\n".to_owned()),
        ("nothing to compare with", "name: a\nevents: [{when: {a: []}, done: true}]\n".to_owned()),
        (
            "a place without quotes",
            // The validator takes an empty value as a text, editors as null.
            "name: a\nevents: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: {text: null}}, done: true}]\n".to_owned(),
        ),
        ("an example without an end", format!("name: a\n{DONE}tests: [{{stream: x}}]\n")),
    ];
    let documents: Vec<String> = wrong.iter().map(|(_, document)| document.clone()).collect();
    let checked = check_documents(&documents);
    for ((cause, document), (by_schema, by_check)) in
        wrong.iter().zip(schema_errors(&dialect_file_schema(), &documents).into_iter().zip(checked))
    {
        assert!(by_check.is_some(), "{cause}: the check accepts it\n{document}");
        assert!(by_schema.is_some(), "{cause}: the schema accepts it\n{document}");
    }
}

/// The files that ship, broken at every place outside of their examples.
#[test]
fn schema_refuses_nothing_that_check_accepts() {
    let mut broken = Vec::new();
    for file in FILES {
        let mut whole: Value = serde_saphyr::from_str(&read(&format!("config/dialects/{file}"))).expect("YAML");
        whole.as_object_mut().expect("a mapping").remove("tests");
        let mut pointers = Vec::new();
        visit_values(&whole, &mut String::new(), &mut |pointer| pointers.push(pointer.to_owned()));
        // Rules are alike, so that every third place shows the same.
        for pointer in pointers.iter().step_by(3) {
            mutations(&whole, pointer, &mut broken);
        }
    }
    let documents: Vec<String> = broken.iter().map(|(_, document)| document.to_string()).collect();
    let by_schema = schema_errors(&dialect_file_schema(), &documents);
    let checked = check_documents(&documents);
    let mut differences = String::new();
    let mut refused = 0;
    for ((cause, _), (by_schema, by_check)) in broken.iter().zip(by_schema.into_iter().zip(checked)) {
        match (by_schema, by_check) {
            (Some(wrong), None) => differences += &format!("{cause}: {wrong}\n"),
            (Some(_), Some(_)) => refused += 1,
            (None, _) => {}
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(refused > 100, "{refused} of {} were refused by both", broken.len());
}
