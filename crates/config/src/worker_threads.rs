//! The numbers of threads of a worker that follow from several settings.

use super::settings::Settings;

impl Settings {
    /// Returns the most threads of a worker that run the app.
    #[must_use]
    pub const fn most_threads(&self) -> usize {
        self.threads.saturating_add(self.io_threads)
    }

    /// Returns the number of threads of each worker that the supervisor watches for apps that take too long. If there are
    /// edges, an edge watches an app until the app has answered, and the supervisor watches it only after that.
    #[must_use]
    pub fn watched_threads(&self) -> usize {
        if self.has_app_deadlines() { self.most_threads() } else { 0 }
    }
}
