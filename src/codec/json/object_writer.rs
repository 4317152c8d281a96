//! Writes the members of a JSON object.

use crate::event::{Json, Member, MemberKey, needs_no_escape};

#[derive(Debug)]
pub(crate) struct ObjectWriter<'o> {
    pub(super) out: &'o mut String,
    empty: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(crate) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        ObjectWriter { out, empty: true }
    }

    /// Writes a member whose name needs no escapes.
    pub(crate) fn member(&mut self, name: &str, value: &str) {
        self.write_comma();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out.push_str(value);
    }

    /// Writes a string member whose name and value need no escapes.
    pub(crate) fn string_member(&mut self, name: &str, value: &str) {
        self.write_comma();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":\"");
        self.out.push_str(value);
        self.out.push('"');
    }

    /// Copies a member, writing its name in the requested case.
    pub(crate) fn copy_member(&mut self, (key, value): &Member<'_>, snake: bool) {
        match key {
            MemberKey::Known(field) => self.member(field.wire_name(snake), value.as_str()),
            MemberKey::Other(name) => {
                self.write_name(name);
                self.out.push_str(value.as_str());
            }
        }
    }

    /// Begins a member with any name.
    pub(super) fn write_name(&mut self, name: &str) {
        self.write_comma();
        if needs_no_escape(name) {
            self.out.push('"');
            self.out.push_str(name);
            self.out.push('"');
        } else {
            self.out.push_str(Json::string(name).as_str());
        }
        self.out.push(':');
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }

    fn write_comma(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
    }
}
