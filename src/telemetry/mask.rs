//! Masks secrets in text that others wrote, for the log.
//!
//! Replaces likely secrets with `***`: the value of a name such as `password` or `Authorization`, the user
//! part of a URL, private keys, tokens with a known prefix, JWTs, and long random text. It is a guess: text without
//! such a form stays.

/// Replaces a secret.
pub(super) const MASK: &str = "***";

/// Beginnings of the tokens of well-known services.
const TOKEN_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "hf_",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "pypi-",
    "dop_v1_",
    "LTAI",
    "AKID",
];

/// Minimum length of such a token; shorter words are names, such as `sk-learn`.
const MIN_PREFIXED_TOKEN: usize = 12;

/// Maximum length of a name after its secret word.
const MAX_NAME_REST: usize = 64;

/// Parts of names whose values are secret, in lower case without punctuation.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "cookie",
    "sessionid",
    "signature",
];

/// Returns `text` as one line of at most `limit` characters, without what looks like a secret.
pub(crate) fn mask_secrets(text: &str, limit: usize) -> String {
    let text = mask_urls(&last_line_of_traceback(text));
    let mut masked = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // Length of the rest after the last checked run of Base64: each run is checked once.
    let mut unchecked = rest.len();
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("-----BEGIN") {
            masked.push_str(MASK);
            break;
        }
        if rest.len() <= unchecked && is_base64(first) {
            let (run, after) = rest.split_at(rest.find(|c| !is_base64(c)).unwrap_or(rest.len()));
            unchecked = after.len();
            if run.contains('/') && is_random_base64(run) {
                masked.push_str(MASK);
                rest = after;
                continue;
            }
        }
        let word_end = rest.find(is_delimiter).unwrap_or(rest.len());
        if word_end == 0 {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(word_end);
        let name_end = if is_secret_name(word) { find_name_end(after) } else { None };
        if let Some(value) = name_end.and_then(|end| find_value(after, end)) {
            masked.push_str(word);
            masked.push_str(&after[..value.start]);
            masked.push_str(MASK);
            rest = &after[value.end..];
        } else if matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic") && has_credential(after) {
            masked.push_str(word);
            masked.push(' ');
            masked.push_str(MASK);
            let credential = after.trim_start();
            rest = &credential[credential.find(char::is_whitespace).unwrap_or(credential.len())..];
        } else {
            masked.push_str(if is_secret_word(word) { MASK } else { word });
            rest = after;
        }
    }
    masked.split_whitespace().collect::<Vec<_>>().join(" ").chars().map(show_control).take(limit).collect()
}

/// Shows a control character, which would move a cursor, as a symbol.
fn show_control(c: char) -> char {
    control_picture(c).unwrap_or(if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
}

/// Returns Unicode's picture of an ASCII control character.
pub(crate) fn control_picture(c: char) -> Option<char> {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)),
        '\u{7f}' => Some('\u{2421}'),
        _ => None,
    }
}

/// Returns the last line of a traceback, which names the error; source lines may contain secrets.
fn last_line_of_traceback(text: &str) -> String {
    let is_traceback = text.contains("Traceback (most recent call last)");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if is_traceback {
        return lines.next_back().unwrap_or_default().to_owned();
    }
    // Java and JavaScript write the error first, and then its frames.
    lines.filter(|line| !line.starts_with("at ")).collect::<Vec<_>>().join("\n")
}

/// Masks everything between `://` and the last `@` of the same word.
fn mask_urls(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        masked.push_str(before);
        let end =
            after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')).unwrap_or(after.len());
        let (word, following) = after.split_at(end);
        match word.rsplit_once('@') {
            Some((_, host)) => {
                masked.push_str(MASK);
                masked.push('@');
                masked.push_str(host);
            }
            None => masked.push_str(word),
        }
        rest = following;
    }
    masked + rest
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\"'`,;:=&?/\\<>|()[]{}".contains(c)
}

fn is_secret_name(word: &str) -> bool {
    let name: String = word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // `max_tokens` and the like are numbers.
    !name.ends_with("tokens") && SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Returns where the name ends whose secret word comes before `after`: at once, or before a quote if the name
/// continues, as in `"token/github": …`.
fn find_name_end(after: &str) -> Option<usize> {
    if !after.starts_with('/') {
        return Some(0);
    }
    let mut start = after.char_indices().take(MAX_NAME_REST);
    let (end, c) = start.find(|(_, c)| !c.is_ascii_alphanumeric() && !"/._-".contains(*c))?;
    matches!(c, '"' | '\'' | '\\').then_some(end)
}

/// Returns the range of the value in the text after a name, which ends at `name_end`: `: value`, `="value"`, or
/// `": "value"` with quotes around the name. `None` if no value follows.
fn find_value(after: &str, name_end: usize) -> Option<std::ops::Range<usize>> {
    let skip =
        |at: usize, set: &str| after[at..].find(|c: char| !set.contains(c)).map_or(after.len(), |more| at + more);
    let separator = skip(name_end, "\"'\\ ");
    let first = after[separator..].chars().next()?;
    if !matches!(first, ':' | '=') {
        return None;
    }
    let begin = skip(separator, ":=> ");
    let opening = skip(begin, "\\");
    let quote = after[opening..].chars().next().filter(|first| matches!(first, '"' | '\''));
    let start = if quote.is_some() { opening + 1 } else { begin };
    let value = &after[start..];
    let end = match quote {
        Some(quote) => find_closing_quote(value, quote, opening - begin),
        // A header field or a cookie has blanks: its value ends with its line.
        None if after[separator..].starts_with(": ") => value.find('\n'),
        None => value.find(|c: char| c.is_whitespace() || c == '&'),
    };
    let end = end.unwrap_or(value.len());
    (end > 0).then(|| start..start + end)
}

/// Returns the end of a string that has `backslashes` before its opening quote: JSON within JSON has one, and within
/// that three. Within the string, a quote has more, unless these are escaped backslashes.
fn find_closing_quote(value: &str, quote: char, backslashes: usize) -> Option<usize> {
    let mut before = 0;
    value.char_indices().find_map(|(at, c)| {
        if c == quote && before % (2 * (backslashes + 1)) <= backslashes {
            return Some(at - before.min(backslashes));
        }
        before = if c == '\\' { before + 1 } else { 0 };
        None
    })
}

/// Returns whether a credential follows the name of its scheme.
fn has_credential(after: &str) -> bool {
    let next = after.strip_prefix(' ').unwrap_or_default().split_whitespace().next().unwrap_or_default();
    next.len() >= 8
}

fn is_secret_word(word: &str) -> bool {
    let word = word.trim_matches(|c: char| matches!(c, '.' | '!' | '*'));
    let is_prefixed = word.len() >= MIN_PREFIXED_TOKEN && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let is_jwt = word.starts_with("eyJ") && word.matches('.').count() >= 1;
    is_prefixed || is_jwt || is_random(word)
}

/// Returns whether a word looks like a random key: long, and a mixture of letters and digits. UUIDs name things.
fn is_random(word: &str) -> bool {
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    let is_key = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_+.~%$@!#^*".contains(c));
    let mixed = has(char::is_ascii_digit) && has(|c| c.is_ascii_alphabetic());
    let cases = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
    let is_uuid = word.len() == 36 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_key && mixed && !is_uuid && word.len() >= if cases { 20 } else { 32 }
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/')
}

/// Returns whether text with slashes looks like a random key rather than a path: it has digits and both cases, and at
/// least every sixth character is of another kind than the one before, other than after the capital of a word.
fn is_random_base64(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase(), byte.is_ascii_lowercase());
    let is_change = |pair: &&[u8]| {
        let is_in_word = !pair[0].is_ascii_lowercase() && pair[1].is_ascii_lowercase();
        pair[0] != b'/' && pair[1] != b'/' && kind(pair[0]) != kind(pair[1]) && !is_in_word
    };
    text.len() >= 20 && mixed && text.as_bytes().windows(2).filter(is_change).count() * 6 >= text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_what_looks_like_a_secret_and_keeps_the_message() {
        for (text, expected) in [
            ("too many messages", "too many messages"),
            ("model overloaded: 3 of 4096 max_tokens: 12", "model overloaded: 3 of 4096 max_tokens: 12"),
            ("no thread 01a20203-4007-704f-b2f6-aba12538ff08", "no thread 01a20203-4007-704f-b2f6-aba12538ff08"),
            ("the token expired", "the token expired"),
            ("cannot reach postgresql://bot:hunter2@db:5432/runs", "cannot reach postgresql://***@db:5432/runs"),
            ("amqp://u:p@ss/w@rd@mq/vhost, retry", "amqp://***@mq/vhost, retry"),
            ("host=db user=bot password=hunter2 dbname=x", "host=db user=bot password=*** dbname=x"),
            (r#"{"api_key": "hunter2", "n": 1}"#, r#"{"api_key": "***", "n": 1}"#),
            (r#"{\"password\":\"hun,ter2\"}"#, r#"{\"password\":\"***\"}"#),
            ("{'Authorization': 'Bearer hunter2'}", "{'Authorization': '***'}"),
            ("Authorization: Basic hunter2 x\nHost: a", "Authorization: *** Host: a"),
            ("OPENAI_API_KEY=hunter2", "OPENAI_API_KEY=***"),
            ("Incorrect API key provided: sk-proj-abcdefgh.", "Incorrect API key provided: ***"),
            ("sent Bearer abcdefgh to it", "sent Bearer *** to it"),
            ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln here", "got *** here"),
            ("key AKIAIOSFODNN7EXAMPLE", "key ***"),
            ("key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY.", "key ***."),
            ("secret_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret_key=***"),
            ("in /srv/app2/src/Components/Button3/RunEnd.tsx", "in /srv/app2/src/Components/Button3/RunEnd.tsx"),
            (r#"{"token/github": "hunter2", "n": 1}"#, r#"{"token/github": "***", "n": 1}"#),
            ("see secret/path: it is empty", "see secret/path: it is empty"),
            (r#"{"password": "hun\"ter2", "n": "x"}"#, r#"{"password": "***", "n": "x"}"#),
            (r#"{"password": "\"hunter2", "n": "x"}"#, r#"{"password": "***", "n": "x"}"#),
            (r#"{"password": "hunter2\\", "n": "x"}"#, r#"{"password": "***", "n": "x"}"#),
            (r#"{\"password\":\"hun\\\"ter2\\\\\",\"n\":1}"#, r#"{\"password\":\"***\",\"n\":1}"#),
            (r#"{\\\"password\\\":\\\"hunter2\\\",\\\"n\\\":1}"#, r#"{\\\"password\\\":\\\"***\\\",\\\"n\\\":1}"#),
            (r#"{'password': "it's", 'n': 1}"#, r#"{'password': "***", 'n': 1}"#),
            ("id wJalrXUtnFEMIK7MDENGbPxRfiCY", "id ***"),
            ("0123456789abcdef0123456789abcdef", "***"),
            ("a -----BEGIN PRIVATE KEY-----\nMII", "a ***"),
            ("https://a/b?token=hunter2&x=1", "https://a/b?token=***&x=1"),
        ] {
            assert_eq!(mask_secrets(text, 500), expected, "{text}");
        }
    }

    #[test]
    fn reduces_a_traceback_to_the_line_that_names_the_error() {
        let python =
            "Traceback (most recent call last):\n  File \"/srv/a.py\", line 7\n    key = \"x\"\nValueError: bad\n";
        assert_eq!(mask_secrets(python, 500), "ValueError: bad");
        assert_eq!(mask_secrets("Error: bad\n    at run (/srv/a.js:1:2)\n    at b", 500), "Error: bad");
    }

    #[test]
    fn shortens_after_masking_and_in_linear_time() {
        assert_eq!(mask_secrets("ab cd", 3), "ab ");
        assert_eq!(mask_secrets("a://u:hunter2@b", 9), "a://***@b");
        for long in ["://", "token ", "password: ", "\"", "线=", "Bearer ", "%", "token/", "aB1/", "\\"] {
            assert!(mask_secrets(&long.repeat(20_000), 500).chars().count() <= 500);
        }
    }
}
