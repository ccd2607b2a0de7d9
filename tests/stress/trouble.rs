//! The troubles of the workers during the run.

use crate::App;
use crate::findings::Findings;
use crate::server::{Server, children, runs, send, wait_until};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The time for which the server is left alone between two troubles, and the number of requests that are answered meanwhile.
/// Where no answers arrive, there is no further trouble either, because a new worker would serve clients that all others have
/// forgotten.
const PAUSE: Duration = Duration::from_millis(10);
const ANSWERS: usize = 5;

/// The rounds in which a worker is killed. Few, because a server waits longer and longer before it replaces what keeps dying young.
const KILLING_ROUNDS: [usize; 2] = [2, 4];

/// The trouble of one half of a run.
pub struct Trouble {
    app: App,
    rounds: usize,
    kills: usize,
}

impl Trouble {
    pub fn new(app: App) -> Self {
        Self { app, rounds: 0, kills: 0 }
    }

    /// One round: all workers are replaced, one comes, one is killed in some of them, one goes.
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

/// Waits until `condition` holds, at most to the end.
fn wait_to(end: Instant, condition: impl Fn() -> bool) {
    while Instant::now() < end && !condition() {
        std::thread::sleep(Duration::from_millis(2));
    }
}
