//! The users of routes: their files are read again, and the edges get the content.

use super::super::watched_files::WatchedFiles;
use super::Edges;
use oribi_edge::routes::Routes;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

impl Edges<'_> {
    /// Returns the files of users of the present routes.
    pub(in super::super) fn watched_users(&self, now: Instant) -> WatchedFiles {
        let files = self.routes.iter().flat_map(|routes| routes.user_files()).map(Path::to_owned);
        WatchedFiles::of(files.collect(), now)
    }

    /// Reads the files of users again, and sends the edges the users.
    pub(in super::super) fn renew_users(&self) {
        let users = match self.routes.as_deref().map(Routes::read_users_again).transpose() {
            Ok(Some(Some(users))) => users,
            Ok(_) => return,
            Err(error) => return log::error!("cannot send the users to the edges: {error}"),
        };
        for (number, entry) in self.entries.iter().enumerate() {
            let Some(process) = &entry.process else { continue };
            if let Err(error) = process.link.give_users(users.as_fd()) {
                log::error!("cannot send the users to {}: {error}", self.name(number));
            }
            let _ = rustix::io::write(&process.waker, &[0]);
        }
    }
}
