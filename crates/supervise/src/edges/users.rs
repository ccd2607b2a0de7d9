//! The users of routes: their files are read again, and the edges get the content.

use super::super::watched_files::WatchedFiles;
use super::Edges;
use oribi_edge::routes::Routes;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

impl Edges<'_> {
    /// Begins to watch the files of users of the routes, before any edge has started, and reads them again: they may have changed
    /// since the routes were made.
    pub(in super::super) fn watch_users(&self, now: Instant) -> WatchedFiles {
        let files = self.routes.iter().flat_map(|routes| routes.user_files()).map(Path::to_owned);
        let watched = WatchedFiles::of(files.collect(), now);
        if let Some(Err(why)) = self.routes.as_deref().map(Routes::read_users) {
            log::error!("{why}; keeping the current users");
        }
        watched
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
