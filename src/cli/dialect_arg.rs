//! A dialect on the command line: `hai`, or with options `hai:blocks,snake`.

use crate::dialect::{self, CHOICES, INTERRUPT_TOOL, Side, ToolName};

/// What `--help` says about a dialect argument.
#[must_use]
pub(super) fn help() -> String {
    let names: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
    format!(
        "{}; options behind a colon: hai:blocks,snake (or string, camel), ag-ui-0:pin=0.0.45, ag-ui-snake:timestamp=s, hai:{INTERRUPT_TOOL}=NAME",
        names.join(", ")
    )
}

/// Reads `NAME[:OPTION[,OPTION]]`, an option being a choice, or `NAME=CHOICE`.
///
/// # Errors
/// A sentence for the user.
pub(super) fn parse(text: &str) -> Result<Side, String> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let Some(dialect) = dialect::by_name(name) else {
        let known: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
        return Err(format!("there is no dialect `{name}`; there are: {}", known.join(", ")));
    };
    let mut side = Side::new(dialect);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let tool = option.strip_prefix(INTERRUPT_TOOL).and_then(|rest| rest.strip_prefix('=')).and_then(ToolName::new);
        if let Some(tool) = tool.filter(|_| dialect.options.contains(&INTERRUPT_TOOL)) {
            side.interrupt_tool = tool;
            continue;
        }
        let chosen = CHOICES.iter().find(|(owner, word, _)| match option.split_once('=') {
            Some((name, choice)) => *owner == name && *word == choice,
            None => *word == option,
        });
        match chosen {
            Some((owner, _, set)) if dialect.options.contains(owner) => set(&mut side),
            Some(_) => return Err(format!("the dialect `{name}` takes no option `{option}`")),
            None if option.contains(':') => {
                let meant = options.replace(':', ",");
                return Err(format!("options are separated by commas: did you mean `{name}:{meant}`?"));
            }
            None => {
                let taken = CHOICES.iter().filter(|(owner, ..)| dialect.options.contains(owner));
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
    use crate::dialect::{Content, Pin, Spelling};

    #[test]
    fn names_options_and_complaints() {
        let side = parse("hai:blocks,snake").expect("known");
        assert_eq!((side.dialect.name, side.content, side.fields), ("hai", Content::Blocks, Spelling::Snake));
        assert!(parse("hay").expect_err("unknown").contains("there are: ag-ui, ag-ui-0, hai"));
        assert_eq!(parse("ag-ui-0:pin=0.0.45").expect("known").pin, Pin::V0_0_45);
        assert_eq!(parse("hai:interrupt_tool=ask").expect("known").interrupt_tool.as_str(), "ask");
        assert!(parse("hai:interrupt_tool").expect_err("no name").contains("no option `interrupt_tool`"));
        assert!(parse("hai:big").expect_err("unknown").contains("no option `big`"));
        assert!(
            parse("hai:blocks:snake")
                .expect_err("no comma")
                .contains("separated by commas: did you mean `hai:blocks,snake`?")
        );
        assert!(parse("ag-ui:blocks").expect_err("not its option").contains("takes no option"));
    }
}
