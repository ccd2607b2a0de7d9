//! What a web server in front says about a request that it passes on.

use super::content::StoredContent;
use oribi_host::{Endpoint, Gateway, Request};
use oribi_message::{KnownVariable, Role, Variable};

/// Its variables with their bytes, which contain the head, too; and the data for a filter.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) bytes: Vec<u8>,
    pub(super) list: Vec<Variable>,
    pub(super) role: Role,
    pub(super) data: StoredContent,
}

impl Variables {
    pub(super) fn get(&self, wanted: KnownVariable) -> Option<&[u8]> {
        let variable = self.list.iter().find(|variable| variable.known == Some(wanted))?;
        Some(variable.value.of(&self.bytes)).filter(|value| !value.is_empty())
    }

    /// Whether the client has come by https.
    pub(super) fn say_https(&self) -> bool {
        // CGI programs have always been told "on"; some web servers say "1".
        self.get(KnownVariable::Https).is_some_and(|value| value.eq_ignore_ascii_case(b"on") || value == b"1")
    }

    /// Adds what the variables say. Not inlined, to keep it off the path of HTTP requests.
    #[inline(never)]
    pub(super) fn complete<'a>(&'a self, request: &mut Request<'a>) {
        request.server = Endpoint {
            address: self.get(KnownVariable::ServerName).unwrap_or(request.server.address),
            port: self.get(KnownVariable::ServerPort).unwrap_or(request.server.port),
        };
        request.https = self.say_https();
        // Data to filter is never in an input buffer.
        request.gateway = Some(Gateway::new(self.role, &self.bytes, &self.list, self.data.view(&[])));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.data = StoredContent::None;
    }
}
