//! A dialect on the command line: `hai`, or with options `hai:blocks,snake`.

use crate::dialect::{self, Content, INTERRUPT_TOOL, Side, Spelling, ToolName};

/// What `--help` says about a dialect argument.
pub(super) const HELP: &str =
    "ag-ui, hai, or hai:OPTION,… with the options string|blocks, camel|snake and interrupt_tool=NAME";

/// Reads `NAME[:OPTION[,OPTION]]`.
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
        let owner = match option {
            "string" => {
                side.content = Content::String;
                "content"
            }
            "blocks" => {
                side.content = Content::Blocks;
                "content"
            }
            "camel" => {
                side.fields = Spelling::Camel;
                "fields"
            }
            "snake" => {
                side.fields = Spelling::Snake;
                "fields"
            }
            other if other.starts_with(INTERRUPT_TOOL) => {
                let name = other.strip_prefix(INTERRUPT_TOOL).and_then(|rest| rest.strip_prefix('='));
                let Some(tool) = name.and_then(ToolName::new) else {
                    return Err(format!("`{other}` names no tool; write {INTERRUPT_TOOL}=NAME, at most 64 bytes"));
                };
                side.interrupt_tool = tool;
                INTERRUPT_TOOL
            }
            other if other.contains(':') => {
                let meant = options.replace(':', ",");
                return Err(format!("options are separated by commas: did you mean `{name}:{meant}`?"));
            }
            other => {
                return Err(format!(
                    "there is no option `{other}`; there are: string, blocks, camel, snake, interrupt_tool=NAME"
                ));
            }
        };
        if !dialect.options.contains(&owner) {
            return Err(format!("the dialect `{name}` takes no option `{option}`"));
        }
    }
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_options_and_complaints() {
        let side = parse("hai:blocks,snake").expect("known");
        assert_eq!((side.dialect.name, side.content, side.fields), ("hai", Content::Blocks, Spelling::Snake));
        assert_eq!(parse("hai:interrupt_tool=ask").expect("known").interrupt_tool.as_str(), "ask");
        assert!(parse("hai:interrupt_tool").expect_err("no name").contains("names no tool"));
        assert!(parse("hay").expect_err("unknown").contains("there are: ag-ui, hai"));
        assert!(parse("hai:big").expect_err("unknown").contains("no option `big`"));
        assert!(
            parse("hai:blocks:snake")
                .expect_err("no comma")
                .contains("separated by commas: did you mean `hai:blocks,snake`?")
        );
        assert!(parse("ag-ui:blocks").expect_err("not its option").contains("takes no option"));
    }
}
