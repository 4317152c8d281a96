//! A dialect and its options as one word: `hai`, or with options `hai:string,snake`. The command line and recordings
//! write them so.

use super::problem::did_you_mean;
use super::shipped_dialects::SHIPPED_DIALECTS;
use crate::dialect::carry;
use crate::dialect::{self, INTERRUPT_TOOL, OPTION_CHOICES, PeerDialect, ToolName, choices_for};
use std::path::Path;

/// Reserved names: `auto`, and the keys that [`crate::translate`] adds to `metadata`.
pub(super) const RESERVED_NAMES: &[&str] = &[dialect::AUTO, carry::GATEWAY_KEY, carry::CANONICAL_KEY];

/// Returns true for a name of at most 32 lower-case letters, digits and hyphens.
pub(super) fn is_dialect_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 32 && name.chars().all(is_plain)
}

/// Returns whether a word in the place of a dialect is the path of a file.
pub(crate) fn is_dialect_path(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Parses `NAME[:OPTION[,OPTION]]`; an option is a choice or `NAME=CHOICE`.
///
/// # Errors
/// Returns an error message for clap to print.
pub(crate) fn parse_dialect(text: &str) -> Result<PeerDialect, String> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let Some(dialect) = dialect::find_by_name(name) else {
        if name == dialect::AUTO {
            return Err(format!("`{name}` is only for routes; `diglot detect FILE` names the dialect of a recording"));
        }
        let built_in = dialect::ALL.iter().map(|dialect| dialect.name);
        let known: Vec<&str> = built_in.chain(SHIPPED_DIALECTS.iter().map(|(name, _)| *name)).collect();
        let hint = did_you_mean(name, &known);
        let own = match hint.starts_with("use one of") {
            true => format!(
                ", a dialect file, as in {name}.yaml, or a dialect of a configuration, as in diglot.yaml#{name}"
            ),
            false => String::new(),
        };
        return Err(format!("unknown dialect `{name}`; {hint}{own}"));
    };
    let mut peer = PeerDialect::new(dialect);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        apply_option(&mut peer, option, options)?;
    }
    Ok(peer)
}

/// Applies one option; `options` is the whole list, for error messages.
fn apply_option(peer: &mut PeerDialect, option: &str, options: &str) -> Result<(), String> {
    let dialect = peer.dialect;
    let has_option = |name: &str| dialect.option_names.contains(&name);
    let tool = option.strip_prefix(INTERRUPT_TOOL).and_then(|rest| rest.strip_prefix('=')).and_then(ToolName::new);
    if let Some(tool) = tool.filter(|_| has_option(INTERRUPT_TOOL)) {
        peer.interrupt_tool = tool;
        return Ok(());
    }
    let chosen = OPTION_CHOICES.iter().find(|(owner, choice, _)| match option.split_once('=') {
        Some((name, value)) => *owner == name && *choice == value,
        None => *choice == option,
    });
    let name = dialect.name;
    match chosen {
        Some((owner, _, set)) if has_option(owner) => {
            set(peer);
            Ok(())
        }
        None if option.contains(':') => {
            let meant = options.replace(':', ",");
            Err(format!("options are separated by commas: did you mean `{name}:{meant}`?"))
        }
        _ => {
            let mut known: Vec<String> = OPTION_CHOICES
                .iter()
                .filter(|(owner, ..)| has_option(owner))
                .map(
                    |(owner, choice, _)| {
                        if option.contains('=') { format!("{owner}={choice}") } else { (*choice).to_owned() }
                    },
                )
                .collect();
            known.extend(has_option(INTERRUPT_TOOL).then(|| format!("{INTERRUPT_TOOL}=NAME")));
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let way_out = if known.is_empty() { "it has no options".to_owned() } else { did_you_mean(option, &known) };
            Err(format!("`{name}` has no option `{option}`; {way_out}"))
        }
    }
}

/// Formats a dialect as [`parse_dialect`] reads it. A route's own roles and error events have no place in it.
pub(crate) fn format_dialect(peer: PeerDialect) -> String {
    if peer.is_auto {
        return dialect::AUTO.to_owned();
    }
    let default = PeerDialect::new(peer.dialect);
    let mut options = Vec::new();
    for name in peer.dialect.option_names.iter().copied() {
        if name == INTERRUPT_TOOL && peer.interrupt_tool != default.interrupt_tool {
            options.push(format!("{INTERRUPT_TOOL}={}", peer.interrupt_tool.as_str()));
        }
        // A choice that changes nothing is the one that was made.
        let keeps = |side: PeerDialect, set: dialect::OptionSetter| {
            let mut changed = side;
            set(&mut changed);
            changed == side
        };
        let chosen = choices_for(name).find(|(_, _, set)| keeps(peer, *set) && !keeps(default, *set));
        options.extend(chosen.map(|(owner, choice, _)| format!("{owner}={choice}")));
    }
    let colon = if options.is_empty() { "" } else { ":" };
    format!("{}{colon}{}", peer.dialect.name, options.join(","))
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
        assert!(parse_dialect("hay").expect_err("unknown").contains("did you mean `hai`?"));
        assert!(parse_dialect("auto").expect_err("not for recordings").contains("`diglot detect FILE` names"));
        assert!(parse_dialect("zzz").expect_err("unknown").contains("use one of: `ag-ui`, `ag-ui-0`, `hai`"));
        assert!(parse_dialect("hai:block").expect_err("unknown").contains("did you mean `blocks`?"));
        assert_eq!(parse_dialect("ag-ui-0:pin=0.0.45").expect("known").peer_version, PeerVersion::V0_0_45);
        // It accepts what 0.0.47 does.
        assert_eq!(parse_dialect("ag-ui-0:pin=0.0.52").expect("known").peer_version, PeerVersion::V0_0_47);
        assert_eq!(parse_dialect("hai:interrupt_tool=ask").expect("known").interrupt_tool.as_str(), "ask");
        assert!(parse_dialect("hai:interrupt_tool").expect_err("no name").contains("no option `interrupt_tool`"));
        assert!(parse_dialect("hai:big").expect_err("unknown").contains("no option `big`"));
        assert!(
            parse_dialect("hai:blocks:snake")
                .expect_err("no comma")
                .contains("separated by commas: did you mean `hai:blocks,snake`?")
        );
        assert!(parse_dialect("ag-ui:blocks").expect_err("not its option").contains("it has no options"));
    }

    #[test]
    fn formats_what_it_parses() {
        let texts = [
            "ag-ui",
            "hai",
            "hai:content=blocks,fields=snake",
            "ag-ui-0:pin=0.0.45",
            "ag-ui-snake:timestamp=s",
            "hai:interrupt_tool=ask",
        ];
        for text in texts {
            let side = parse_dialect(text).expect(text);
            assert_eq!(parse_dialect(&format_dialect(side)), Ok(side), "{text}");
        }
        assert_eq!(format_dialect(PeerDialect::new_auto()), "auto");
    }
}
