//! The troubles of the workers during the run.

use crate::App;
use crate::findings::Findings;
use crate::server::{Server, children, runs, send, wait_until};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The time between two troubles, and the number of requests that must be answered meanwhile. Without answers there is no
/// further trouble: a new worker would serve clients that all other workers have forgotten, and so hide the fault.
const PAUSE: Duration = Duration::from_millis(10);
const ANSWERS: usize = 5;

/// The rounds in which a worker is killed. There are few, because a server waits longer and longer before it replaces workers
/// that die soon after their start.
const KILLING_ROUNDS: [usize; 2] = [2, 4];

/// The trouble in one half of a run.
pub struct Trouble {
    app: App,
    rounds: usize,
    kills: usize,
}

impl Trouble {
    pub fn new(app: App) -> Self {
        Self { app, rounds: 0, kills: 0 }
    }

    /// Makes one round of trouble: all workers are replaced, a worker is added, a worker is killed (in some rounds), and a
    /// worker is removed.
    pub fn make(&mut self, server: &Server, findings: &Findings, end: Instant) {
        let replaced = || server.log().matches(self.app.replaced()).count();
        let before = replaced();
        server.signal(Signal::HUP);
        wait_to(end, || replaced() > before);
        self.rounds += 1;
        pause(findings, end);
        server.signal(Signal::TTIN);
        pause(findings, end);
        if KILLING_ROUNDS.contains(&self.rounds) {
            self.kill(server, findings);
            pause(findings, end);
        }
        server.signal(Signal::TTOU);
        pause(findings, end);
    }

    fn kill(&mut self, server: &Server, findings: &Findings) {
        let workers = match self.app {
            App::Native => server.workers(),
            // The children of the master are those that have loaded the app; theirs are the workers.
            App::Psgi => server.workers().into_iter().flat_map(children).collect(),
        };
        if workers.is_empty() {
            return;
        }
        self.kills += 1;
        let worker = workers[self.rounds % workers.len()];
        findings.note_kill(|| {
            send(worker, Signal::KILL);
            wait_until("the death of a worker", || !runs(worker));
        });
    }

    /// Whether a worker was killed.
    pub fn was_made(&self) -> bool {
        self.kills > 0
    }

    pub fn summary(&self) -> String {
        format!("{} rounds of replacing, {} workers killed", self.rounds, self.kills)
    }
}

fn pause(findings: &Findings, end: Instant) {
    let goal = findings.answered() + ANSWERS;
    std::thread::sleep(PAUSE);
    wait_to(end, || findings.answered() >= goal);
}

/// Waits until `condition` is true, but not longer than until `end`.
fn wait_to(end: Instant, condition: impl Fn() -> bool) {
    while Instant::now() < end && !condition() {
        std::thread::sleep(Duration::from_millis(2));
    }
}
