//! Hand-written pages: links resolve, the README stays short, and its Chinese version has the same blocks.
//! `tests/interop/docs.test.mjs` runs the blocks, with the real packages.

mod markdown;

use markdown::Page;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest README that a newcomer reads in five minutes.
const LONGEST: usize = 250;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of the repository, by its path from the root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = folder.join(&name);
            if entry.file_type().expect("a type").is_dir() {
                if !name.starts_with('.') && !["target", "node_modules", "golden"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                let text = std::fs::read_to_string(root().join(&path)).expect("a page in UTF-8");
                found.insert(path, Page::read(&text));
            }
        }
    }
    found
}

/// `to` as seen from the folder of `from`, without `..`; `None` where it leaves the repository.
fn resolve(from: &Path, to: &str) -> Option<PathBuf> {
    let mut path: Vec<&str> = from.parent()?.iter().map(|part| part.to_str().expect("UTF-8")).collect();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()?),
            name => path.push(name),
        }
    }
    Some(path.iter().collect())
}

/// Returns the fault of a link, if any.
fn link_error(pages: &BTreeMap<PathBuf, Page>, from: &Path, link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let Some(target) = (if path.is_empty() { Some(from.to_owned()) } else { resolve(from, path) }) else {
        return Some("leaves the repository");
    };
    if !root().join(&target).exists() {
        return Some("names no file");
    }
    let anchor = anchor?;
    match pages.get(&target) {
        Some(page) if page.anchors.iter().any(|known| known == anchor) => None,
        Some(_) => Some("names no heading of its page"),
        None => Some("has an anchor, and its file is no page"),
    }
}

#[test]
fn every_link_resolves() {
    let pages = pages();
    assert!(pages.len() > 8, "only {} pages", pages.len());
    let links = pages.iter().flat_map(|(from, page)| page.links.iter().map(move |link| (from, link)));
    let wrong: Vec<_> = links
        .filter_map(|(from, (line, link))| {
            link_error(&pages, from, link).map(|why| format!("{}:{line}: {link} {why}", from.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn deploy_index_lists_every_page() {
    let pages = pages();
    let index = &pages[Path::new("deploy/README.md")];
    let others = pages.keys().filter(|path| path.parent() == Some(Path::new("deploy")) && !path.ends_with("README.md"));
    let missing: Vec<_> = others
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            !index.links.iter().any(|(_, link)| link.split('#').next() == Some(name))
        })
        .collect();
    assert!(missing.is_empty(), "deploy/README.md does not name {missing:?}");
}

#[test]
fn readme_stays_below_its_line_limit() {
    for name in ["README.md", "README.zh.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect("the page");
        assert!(text.lines().count() <= LONGEST, "{name} has {} lines, and may have {LONGEST}", text.lines().count());
    }
}

/// Blocks are equal except for comments, so tests of the English ones cover both.
#[test]
fn chinese_readme_has_the_same_blocks_and_links() {
    let pages = pages();
    let [english, chinese] = ["README.md", "README.zh.md"].map(|name| &pages[Path::new(name)]);
    for (one, other) in english.blocks.iter().zip(&chinese.blocks) {
        assert_eq!(
            one.without_comments(),
            other.without_comments(),
            "README.md:{} README.zh.md:{}",
            one.line,
            other.line
        );
    }
    assert_eq!(english.blocks.len(), chinese.blocks.len(), "as many blocks");
    let targets = |page: &Page| {
        let mut all: Vec<_> = page.links.iter().map(|(_, link)| link.replace(".zh.md", ".md")).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(targets(english), targets(chinese), "the same links");
}
