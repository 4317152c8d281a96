//! Rules for names: banned words, unique type names, functions that are verbs.

use super::source::{Source, Token, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Words that identifiers and file names in `src/` must not contain, with the replacements.
#[rustfmt::skip]
pub(super) const BANNED_WORDS: &[(&str, &str)] = &[
    ("told tell tells telling", "software is not told anything; `notify`, `report`, `set`, or the noun of the value"),
    ("said say says saying", "a peer sends, a configuration sets, a table has; `text`, `sent`, `name`"),
    ("heard hear hears hearing", "`receive`, `received`"),
    ("asked ask asks asking", "a caller requests and a function checks: `request`, `requested`, `query`"),
    ("seat seats seated", "`slot`, `permit`, `instance`, or the type's own name"),
    ("desk desks", "`registry`, `store`, `gateway`"),
    ("door doors", "`listener`, `entry`, `ingress`"),
    ("home homes", "`location`, `owner`, `module`"),
    ("roster rosters", "`set`, `members`, `registry`"),
    ("audience audiences", "`subscribers`, `readers`; only the `aud` of a token has an audience"),
    ("standing standings", "`state`, `status`, `active`"),
    ("slip slips", "`typo`, `mistake`"),
    ("errand errands", "`task`, `job`, `request`"),
    ("patience", "`timeout`, `grace`, `deadline`"),
    ("doubt doubts", "`warning`, `lint`, `uncertain`"),
    ("wish wishes", "`preference`, `option`, `requested`"),
    ("beside", "`extra`, `sibling`, `alongside` in prose"),
    ("attend attends attending", "`serve`, `wait_for`, `handle`"),
    ("entrance", "`entry`, `ingress`"),
    ("whose who whom whoever", "name the thing: `caller`, `owner`, `key_source`"),
    ("nobody somebody anybody", "name the thing: `anonymous`, `unowned`, `any_caller`"),
    ("news", "`update`, `change`, `event`"),
    ("upkeep", "`maintenance`, `refresh`, `renewal`"),
    ("fate", "`outcome`, `result`"),
    ("believe believed believes", "`trust`, `trusted`, `assume`"),
    ("spell spells spelt", "`format`, `write`, `notation`"),
    ("noted", "`recorded`, `note`"),
    ("tale tales", "`log`, `record`"),
];

/// Identifiers that may contain a banned word: the beginning of the path, the identifier, and the reason.
#[rustfmt::skip]
const ALLOWED_NAMES: &[(&str, &str, &str)] = &[
    ("src/", "audience", "`aud` of a token (RFC 7519): the configuration key has this name"),
    ("src/", "audiences", "`aud` of a token (RFC 7519): the configuration key has this name"),
    ("src/", "check_audience", "`aud` of a token (RFC 7519)"),
    ("tests/fuzz/", "AUDIENCE", "`aud` of a token (RFC 7519)"),
    ("tests/fuzz/", "audiences", "the field of the configuration"),
    ("src/", "Audience", "`aud` of a token (RFC 7519)"),
    ("tests/it/", "AUDIENCE", "`aud` of a token (RFC 7519)"),
    ("src/cli/top/screen.rs", "Home", "a key of the keyboard"),
    ("src/telemetry/internal_event/run.rs", "home", "key of a log field that operators may query"),
];

/// Names of the standard library that a type of this crate must not take.
const STANDARD_NAMES: &[&str] = &[
    "Any", "Arc", "Box", "Cow", "Debug", "Default", "Display", "Drop", "Duration", "Err", "Error", "Fn", "From",
    "Future", "Instant", "Into", "Iterator", "None", "Ok", "Option", "Ordering", "Path", "Pin", "Rc", "Result", "Self",
    "Send", "Some", "String", "Sync", "Vec",
];

/// Type names that two types may share: the name, and the reason.
#[rustfmt::skip]
pub(super) const SHARED_TYPE_NAMES: &[(&str, &str)] = &[
    ("SpanRecorder", "one with the feature `otel`, one without it: a build has one of the two"),
    ("SpanRecording", "one with the feature `otel`, one without it: a build has one of the two"),
];

/// The largest share of one-word type names, in per cent. A single word often names a type of another module as well.
const MOST_ONE_WORD_TYPES: usize = 45;

/// Participles, pronouns and adverbs that must not name a function. A function is named by a verb or by the noun that it returns.
#[rustfmt::skip]
const NO_FUNCTION_NAMES: &str = "above added after again agreed allowed already also alone anew answered any apart applied asked away \
    back before began begun behind below beside between both bound broken brought built by called carried changed checked chosen closed \
    come counted declared done due each either else ended enough ever expected expired explained far fed filled finished first \
    followed for found free from full given going gone had handled has heard held here hidden how in inside its just kept known last \
    later left less lost made many masked meant mended more most moved named near needed neither never new_one next_one none noted now of off on one only \
    opened other others out outside own parted passed past picked placed proved quoted ready read_on received reached refused \
    rest rewritten said same seen sent served settled shaped shown signed since so some soon spent spoken standing started still \
    stopped such taken that their then there these this those through told together too took torn turned under until unknown used \
    waited wanted well what when where whether which whole whose why with within without woken worth written yet";

/// Functions that may have a name from that list: the name, and the reason.
#[rustfmt::skip]
const ALLOWED_FUNCTIONS: &[(&str, &str)] = &[
    ("from", "of the trait `From`"),
    ("with", "adds to a value that is being built, as in the standard library"),
    ("last", "the last element, as in the standard library"),
    ("changed", "waits for a change, as `tokio::sync::watch::Receiver::changed` does"),
    ("closed", "builds the schema of an object that is closed, alongside `open`, as JSON Schema calls them"),
];

/// The kinds of definitions that have rules of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    /// `struct`, `enum`, `union`, `trait` and free-standing `type`.
    Type,
    Function,
    /// A field, a variant, a constant or a module.
    Other,
}

/// One name that a file defines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) kind: DefinitionKind,
}

/// Reports each definition of one file that breaks a naming rule.
pub(super) fn report_names(path: &str, source: &Source, report: &mut impl FnMut(usize, String)) {
    for part in path.trim_end_matches(".rs").split('/') {
        report_banned_words(path, part, 1, report);
    }
    for Definition { line, name, kind } in definitions(source) {
        report_banned_words(path, &name, line, report);
        if kind == DefinitionKind::Type && STANDARD_NAMES.contains(&name.as_str()) {
            report(line, format!("the type `{name}` hides the one of the standard library; add a word"));
        }
        let is_no_verb = NO_FUNCTION_NAMES.split_whitespace().any(|word| word == name);
        if kind == DefinitionKind::Function && is_no_verb && !is_exception(ALLOWED_FUNCTIONS, &name) {
            report(line, format!("the function `{name}` is not a verb; name the action, or the value that it returns"));
        }
    }
}

fn report_banned_words(path: &str, name: &str, line: usize, report: &mut impl FnMut(usize, String)) {
    if is_allowed(path, name) {
        return;
    }
    let parts = words(name);
    let row = BANNED_WORDS.iter().find_map(|(banned, instead)| {
        let word = banned.split(' ').find(|word| parts.iter().any(|part| part == word))?;
        Some((word, instead))
    });
    if let Some((word, instead)) = row {
        report(line, format!("`{name}` has the word `{word}`: {instead}"));
    }
}

fn is_exception(table: &[(&str, &str)], name: &str) -> bool {
    table.iter().any(|(own, _)| *own == name)
}

fn is_allowed(path: &str, name: &str) -> bool {
    ALLOWED_NAMES.iter().any(|(place, own, _)| path.starts_with(place) && *own == name)
}

/// Counts the identifiers of a file that contain a banned word, locals and parameters included.
pub(super) fn count_banned_words(path: &str, source: &Source) -> usize {
    let tokens = tokens(&source.code);
    let names = tokens.iter().filter_map(|(_, token)| match token {
        Token::Word(name) if !is_allowed(path, name) => Some(words(name)),
        _ => None,
    });
    names.filter(|parts| parts.iter().any(|part| is_banned(part))).count()
}

fn is_banned(word: &str) -> bool {
    BANNED_WORDS.iter().any(|(banned, _)| banned.split(' ').any(|own| own == word))
}

/// Reports type names that two types share, unless `allowed` lists them, and too large a share of one-word names.
pub(super) fn type_name_violations(files: &[(String, Source)], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, source) in files {
        for Definition { line, name, .. } in
            definitions(source).into_iter().filter(|one| one.kind == DefinitionKind::Type)
        {
            places.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    let mut found: Vec<_> = places
        .iter()
        .filter(|(name, at)| at.len() > 1 && !is_exception(allowed, name))
        .map(|(name, at)| {
            format!(
                "{}: the type `{name}` is also defined at {}; add a word that tells them apart",
                at[0],
                at[1..].join(", ")
            )
        })
        .collect();
    for (name, _) in allowed.iter().filter(|(name, _)| places.get(*name).is_none_or(|at| at.len() < 2)) {
        found.push(format!("SHARED_TYPE_NAMES: `{name}` is unique now; remove it from the table"));
    }
    let one_word: Vec<_> = places.keys().filter(|name| words(name).len() == 1).map(String::as_str).collect();
    if one_word.len() * 100 > places.len() * MOST_ONE_WORD_TYPES && places.len() > 1 {
        found.push(format!(
            "{} of {} type names are one word, more than {MOST_ONE_WORD_TYPES} %: {}",
            one_word.len(),
            places.len(),
            one_word.join(" ")
        ));
    }
    found
}

/// Splits a CamelCase, snake_case or SCREAMING_CASE name into words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut before = '_';
    for (at, c) in name.char_indices() {
        let next = name[at + c.len_utf8()..].chars().next();
        let ends_acronym = c.is_uppercase() && before.is_uppercase() && next.is_some_and(char::is_lowercase);
        if c == '_' || (c.is_uppercase() && !before.is_uppercase()) || ends_acronym {
            found.push(String::new());
        }
        if let Some(word) = found.last_mut()
            && c != '_'
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    found.retain(|word| !word.is_empty());
    found
}

/// Finds every name that the file defines outside function bodies: types, functions, fields, variants, constants, modules.
pub(super) fn definitions(source: &Source) -> Vec<Definition> {
    let tokens = tokens(&source.code);
    let mut found = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut pending = None; // The kind of block that the item read last opens, until it opens.
    for at in 0..tokens.len() {
        let (line, token) = tokens[at];
        let before = at.checked_sub(1).map_or(Token::Mark(';'), |at| tokens[at].1);
        let after = tokens.get(at + 1).map_or(Token::Mark(';'), |token| token.1);
        let within = blocks.last().copied().unwrap_or(Block::Module);
        match token {
            Token::Mark('{' | '(' | '[') => {
                let is_body = token == Token::Mark('{');
                blocks.push(match within {
                    Block::Enum if is_body => Block::Fields,
                    Block::Module | Block::Impl if is_body => pending.take().unwrap_or(Block::Other),
                    _ => Block::Other,
                });
            }
            Token::Mark('}' | ')' | ']') => drop(blocks.pop()),
            Token::Mark(';') if within != Block::Other => pending = None,
            Token::Word(name) => {
                if let Some(kind) = definition_kind(name, before, after, within) {
                    found.push(Definition { line, name: name.to_owned(), kind });
                }
                if matches!(within, Block::Module | Block::Impl) {
                    pending = pending.or(block_of(name));
                }
            }
            _ => {}
        }
    }
    found
}

/// A pair of brackets, classified by the definitions that it may contain.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Module,
    /// The body of an `impl` or a `trait`.
    Impl,
    Fields,
    Enum,
    /// A function's body, parameters, an attribute, a macro's arguments.
    Other,
}

/// The block that an item opens which begins with the keyword `word`.
fn block_of(word: &str) -> Option<Block> {
    match word {
        "struct" | "union" => Some(Block::Fields),
        "enum" => Some(Block::Enum),
        "impl" | "trait" => Some(Block::Impl),
        "mod" => Some(Block::Module),
        "fn" => Some(Block::Other),
        _ => None,
    }
}

fn definition_kind(name: &str, before: Token<'_>, after: Token<'_>, within: Block) -> Option<DefinitionKind> {
    const KEYWORDS: &[&str] =
        &["fn", "struct", "enum", "union", "trait", "type", "mod", "const", "static", "pub", "crate", "mut"];
    if KEYWORDS.contains(&name) {
        return None;
    }
    match (within, before) {
        (Block::Module, Token::Word("struct" | "enum" | "union" | "trait" | "type")) => Some(DefinitionKind::Type),
        (Block::Module | Block::Impl, Token::Word("fn")) => Some(DefinitionKind::Function),
        (Block::Module | Block::Impl, Token::Word("const" | "static" | "mod" | "type")) => Some(DefinitionKind::Other),
        (Block::Fields, _) if after == Token::Mark(':') && before != Token::Mark('<') && before != Token::Mark(':') => {
            Some(DefinitionKind::Other)
        }
        (Block::Enum, Token::Mark('{' | ',' | ']')) => Some(DefinitionKind::Other),
        _ => None,
    }
}

#[test]
fn tables_have_each_word_once() {
    let mut seen = BTreeSet::new();
    let banned = BANNED_WORDS.iter().flat_map(|(banned, _)| banned.split(' '));
    for word in banned {
        assert!(seen.insert(word), "{word} is listed twice");
    }
    let mut seen = BTreeSet::new();
    for word in NO_FUNCTION_NAMES.split_whitespace() {
        assert!(seen.insert(word), "{word} is listed twice");
    }
}

#[test]
fn splits_names_into_words() {
    let split = |name: &str| words(name).join(" ");
    assert_eq!(split("LimitKeySource"), "limit key source");
    assert_eq!(split("HTTPClient"), "http client");
    assert_eq!(split("MAX_READ"), "max read");
    assert_eq!(split("told_by2"), "told by2");
    assert_eq!(split("Http1Handoff"), "http1 handoff");
}
