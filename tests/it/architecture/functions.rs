//! Rules for functions: at most 70 lines, and no tuple as a parameter. A tuple hides at the call what each value means.

use super::source::{Source, Token, tokens};

/// The largest number of lines of a function, signature included.
const LONGEST_FUNCTION: usize = 70;

/// Functions that still break a rule, as `path::name`. Add no rows; remove the row of a function that breaks none.
#[rustfmt::skip]
pub(super) const STILL_IRREGULAR: &[&str] = &[
];

/// One function of a file.
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
    has_tuple_parameter: bool,
}

/// Reports functions that break a rule, apart from those in `known`, and rows of `known` that break none.
pub(super) fn function_violations(files: &[(String, Source)], known: &[&str]) -> Vec<String> {
    let mut irregular = Vec::new();
    let mut found = Vec::new();
    for (path, source) in files {
        for Function { name, line, lines, has_tuple_parameter } in functions(source) {
            let place = format!("{path}::{name}");
            let is_known = known.contains(&place.as_str());
            let is_long = lines > LONGEST_FUNCTION;
            if is_long && !is_known {
                found.push(format!(
                    "{path}:{line}: `{name}` has {lines} lines, more than {LONGEST_FUNCTION}; move steps into functions of their own"
                ));
            }
            if has_tuple_parameter && !is_known {
                found.push(format!("{path}:{line}: `{name}` has a tuple as a parameter; pass the values, or a struct"));
            }
            if is_long || has_tuple_parameter {
                irregular.push(place);
            }
        }
    }
    let outdated = known.iter().filter(|place| !irregular.iter().any(|own| own == *place));
    found.extend(outdated.map(|place| format!("STILL_IRREGULAR: {place} breaks no rule; remove it from the table")));
    found
}

fn functions(source: &Source) -> Vec<Function<'_>> {
    let tokens = tokens(&source.code);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let [(line, Token::Word("fn")), (_, Token::Word(name)), ..] = tokens[at..] else { continue };
        let (body, has_tuple_parameter) = read_signature(&tokens[at..]);
        let Some(body) = body else { continue };
        let last = line_of_closing_brace(&tokens[at + body..]).unwrap_or(line);
        found.push(Function { name, line, lines: last - line + 1, has_tuple_parameter });
    }
    found
}

/// Returns the place of the brace that opens the body, if there is a body, and true if a parameter is a tuple.
fn read_signature(tokens: &[(usize, Token<'_>)]) -> (Option<usize>, bool) {
    let mut depth = 0_usize;
    let mut has_tuple = false;
    for (at, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[') => depth += 1,
            Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
            Token::Mark('{') if depth == 0 => return (Some(at), has_tuple),
            Token::Mark(';') if depth == 0 => return (None, has_tuple),
            Token::Mark(':') if depth == 1 => has_tuple |= is_tuple(&tokens[at + 1..]),
            _ => {}
        }
    }
    (None, has_tuple)
}

/// Returns true if the type that begins here is a tuple of several values, or a reference to one.
fn is_tuple(tokens: &[(usize, Token<'_>)]) -> bool {
    // Of a lifetime, as in `&'a (A, B)`, the reader leaves the name.
    let begin = match tokens {
        [(_, Token::Mark('&')), (_, Token::Word(_)), rest @ ..] | [(_, Token::Mark('&')), rest @ ..] => rest,
        other => other,
    };
    let [(_, Token::Mark('(')), (_, next), ..] = begin else { return false };
    // `&(dyn A + B)` has parentheses and is no tuple.
    !matches!(next, Token::Mark(')') | Token::Word("dyn" | "impl"))
}

fn line_of_closing_brace(tokens: &[(usize, Token<'_>)]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().find_map(|(line, token)| {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => depth = depth.saturating_sub(1),
            _ => return None,
        }
        (depth == 0).then_some(*line)
    })
}

#[test]
fn reports_long_functions_and_tuple_parameters() {
    let report =
        |text: &str, known: &[&str]| function_violations(&[("src/a.rs".to_owned(), Source::read(text))], known);
    let long = format!("impl A {{\n    fn run(&self) {{{}    }}\n}}\n", "\n".repeat(70));
    let found = report(&long, &[]);
    assert!(found.len() == 1 && found[0].starts_with("src/a.rs:2: `run` has 71 lines"), "{found:?}");
    assert_eq!(report(&long, &["src/a.rs::run"]), [""; 0]);
    assert_eq!(report(&long.replacen('\n', "", 3), &[]), [""; 0]);
    for tuple in ["(a, b): (u8, u16)", "a: (u8, u16)", "c: u8, a: &(u8, u16)", "a: &'a (u8, u16)"] {
        let found = report(&format!("fn run({tuple}) {{}}\n"), &[]);
        assert!(found.len() == 1 && found[0].contains("`run` has a tuple"), "{tuple}: {found:?}");
    }
    for no_tuple in ["a: [(u8, u16); 2]", "a: Vec<(u8, u16)>", "a: fn(b: (u8, u16))", "a: &(dyn A + B)", "a: ()"] {
        assert_eq!(report(&format!("fn run({no_tuple}) -> (u8, u8) {{}}\n"), &[]), [""; 0], "{no_tuple}");
    }
    let found = report("fn run() {}\n", &["src/a.rs::run"]);
    assert_eq!(found, ["STILL_IRREGULAR: src/a.rs::run breaks no rule; remove it from the table"]);
}
