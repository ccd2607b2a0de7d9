//! Kills molds that take too long to load the app.

use super::super::describe_end;
use super::{Generation, Molds};
use rustix::process::{Signal, WaitStatus, kill_process};
use std::time::{Duration, Instant};

impl Molds<'_> {
    /// Kills molds that take too long to load the app. No other limit applies to the load: an app may wait in it without end,
    /// for a lock or a database that does not answer.
    pub(super) fn end_late_loads(&mut self) {
        let (now, limit) = (Instant::now(), self.settings.life.load_timeout);
        for generation in
            self.generations.iter_mut().filter(|generation| loads(generation) && now >= generation.started_at + limit)
        {
            generation.late = true;
            // The mold has not been waited for, so its process id cannot belong to another process.
            let _ = kill_process(generation.pid, Signal::KILL);
        }
    }

    /// Returns the time until a mold that is loading the app has taken too long. `None` if no mold is loading.
    pub(super) fn next_late_load(&self, now: Instant) -> Option<Duration> {
        let loading = self.generations.iter().filter(|generation| loads(generation));
        loading.map(|generation| (generation.started_at + self.settings.life.load_timeout).saturating_duration_since(now)).min()
    }

    /// Describes how a mold has ended, in words that follow its name. `late`: whether it was killed because its load took too
    /// long.
    pub(super) fn describe_end_of_mold(&self, late: bool, status: WaitStatus) -> String {
        if late {
            let seconds = self.settings.life.load_timeout.as_secs_f64();
            format!("was killed after {seconds} s (--load-timeout) without having loaded the app")
        } else {
            describe_end(status)
        }
    }
}

fn loads(generation: &Generation) -> bool {
    generation.stays() && !generation.loaded && !generation.late
}
