//! What a web server in front of this one has said of a request beside its head.

use crate::Content;
use oribi_message::{KnownVariable, Role, Variable};

/// The variables of a request that came from a web server, and what it is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Gateway<'a> {
    /// What the web server wants.
    pub role: Role,
    /// The file to filter, in the role of a filter; otherwise none.
    pub data: Content<'a>,
    bytes: &'a [u8],
    variables: &'a [Variable],
}

impl<'a> Gateway<'a> {
    /// Joins places with the bytes that they were found in.
    #[must_use]
    pub const fn new(role: Role, bytes: &'a [u8], variables: &'a [Variable], data: Content<'a>) -> Self {
        Self { role, data, bytes, variables }
    }

    /// All variables but those that are fields of the request's head, in the order sent: which well-known one, name, value.
    pub fn variables(&self) -> impl Iterator<Item = (Option<KnownVariable>, &'a [u8], &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.variables.iter().map(move |variable| (variable.known, variable.name.of(bytes), variable.value.of(bytes)))
    }

    /// Name and value of the variable with that number, counted from 0. A number that none has is its maker's defect and panics.
    #[must_use]
    pub fn variable(&self, number: usize) -> (&'a [u8], &'a [u8]) {
        let variable = &self.variables[number];
        (variable.name.of(self.bytes), variable.value.of(self.bytes))
    }

    /// The value of a variable; `None` if the web server has not sent it.
    #[must_use]
    pub fn get(&self, wanted: KnownVariable) -> Option<&'a [u8]> {
        self.variables.iter().find(|variable| variable.known == Some(wanted)).map(|variable| variable.value.of(self.bytes))
    }
}
