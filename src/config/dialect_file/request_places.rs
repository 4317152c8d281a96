//! The places that AG-UI's request has, by its schema: a path to any other never has a value.

use super::compiled::PathChain;
use crate::codec::json::JsonStep;
use crate::event::schema::{ObjectSchema, RUN_INPUT, ValueSchema};

/// The values that a place of a request may have.
pub(super) struct RequestPlace {
    /// one or several
    schemas: Vec<ValueSchema>,
    /// the only values, if there are few
    pub(super) words: Vec<&'static str>,
}

/// The reason why a path leads nowhere.
pub(super) enum PlaceFault {
    /// No object at the path has the next member; it has these.
    NoMember(Vec<&'static str>),
    /// The next member is searched in a list.
    InList,
    /// The next element is searched in what is no list.
    NoList,
}

impl RequestPlace {
    /// Returns the place at the end of a chain, and how many steps of its last path lead there with a fault.
    pub(super) fn find(chain: &PathChain) -> Result<RequestPlace, (usize, PlaceFault)> {
        let mut place = RequestPlace { schemas: vec![RUN_INPUT], words: Vec::new() };
        for (at, steps) in chain.iter().enumerate() {
            if at > 0 {
                place = place.elements().map_err(|fault| (0, fault))?;
            }
            for (taken, step) in steps.iter().enumerate() {
                place = place.enter(step).map_err(|fault| (taken, fault))?;
            }
        }
        Ok(place)
    }

    /// Takes a step. A text may hold an object, but no list that a path enters.
    fn enter(&self, step: &JsonStep) -> Result<RequestPlace, PlaceFault> {
        let JsonStep::Member(name) = step else { return self.elements() };
        let mut found = RequestPlace { schemas: Vec::new(), words: Vec::new() };
        let mut names = Vec::new();
        for schema in &self.schemas {
            match schema {
                ValueSchema::Object(object) => found.add_member(object, name, &mut names),
                ValueSchema::Union(union) => {
                    union.arms.iter().for_each(|(_, object)| found.add_member(object, name, &mut names));
                    if **name == *union.tag {
                        found.words.extend(union.arms.iter().map(|(word, _)| *word));
                    }
                }
                ValueSchema::List(_) | ValueSchema::NonEmpty(_) => {}
                _ => found.schemas.push(ValueSchema::Any),
            }
        }
        if found.schemas.iter().any(|schema| matches!(schema, ValueSchema::Any)) {
            found.words.clear();
        }
        match (found.schemas.is_empty(), names.is_empty()) {
            (false, _) => Ok(found),
            (true, false) => Err(PlaceFault::NoMember(names)),
            (true, true) => Err(PlaceFault::InList),
        }
    }

    fn add_member(&mut self, object: &'static ObjectSchema, name: &str, names: &mut Vec<&'static str>) {
        for member in object.members {
            if member.name == name {
                self.schemas.push(member.schema);
                if let ValueSchema::StringEnum(words) = member.schema {
                    self.words.extend(words);
                }
            }
            if !names.contains(&member.name) {
                names.push(member.name);
            }
        }
        if object.is_open {
            self.schemas.push(ValueSchema::Any);
        }
    }

    /// Returns the place of an element.
    pub(super) fn elements(&self) -> Result<RequestPlace, PlaceFault> {
        let elements = self.schemas.iter().filter_map(|schema| match schema {
            ValueSchema::List(element) | ValueSchema::NonEmpty(element) | ValueSchema::TextOrList(element) => {
                Some(**element)
            }
            ValueSchema::Any | ValueSchema::Present => Some(ValueSchema::Any),
            _ => None,
        });
        let schemas: Vec<_> = elements.collect();
        match schemas.is_empty() {
            true => Err(PlaceFault::NoList),
            false => Ok(RequestPlace { schemas, words: Vec::new() }),
        }
    }
}
