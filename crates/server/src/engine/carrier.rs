//! The data of a connection that carries several exchanges at once, those of a web server.

use oribi_proto::fcgi;

/// The data of a FastCGI connection.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    pub(super) machine: fcgi::Machine,
    /// The unfinished requests: id and number of the stream, in order of ids.
    pub(super) streams: Vec<(u16, u32)>,
}

impl Carrier {
    /// How many requests it carries.
    pub(super) fn carries(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn number(&self, id: u16) -> Option<u32> {
        let found = self.streams.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.streams[found].1)
    }

    pub(super) fn add(&mut self, id: u16, number: u32) {
        if let Err(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.insert(position, (id, number));
        }
    }

    pub(super) fn remove(&mut self, id: u16) {
        if let Ok(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.remove(position);
        }
    }
}
