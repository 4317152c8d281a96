//! `deploy/threat-model.md` names tests; each of them must exist.

use std::fs;
use std::path::Path;

#[test]
fn tests_named_in_the_threat_model_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("deploy/threat-model.md")).expect("the page");
    let mut count = 0;
    for span in page.split('`').skip(1).step_by(2).filter(|span| span.contains("::")) {
        let (module, name) = span.rsplit_once("::").expect("a module and a name");
        let folder = if module.starts_with("src/") { "" } else { "tests/it/" };
        let path = format!("{folder}{}.rs", module.replace("::", "/"));
        let source = fs::read_to_string(root.join(&path)).unwrap_or_else(|error| panic!("{span}: {path}: {error}"));
        assert!(source.contains(&format!("fn {name}(")), "{span}: {path} has no test {name}");
        count += 1;
    }
    assert!(count >= 30, "only {count} tests are named");
}
