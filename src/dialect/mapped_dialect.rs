//! A dialect that a file describes, as a table: AG-UI's, with a mapping.

use super::ag_ui::AG_UI;
use super::carry::CarryLocation;
use super::mapped::Mapping;
use super::table::{DemoAgent, Dialect};

/// The name and the rules of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedDialect {
    /// name in the configuration
    pub name: String,
    /// its rules and its request
    pub mapping: Mapping,
}

impl MappedDialect {
    /// Builds the dialect and leaks it: tables are `'static`, and a configuration has only a few.
    #[must_use]
    pub fn into_dialect(self) -> &'static Dialect {
        Box::leak(Box::new(Dialect {
            name: String::leak(self.name),
            // Rules make canonical events, but no frame can be copied to a client.
            carry_location: CarryLocation::Metadata,
            signs: &[],
            request_signs: &[],
            demo_agent: DemoAgent::new("an agent that a file describes", ""),
            mapping: Some(Box::leak(Box::new(self.mapping))),
            ..AG_UI
        }))
    }
}
