//! The variables about a request that a web server in front, or the server itself, adds to its head.

use crate::Content;
use oribi_message::{KnownVariable, Role, Variable};

/// The variables of a request from a web server, and the role that the app has for it.
#[derive(Clone, Copy, Debug)]
pub struct Gateway<'a> {
    /// The role of the app for this request.
    pub role: Role,
    /// The file to filter, if the role is that of a filter; otherwise none.
    pub data: Content<'a>,
    own: bool,
    bytes: &'a [u8],
    variables: &'a [Variable],
}

impl<'a> Gateway<'a> {
    /// Makes the gateway of a request that a web server has sent. `variables` are the places of its variables in `bytes`.
    #[must_use]
    pub const fn new(role: Role, bytes: &'a [u8], variables: &'a [Variable], data: Content<'a>) -> Self {
        Self { role, data, own: false, bytes, variables }
    }

    /// Makes variables of the server itself, about a connection without a web server in front.
    #[must_use]
    pub const fn own(bytes: &'a [u8], variables: &'a [Variable]) -> Self {
        Self { role: Role::Responder, data: Content::None, own: true, bytes, variables }
    }

    /// Whether the variables are the server's own, and no web server is in front.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        self.own
    }

    /// The bytes that contain the variables.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The places of the variables in [`Gateway::bytes`].
    #[must_use]
    pub const fn list(&self) -> &'a [Variable] {
        self.variables
    }

    /// All variables except those that are fields of the request's head, in the order sent: the well-known variable, name,
    /// value.
    pub fn variables(&self) -> impl Iterator<Item = (Option<KnownVariable>, &'a [u8], &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.variables.iter().map(move |variable| (variable.known, variable.name.of(bytes), variable.value.of(bytes)))
    }

    /// Name and value of the variable with this number, counted from 0. Panics if there is no such variable, which is a bug of
    /// the caller.
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
