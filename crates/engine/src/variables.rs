//! The variables with which a web server describes a request, or with which this server describes an encrypted connection.

use super::content::StoredContent;
use oribi_host::{Endpoint, Gateway, Request};
use oribi_io::Encryption;
use oribi_message::{HeadLayout, KnownVariable, Role, Span, Variable};

/// The variables of a web server that depend on the target.
const OF_TARGET: &[&[u8]] =
    &[b"SCRIPT_NAME", b"PATH_INFO", b"PATH_TRANSLATED", b"QUERY_STRING", b"REQUEST_URI", b"DOCUMENT_URI", b"SCRIPT_FILENAME"];

/// The variables with their bytes, which also contain the head; and the data for a filter.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) bytes: Vec<u8>,
    pub(super) list: Vec<Variable>,
    pub(super) role: Role,
    pub(super) data: StoredContent,
    /// Whether the variables are this server's: about an encrypted connection, or about the app's place. Then `bytes` does not
    /// contain the head.
    pub(super) own: bool,
    /// The head as the client has sent it, if the request was rewritten.
    pub(super) as_sent: Option<Box<HeadLayout>>,
}

impl Variables {
    pub(super) fn get(&self, wanted: KnownVariable) -> Option<&[u8]> {
        let variable = self.list.iter().find(|variable| variable.known == Some(wanted))?;
        Some(variable.value.of(&self.bytes)).filter(|value| !value.is_empty())
    }

    /// Whether the client has shown a valid certificate.
    pub(super) fn has_client_certificate(&self) -> bool {
        self.list.iter().any(|variable| variable.name.of(&self.bytes) == b"SSL_CLIENT_S_DN")
    }

    /// Whether the client used https.
    pub(super) fn say_https(&self) -> bool {
        // CGI programs get "on" from most web servers, and "1" from some.
        self.get(KnownVariable::Https).is_some_and(|value| value.eq_ignore_ascii_case(b"on") || value == b"1")
    }

    /// Adds the variables to a request. Not inlined, to keep this code off the path of HTTP requests.
    #[inline(never)]
    pub(super) fn complete<'a>(&'a self, mut request: Request<'a>) -> Request<'a> {
        if self.own {
            request.gateway = Some(Gateway::own(&self.bytes, &self.list));
            return request;
        }
        request.server = Endpoint {
            address: self.get(KnownVariable::ServerName).unwrap_or(request.server.address),
            port: self.get(KnownVariable::ServerPort).unwrap_or(request.server.port),
        };
        request.https = self.say_https();
        // Data to filter is never in an input buffer.
        request.gateway = Some(Gateway::new(self.role, &self.bytes, &self.list, self.data.view(&[])));
        request
    }

    /// Takes the variables of an encrypted connection.
    #[inline(never)]
    pub(super) fn describe(&mut self, encryption: &Encryption) {
        self.clear();
        self.own = true;
        self.bytes.extend_from_slice(&encryption.variables);
        let mut ends = nuls(&self.bytes);
        let mut start = 0;
        while let (Some(between), Some(end)) = (ends.next(), ends.next()) {
            let name = Span::new(start, between);
            let known = KnownVariable::lookup(name.of(&self.bytes));
            self.list.push(Variable { name, value: Span::new(between + 1, end), known });
            start = end + 1;
        }
    }

    /// Adds the path below which the app answers.
    #[inline(never)]
    pub(super) fn mount(&mut self, prefix: &[u8]) {
        self.own = true;
        self.set(KnownVariable::ScriptName, prefix);
    }

    /// Sets a variable, in place of the one that may be there.
    #[inline(never)]
    pub(super) fn set(&mut self, known: KnownVariable, value: &[u8]) {
        self.list.retain(|variable| variable.known != Some(known));
        let start = self.bytes.len();
        self.bytes.extend_from_slice(known.name().as_bytes());
        let between = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let (name, value) = (Span::new(start, between), Span::new(between, self.bytes.len()));
        self.list.push(Variable { name, value, known: Some(known) });
    }

    /// Removes the variables of a web server that depend on the target.
    pub(super) fn forget_target(&mut self) {
        let Self { bytes, list, .. } = self;
        list.retain(|variable| !OF_TARGET.contains(&variable.name.of(bytes)));
    }

    pub(super) fn clear(&mut self) {
        self.own = false;
        self.as_sent = None;
        self.bytes.clear();
        self.list.clear();
        self.data = StoredContent::None;
    }
}

/// The positions of all NULs.
fn nuls(bytes: &[u8]) -> impl Iterator<Item = usize> + use<'_> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::Variables;
    use oribi_io::Encryption;

    #[test]
    fn each_name_gets_its_value() {
        let mut variables = Variables::default();
        for _ in 0..2 {
            variables.describe(&Encryption { variables: (*b"SSL_P\0on\0SSL_X\0\0SSL_Y\0a b\0").into(), http2: false });
            let texts =
                variables.list.iter().map(|variable| (variable.name.of(&variables.bytes), variable.value.of(&variables.bytes)));
            assert_eq!(texts.collect::<Vec<_>>(), [(&b"SSL_P"[..], &b"on"[..]), (b"SSL_X", b""), (b"SSL_Y", b"a b")]);
        }
    }
}
