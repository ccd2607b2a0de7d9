//! Connections of web servers (FastCGI 1.0).

mod receive;

use super::Engine;
use super::carrier::Carrier;
use super::connection::{Speech, State};
use super::exchange::Received;
use super::send::Still;
use super::stream::{Stream, StreamFraming};
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_proto::fcgi;
use std::time::Duration;

/// The time for which a web server may keep an unused connection. The web server decides when to close it (FastCGI 1.0, section
/// 3.2), so this limit is only for a web server that has disappeared.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3600);

impl<B: Backend> Engine<'_, B> {
    /// Converts a new connection to one that carries several exchanges.
    pub(super) fn carry(&mut self, index: u32) {
        self.count_speech(index, Speech::FastCgi);
        self.connections[index].state = State::Carrying(Box::new(Carrier::of_web_server()));
    }

    fn spare_request(&mut self) -> Box<Received> {
        let mut request = self.memory.spare_requests.pop().unwrap_or_default();
        request.variables = Some(self.memory.spare_variables.pop().unwrap_or_default());
        request
    }

    /// Ends a request whose answer the web server no longer wants: sends the end of the request, and forgets the request.
    pub(super) fn cancel_stream(&mut self, number: u32) -> Still {
        let Stream { connection, framing, .. } = &mut self.streams[number];
        let line = &mut self.connections[*connection].line;
        if let StreamFraming::FastCgi(writer) = framing {
            writer.finish(0, line.output.get_or_insert_with(|| self.memory.outputs.take()).tail());
        }
        self.end_unanswered(number)
    }
}

/// The limits of the machines, from the settings.
pub(super) fn limits(settings: &Settings) -> fcgi::Limits {
    let (limits, defaults) = (&settings.limits, fcgi::Limits::default());
    fcgi::Limits {
        connections: u32::try_from(limits.connections).unwrap_or(u32::MAX),
        requests: u16::try_from(limits.fastcgi_requests).unwrap_or(u16::MAX),
        // The same size again for the variables that the web server adds to the client's request.
        params_bytes: limits.head_bytes * 2,
        pairs: limits.fields + defaults.pairs,
        target_bytes: limits.target_bytes,
        strict_target: settings.strict_uri,
        content_bytes: limits.content_bytes,
    }
}
