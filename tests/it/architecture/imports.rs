//! Rules for imports inside a module: files form no cycle, and a file uses only siblings that are declared above it. A
//! module can then be read, and taken apart, from one end.
//!
//! An arrow leads from a file that names an item to the file that defines it. Paths are followed through modules and
//! re-exports to the definition. Re-exports, methods and trait implementations make no arrow of their own.

use super::source::{Source, Token, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module inside the crate, such as `["proxy", "upstream"]`; empty for the crate itself.
type ModulePath = Vec<String>;

/// Files that are still part of a cycle. Add no rows; remove the row of a file that is no longer part of one.
#[rustfmt::skip]
pub(super) const STILL_CYCLIC: &[&str] = &[
];

/// Files whose `mod` declarations are not yet in the order of use. Add no rows; remove the row of a file that is in order.
#[rustfmt::skip]
pub(super) const STILL_UNORDERED: &[&str] = &[
];

/// Reports arrows to a sibling that is declared further down, apart from those of the declaring files in `known`, and rows
/// of `known` that have no such arrow. A file and the modules inside it are not siblings; the rule for cycles covers them.
pub(super) fn order_violations(files: &[(String, Source)], known: &[&str]) -> Vec<String> {
    let tree = ImportTree::read(files);
    let mut unordered = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for Arrow { from, to, line } in tree.arrows() {
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let (Some(user), Some(used)) = (from.get(shared), to.get(shared)) else { continue };
        let Some(parent) = tree.files.get(&from[..shared]) else { continue };
        let place = |name: &String| parent.children.iter().position(|child| child == name);
        if place(used) <= place(user) {
            continue;
        }
        unordered.insert(parent.path.as_str());
        if !known.contains(&parent.path.as_str()) && seen.insert((from, used)) {
            let path = &tree.files[from].path;
            found.push(format!(
                "{path}:{line}: uses `{used}`, which {} declares below `{user}`; declare it above, or cut the import",
                parent.path
            ));
        }
    }
    found.extend(
        known
            .iter()
            .filter(|path| !unordered.contains(*path))
            .map(|path| format!("STILL_UNORDERED: {path} is in order; remove it from the table")),
    );
    found
}

/// Reports the cycles between files of one top-level module, apart from files in `known`, and rows of `known` that are
/// part of no cycle.
pub(super) fn cycle_violations(files: &[(String, Source)], known: &[&str]) -> Vec<String> {
    let tree = ImportTree::read(files);
    let arrows = tree.arrows();
    let mut cyclic = BTreeSet::new();
    let mut found = Vec::new();
    for cycle in cycles(&arrows) {
        let paths: Vec<_> = cycle.iter().map(|module| tree.files[*module].path.as_str()).collect();
        cyclic.extend(paths.iter().copied());
        if let Some(new) = paths.iter().find(|path| !known.contains(path)) {
            let cut = arrows.iter().find(|arrow| tree.files[arrow.from].path == **new && cycle.contains(&arrow.to));
            let line = cut.map_or(1, |arrow| arrow.line);
            let other = cut.map_or_else(String::new, |arrow| tree.files[arrow.to].path.clone());
            found.push(format!(
                "{new}:{line}: is part of a cycle, because it uses {other}: {}; move the shared items into a file of their own",
                paths.join(" ")
            ));
        }
    }
    found.extend(
        known
            .iter()
            .filter(|path| !cyclic.contains(*path))
            .map(|path| format!("STILL_CYCLIC: {path} is part of no cycle; remove it from the table")),
    );
    found
}

/// One arrow between two files.
#[derive(Debug)]
struct Arrow<'a> {
    from: &'a ModulePath,
    to: &'a ModulePath,
    line: usize,
}

/// Finds groups of files that reach each other by arrows inside one top-level module.
fn cycles<'a>(arrows: &[Arrow<'a>]) -> Vec<Vec<&'a ModulePath>> {
    let mut next: BTreeMap<&ModulePath, BTreeSet<&'a ModulePath>> = BTreeMap::new();
    for arrow in arrows.iter().filter(|arrow| arrow.from.first() == arrow.to.first()) {
        next.entry(arrow.from).or_default().insert(arrow.to);
    }
    let mut reached: BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>> = BTreeMap::new();
    for arrow in arrows {
        reached.entry(arrow.from).or_insert_with(|| {
            let mut seen = BTreeSet::new();
            let mut open = vec![arrow.from];
            while let Some(module) = open.pop() {
                open.extend(next.get(module).into_iter().flatten().filter(|to| seen.insert(**to)));
            }
            seen
        });
    }
    let mut found: Vec<Vec<&ModulePath>> = Vec::new();
    for (module, there) in &reached {
        let cycle: Vec<_> =
            there.iter().copied().filter(|to| reached.get(*to).is_some_and(|back| back.contains(*module))).collect();
        if cycle.len() > 1 && cycle.contains(module) && !found.contains(&cycle) {
            found.push(cycle);
        }
    }
    found
}

/// The items that one file defines, and its imports.
struct FileImports {
    path: String,
    items: BTreeSet<String>,
    /// The files of the modules that are declared here, in that order.
    children: Vec<String>,
    /// Name in this file, and the path that it was imported by.
    bindings: BTreeMap<String, Vec<String>>,
    /// Names of `bindings` that other files can import from here.
    re_exports: BTreeSet<String>,
    /// Modules that are imported by `*`, with true for a re-export.
    globs: Vec<(Vec<String>, bool)>,
    /// Paths that the file's code or its private imports name, each with its line.
    uses: Vec<(usize, Vec<String>)>,
}

struct ImportTree {
    files: BTreeMap<ModulePath, FileImports>,
}

impl ImportTree {
    fn read(files: &[(String, Source)]) -> ImportTree {
        let files = files.iter().filter(|(path, _)| path.starts_with("src/") && path != "src/main.rs");
        let read = |(path, source): &(String, Source)| (module_path(path), FileImports::read(path, source));
        ImportTree { files: files.map(read).collect() }
    }

    fn arrows(&self) -> Vec<Arrow<'_>> {
        let mut found = Vec::new();
        for (from, file) in &self.files {
            for (line, path) in &file.uses {
                let target = self.resolve(from, path, 0);
                if let Some(Target::Item(to)) = target
                    && to != from
                {
                    found.push(Arrow { from, to, line: *line });
                }
            }
        }
        found
    }

    /// Finds the file that defines `path`, as written in `module`. `depth` ends the search where imports form a cycle.
    fn resolve(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<Target<'_>> {
        let (first, rest) = path.split_first()?;
        let file = self.files.get(module)?;
        let mut base = module.clone();
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()),
            name if file.children.iter().any(|child| child == name) || file.items.contains(name) => {
                return self.find(module, path, depth);
            }
            name => {
                if let Some(imported) = file.bindings.get(name) {
                    let whole: Vec<_> = imported.iter().chain(rest).cloned().collect();
                    return if depth < 6 && whole[0] != *name { self.resolve(module, &whole, depth + 1) } else { None };
                }
                return self.find_in_globs(module, path, false, depth);
            }
        }
        self.find(&base, rest, depth)
    }

    /// Finds the file that defines `path`, as seen from outside `module`.
    fn find(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<Target<'_>> {
        let (key, file) = self.files.get_key_value(module)?;
        let Some((name, rest)) = path.split_first() else { return Some(Target::Module(key)) };
        if depth > 6 {
            return None;
        }
        if name == "super" {
            return self.find(&module[..module.len().saturating_sub(1)].to_vec(), rest, depth + 1);
        }
        if file.children.contains(name) {
            let child = module.iter().chain([name]).cloned().collect();
            return self.find(&child, rest, depth);
        }
        if file.items.contains(name) {
            return Some(Target::Item(key));
        }
        if file.bindings.contains_key(name) {
            return self.resolve(module, path, depth + 1);
        }
        self.find_in_globs(module, path, true, depth).or(Some(Target::Item(key)))
    }

    fn find_in_globs(
        &self,
        module: &ModulePath,
        path: &[String],
        from_outside: bool,
        depth: usize,
    ) -> Option<Target<'_>> {
        let file = self.files.get(module)?;
        file.globs.iter().filter(|(_, is_re_export)| *is_re_export || !from_outside).find_map(|(glob, _)| {
            let Some(Target::Module(other)) = self.resolve(module, glob, depth + 1) else { return None };
            let has_name = other != module && self.has_name(other, &path[0], depth + 1);
            has_name.then(|| self.find(other, path, depth + 1)).flatten()
        })
    }

    fn has_name(&self, module: &ModulePath, name: &str, depth: usize) -> bool {
        let Some(file) = self.files.get(module) else { return false };
        file.items.contains(name)
            || file.children.iter().any(|child| child == name)
            || file.re_exports.contains(name)
            || (depth < 6 && self.find_in_globs(module, &[name.to_owned()], true, depth + 1).is_some())
    }
}

#[derive(Debug)]
enum Target<'a> {
    Item(&'a ModulePath),
    Module(&'a ModulePath),
}

fn module_path(path: &str) -> ModulePath {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    if inside == "lib" { Vec::new() } else { inside.split('/').map(str::to_owned).collect() }
}

impl FileImports {
    fn read(path: &str, source: &Source) -> FileImports {
        let mut file = FileImports {
            path: path.to_owned(),
            items: BTreeSet::new(),
            children: Vec::new(),
            bindings: BTreeMap::new(),
            re_exports: BTreeSet::new(),
            globs: Vec::new(),
            uses: Vec::new(),
        };
        let tokens = tokens(&source.code);
        let mut depth = 0_usize;
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at].1 {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => depth = depth.saturating_sub(1),
                Token::Word("use") => {
                    at = file.read_use(&tokens, at);
                    continue;
                }
                Token::Word(keyword) => {
                    if depth == 0 {
                        file.read_item(keyword, &tokens[at + 1..]);
                    }
                    at = file.read_path(&tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        file
    }

    /// Records the item that `keyword` begins, if it begins one.
    fn read_item(&mut self, keyword: &str, after: &[(usize, Token<'_>)]) {
        const ITEMS: &[&str] =
            &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];
        let name = after.iter().find_map(|(_, token)| match token {
            Token::Mark('!') => None,
            Token::Word(name) => Some(*name),
            _ => Some(""),
        });
        let Some(name) = name.filter(|name| !name.is_empty() && ITEMS.contains(&keyword)) else { return };
        let is_file = keyword == "mod" && after.get(1).is_some_and(|token| token.1 == Token::Mark(';'));
        if is_file {
            self.children.push(name.to_owned());
        } else {
            self.items.insert(name.to_owned());
        }
    }

    /// Reads the path that begins at `at`, or one name; returns where to read on.
    fn read_path(&mut self, tokens: &[(usize, Token<'_>)], mut at: usize) -> usize {
        let is_inner = at > 0 && matches!(tokens[at - 1].1, Token::Mark('.') | Token::Step);
        let (line, mut path) = (tokens[at].0, Vec::new());
        while let Some((_, Token::Word(word))) = tokens.get(at) {
            path.push((*word).to_owned());
            at += 1;
            if tokens.get(at).map(|token| token.1) != Some(Token::Step) {
                break;
            }
            at += 1;
        }
        if !is_inner {
            self.uses.push((line, path));
        }
        at
    }

    /// Reads the import that begins at `at`; returns where to read on.
    fn read_use(&mut self, tokens: &[(usize, Token<'_>)], at: usize) -> usize {
        let item = tokens[..at].iter().rposition(|(_, token)| matches!(token, Token::Mark(';' | '{' | '}' | ']')));
        let before = &tokens[item.map_or(0, |item| item + 1)..at];
        let is_re_export = before.iter().any(|(_, token)| *token == Token::Word("pub"));
        self.read_use_tree(tokens, at + 1, &[], is_re_export)
    }

    fn read_use_tree(
        &mut self,
        tokens: &[(usize, Token<'_>)],
        mut at: usize,
        before: &[String],
        is_re_export: bool,
    ) -> usize {
        let mut path = before.to_vec();
        while let Some((line, token)) = tokens.get(at) {
            at += 1;
            match token {
                Token::Step => {}
                Token::Word(word) => {
                    path.push((*word).to_owned());
                    if tokens.get(at).map(|token| token.1) == Some(Token::Step) {
                        continue;
                    }
                    if *word == "self" {
                        path.pop();
                    }
                    let mut name = path.last().cloned().unwrap_or_default();
                    if let [(_, Token::Word("as")), (_, Token::Word(other)), ..] = tokens[at..] {
                        other.clone_into(&mut name);
                        at += 2;
                    }
                    if is_re_export {
                        self.re_exports.insert(name.clone());
                    } else {
                        self.uses.push((*line, path.clone()));
                    }
                    self.bindings.insert(name, path);
                    return at;
                }
                Token::Mark('{') => {
                    while !matches!(tokens.get(at), None | Some((_, Token::Mark('}')))) {
                        let is_comma = tokens[at].1 == Token::Mark(',');
                        at = if is_comma { at + 1 } else { self.read_use_tree(tokens, at, &path, is_re_export) };
                    }
                    return at + 1;
                }
                Token::Mark('*') => {
                    self.globs.push((path, is_re_export));
                    return at;
                }
                Token::Mark(_) => return at,
            }
        }
        at
    }
}
