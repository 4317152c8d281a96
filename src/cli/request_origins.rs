//! Finds the lines of a dialect file that made a part of an agent's request.
//!
//! The request is made again with templates that put into each object its place in the file.

use super::example_difference::MemberMismatch;
use crate::config::dialect_file::{DialectFile, FileLines};
use crate::dialect::{MappedDialect, ValueTemplate};
use crate::event::Json;
use serde_json::Value;

/// The member of an object that is its place in the file, as a JSON Pointer.
const PLACE: &str = "diglot.place";

/// Returns the dialect of a file with templates of bodies whose objects have their places.
pub(super) fn with_places(file: &DialectFile) -> MappedDialect {
    let mut placed = file.dialect.clone();
    for request in &mut placed.mapping.requests {
        let places = [format!("/request/{}/body", request.index), "/request/body".to_owned()];
        let place = places.iter().find(|place| file.lines.get(place).is_some());
        request.body = request.body.take().zip(place).map(|(body, place)| add_places(body, place, &file.lines));
    }
    placed
}

/// Adds their places to all objects of a template that stands at one in the file.
fn add_places(template: ValueTemplate, place: &str, lines: &FileLines) -> ValueTemplate {
    match template {
        ValueTemplate::Object(members) => {
            let own = (PLACE.into(), ValueTemplate::Literal(Json::string(place).into_owned()));
            let add = |(name, value): (Box<str>, _)| {
                let value = add_places(value, &format!("{place}/{name}"), lines);
                (name, value)
            };
            ValueTemplate::Object(members.into_iter().map(add).chain([own]).collect())
        }
        ValueTemplate::List(elements) => {
            let elements = elements.into_iter().enumerate();
            ValueTemplate::List(
                elements.map(|(at, element)| add_places(element, &format!("{place}/{at}"), lines)).collect(),
            )
        }
        ValueTemplate::If(conditions, value) => {
            ValueTemplate::If(conditions, Box::new(add_places(*value, &format!("{place}/as"), lines)))
        }
        ValueTemplate::Each { list, mut rules } => {
            for rule in &mut rules {
                let places = ["as".to_owned(), format!("rules/{}/as", rule.index), "rules/as".to_owned()];
                let mut places = places.iter().map(|inner| format!("{place}/{inner}"));
                let Some(inner) = places.find(|inner| lines.get(inner).is_some()) else { continue };
                let value = std::mem::replace(&mut rule.value, ValueTemplate::List(Vec::new()));
                rule.value = add_places(value, &inner, lines);
            }
            ValueTemplate::Each { list, rules }
        }
        other => other,
    }
}

/// Names the line of the file that made a member of a body, by the same body with places.
pub(super) fn explain_body(file: &DialectFile, placed: &Value, member: &MemberMismatch) -> Option<String> {
    let PlacedMember { place, line, is_direct } = find_place(&file.lines, placed, &member.pointer)?;
    let lines = &file.lines;
    let mut reason = format!("`request` makes it on line {line}");
    // Another form of the element may be meant.
    let missing = member.pointer.rsplit('/').next().unwrap_or_default();
    let is_written = lines.get(&format!("{place}/{missing}")).is_some();
    let form = place.strip_suffix("/as").and_then(|form| form.rsplit_once("/rules/"));
    if let Some((list, used)) = form.filter(|_| member.is_missing() && is_direct && !is_written) {
        let forms = (0..).map(|at| format!("{list}/rules/{at}")).take_while(|form| lines.get(form).is_some());
        let mut others = forms.filter(|form| !form.ends_with(&format!("/{used}")));
        let meant = others.find(|form| lines.get(&format!("{form}/as/{missing}")).is_some());
        if let Some(line) = meant.and_then(|form| lines.get(&form)) {
            reason += &format!("; the rule of line {line} has `{missing}`, and is not used for this element");
        }
    }
    Some(reason)
}

/// The place of an object, and the line of a member of it, or its own.
struct PlacedMember {
    place: String,
    line: u64,
    /// whether the member is what differs, and nothing inside it
    is_direct: bool,
}

/// Returns the innermost object with a place in which a pointer is.
fn find_place(lines: &FileLines, body: &Value, pointer: &str) -> Option<PlacedMember> {
    let mut found = None;
    let mut value = body;
    let mut steps = pointer.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        if let Some(place) = value[PLACE].as_str()
            && let Some(line) = lines.get(&format!("{place}/{step}")).or_else(|| lines.get(place))
        {
            found = Some(PlacedMember { place: place.to_owned(), line, is_direct: steps.peek().is_none() });
        }
        let next = match value {
            Value::Array(elements) => step.parse::<usize>().ok().and_then(|at| elements.get(at)),
            object => object.get(step),
        };
        let Some(next) = next else { break };
        value = next;
    }
    found
}
