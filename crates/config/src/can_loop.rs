//! Decides whether an event loop of an app can run in the workers.

use super::contradiction::Contradictions;
use super::settings::Settings;

impl Settings {
    /// Whether an event loop can run in the workers: it cannot be cloned for several threads, and without edges it must wait for
    /// the connections of its worker, as another thread would.
    #[must_use]
    pub fn can_loop(&self) -> bool {
        self.threads == 1 && (self.edges_wanted() > 0 || self.io.model().threads_share())
    }

    /// Refuses fibers where no event loop can run.
    pub(super) fn check_fibers(&self, found: &mut Contradictions) {
        let fibers = self.event_loop.fibers;
        if fibers == 0 || (self.can_loop() && self.io_threads == 0) {
            return;
        }
        let why = "fibers need --threads 1, no --max-io-threads and, without edges, --io epoll";
        found.add("fibers", fibers.to_string(), why, &["threads", "max-io-threads", "io", "edge"]);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Origin};

    #[test]
    fn a_loop_needs_one_thread_and_descriptors_that_it_can_wait_for() {
        for (given, can) in [
            (&[][..], true),
            (&["threads=2"], false),
            (&["io=io_uring"], false),
            (&["io=libevent", "edge=on"], true),
            (&["io=epoll", "edge=off"], true),
        ] {
            let mut config = Config::with(|_| None, 1);
            for (name, value) in given.iter().filter_map(|text| text.split_once('=')) {
                config.set(name, value, Origin::CommandLine).expect("fits");
            }
            assert_eq!(config.finish().expect("fits").can_loop(), can, "{given:?}");
            config.set("fibers", "100", Origin::CommandLine).expect("fits");
            let fibers = config.finish().map(|settings| settings.event_loop.fibers);
            assert_eq!(fibers.ok(), can.then_some(100), "{given:?} with fibers");
            config.set("max-io-threads", "1", Origin::CommandLine).expect("fits");
            assert!(config.finish().is_err_and(|error| error.to_string().contains("no --max-io-threads")), "{given:?}");
        }
    }
}
