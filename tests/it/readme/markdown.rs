//! Reads the Markdown that the pages of this repository use: fenced blocks, headings, links.

use std::collections::HashMap;

/// One page.
pub struct Page {
    pub blocks: Vec<Block>,
    /// names by which its headings are linked to
    pub anchors: Vec<String>,
    /// targets of its links, each with its line
    pub links: Vec<(usize, String)>,
}

/// A fenced block.
pub struct Block {
    /// line of its fence, from 1 on
    pub line: usize,
    pub language: String,
    pub lines: Vec<String>,
}

impl Block {
    /// Its text with the comments of its language left out.
    pub fn without_comments(&self) -> (&str, Vec<&str>) {
        let sign = match self.language.as_str() {
            "yaml" | "sh" | "python" => "# ",
            "js" => "// ",
            _ => return (&self.language, self.lines.iter().map(String::as_str).collect()),
        };
        let code = self.lines.iter().map(|line| line.split(sign).next().unwrap_or_default().trim_end());
        (&self.language, code.filter(|line| !line.is_empty()).collect())
    }
}

impl Page {
    pub fn read(text: &str) -> Page {
        let mut page = Page { blocks: Vec::new(), anchors: Vec::new(), links: Vec::new() };
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut open: Option<Block> = None;
        for (line, text) in (1..).zip(text.lines()) {
            match (text.trim_start().strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => page.blocks.extend(open.take()),
                (Some(language), None) => {
                    open = Some(Block { line, language: language.to_owned(), lines: Vec::new() });
                }
                (None, Some(block)) => block.lines.push(text.to_owned()),
                (None, None) => {
                    if let Some(heading) = heading(text) {
                        // A repeated heading gets `-1`, like on GitHub.
                        let count = seen.entry(heading.clone()).and_modify(|count| *count += 1).or_default();
                        page.anchors.push(if *count == 0 { heading } else { format!("{heading}-{count}") });
                    }
                    page.links.extend(links(text).map(|link| (line, link)));
                }
            }
        }
        page
    }
}

/// The anchor of a heading, as GitHub makes it: in lower case, without punctuation, with hyphens for spaces.
fn heading(line: &str) -> Option<String> {
    let words = line.trim_start_matches('#');
    let depth = line.len() - words.len();
    if !(1..=6).contains(&depth) || !words.starts_with(' ') {
        return None;
    }
    let kept = words.trim().chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    Some(kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect())
}

/// Returns the targets of the links in a line. Text in backquotes is no link.
fn links(line: &str) -> impl Iterator<Item = String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets: Vec<_> = prose
        .match_indices("](")
        .filter_map(|(at, sign)| Some(prose[at + sign.len()..].split_once(')')?.0.to_owned()))
        .collect();
    targets.into_iter()
}

#[test]
fn parses_headings_links_and_blocks() {
    let text = "# What `a_b` is: *two*\n\n[one](a.md#x) and `[no](b.md)`, [two](#what-a_b-is-two)\n\n```yaml\na: 1   # why\n```\n\n## Twice\n## Twice\n";
    let page = Page::read(text);
    assert_eq!(page.anchors, ["what-a_b-is-two", "twice", "twice-1"]);
    assert_eq!(page.links, [(3, "a.md#x".to_owned()), (3, "#what-a_b-is-two".to_owned())]);
    assert_eq!(page.blocks[0].without_comments(), ("yaml", vec!["a: 1"]));
    assert_eq!(page.blocks[0].line, 5);
}
