//! Dialect arguments of the command line: `hai`, or with options `hai:blocks,snake`.

use crate::dialect::{self, INTERRUPT_TOOL, OPTION_CHOICES, PeerDialect, ToolName};

/// Returns the `--help` text of a dialect argument.
#[must_use]
pub(super) fn dialect_help() -> String {
    let names: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
    format!(
        "{}; options after a colon: hai:blocks,snake (or string, camel), ag-ui-0:pin=0.0.45, ag-ui-snake:timestamp=s, hai:{INTERRUPT_TOOL}=NAME",
        names.join(", ")
    )
}

/// Parses `NAME[:OPTION[,OPTION]]`; an option is a choice or `NAME=CHOICE`.
///
/// # Errors
/// A message for clap to print.
pub(super) fn parse_dialect(text: &str) -> Result<PeerDialect, String> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let Some(dialect) = dialect::find_by_name(name) else {
        let known: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
        return Err(format!("there is no dialect `{name}`; there are: {}", known.join(", ")));
    };
    let mut side = PeerDialect::new(dialect);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let tool = option.strip_prefix(INTERRUPT_TOOL).and_then(|rest| rest.strip_prefix('=')).and_then(ToolName::new);
        if let Some(tool) = tool.filter(|_| dialect.option_names.contains(&INTERRUPT_TOOL)) {
            side.interrupt_tool = tool;
            continue;
        }
        let chosen = OPTION_CHOICES.iter().find(|(owner, word, _)| match option.split_once('=') {
            Some((name, choice)) => *owner == name && *word == choice,
            None => *word == option,
        });
        match chosen {
            Some((owner, _, set)) if dialect.option_names.contains(owner) => set(&mut side),
            Some(_) => return Err(format!("the dialect `{name}` takes no option `{option}`")),
            None if option.contains(':') => {
                let meant = options.replace(':', ",");
                return Err(format!("options are separated by commas: did you mean `{name}:{meant}`?"));
            }
            None => {
                let taken = OPTION_CHOICES.iter().filter(|(owner, ..)| dialect.option_names.contains(owner));
                let words: Vec<String> = taken.map(|(owner, word, _)| format!("{owner}={word}")).collect();
                let there = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
                return Err(format!("there is no option `{option}`; there are: {there}"));
            }
        }
    }
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{MemberCase, PeerVersion, TextFormat};

    #[test]
    fn parses_dialect_options_and_explains_mistakes() {
        let side = parse_dialect("hai:blocks,snake").expect("known");
        assert_eq!(
            (side.dialect.name, side.text_format, side.member_case),
            ("hai", TextFormat::Blocks, MemberCase::Snake)
        );
        assert!(parse_dialect("hay").expect_err("unknown").contains("there are: ag-ui, ag-ui-0, hai"));
        assert_eq!(parse_dialect("ag-ui-0:pin=0.0.45").expect("known").peer_version, PeerVersion::V0_0_45);
        assert_eq!(parse_dialect("hai:interrupt_tool=ask").expect("known").interrupt_tool.as_str(), "ask");
        assert!(parse_dialect("hai:interrupt_tool").expect_err("no name").contains("no option `interrupt_tool`"));
        assert!(parse_dialect("hai:big").expect_err("unknown").contains("no option `big`"));
        assert!(
            parse_dialect("hai:blocks:snake")
                .expect_err("no comma")
                .contains("separated by commas: did you mean `hai:blocks,snake`?")
        );
        assert!(parse_dialect("ag-ui:blocks").expect_err("not its option").contains("takes no option"));
    }
}
