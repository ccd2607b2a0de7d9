//! Apps without any process: the first request makes the parent process load the app, and waits in the queue meanwhile.

use super::AppPool;
use crate::parent_link::Reason;
use oribi_io::Backend;

impl<B: Backend> AppPool<'_, '_, B> {
    /// If the app is asleep: tells the parent process that there is a request. Returns whether the request may wait.
    #[cold]
    pub(super) fn wake_app(&mut self) -> bool {
        if !self.pool.is_asleep() {
            return false;
        }
        // If the socket is full, the parent process will read other messages about this app. If it has ended, so will the edge.
        let _ = self.parent_link.map(|parent_link| parent_link.request_action(self.index, Reason::Asleep));
        true
    }
}
