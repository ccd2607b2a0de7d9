//! A course: one server, to which a list of acts happens round after round.

use crate::acts::{Act, staff};
use crate::budget::Until;
use crate::clients::Clients;
use crate::language::{Language, Launcher, Site};
use crate::load::{Manner, Question};
use crate::report::{Outcome, RECYCLED};
use crate::resources::{Held, processes};
use crate::scene::{Scene, WORKERS, soon};
use crate::server::runs;
use rustix::process::Signal;
use std::time::Instant;

pub struct Course {
    pub name: &'static str,
    pub launcher: Launcher,
    pub options: Vec<&'static str>,
    /// The ways in which kept connections may end.
    pub kept: Manner,
    pub question: fn(u64) -> Question,
    pub acts: Vec<Act>,
}

impl Course {
    /// Starts the server and its clients, performs all acts again and again until the time is over, and stops the server and
    /// its clients.
    pub fn run(&self, language: Language, until: &Until) -> Outcome {
        let begun = Instant::now();
        let mut outcome = Outcome::new(language, self.name);
        let scene = self.set(language);
        let mut before = Held::default();
        'rounds: while !until.is_over(outcome.rounds) {
            for act in &self.acts {
                if until.is_over(outcome.rounds) {
                    break 'rounds;
                }
                let faults = scene.clients.faults();
                let done = (act.perform)(&scene).and_then(|count| scene.breathe().map(|()| count));
                let found = scene.clients.faults() - faults;
                if found > 0 {
                    outcome.faults.push(format!("{found} faults were found during: {}", act.name));
                }
                match done {
                    Ok(count) => outcome.count(act.name, count),
                    Err(why) => {
                        outcome.faults.push(format!("{}: {why}", act.name));
                        break 'rounds;
                    }
                }
            }
            outcome.rounds += 1;
            if outcome.rounds == 1 {
                before = Held::by(&scene);
            }
        }
        match staff::recycled(&scene) {
            // Each server below start_server counts for itself.
            Ok(_) if scene.starter => {}
            Ok(count) => outcome.count(RECYCLED, count),
            Err(why) => outcome.faults.push(why),
        }
        let after = Held::by(&scene);
        outcome.faults.extend(after.leak_since(&before).filter(|_| outcome.rounds > 0));
        outcome.held = Some((before, after));
        let below = processes(&scene);
        let Scene { mut site, clients, .. } = scene;
        outcome.take(clients.stop());
        site.server.signal(Signal::TERM);
        let status = soon("the end of the server", || site.server.exit_status().is_some());
        let status = status.map(|()| site.server.exit_status().and_then(|status| status.code()));
        if status != Ok(Some(0)) {
            outcome.faults.push(format!("the server ends with {status:?}"));
        }
        if let Err(why) = soon("all processes end", || !below.iter().any(|process| runs(*process))) {
            outcome.faults.push(why);
        }
        outcome.keep_log_if_needed(&site.server.log());
        outcome.took = begun.elapsed();
        outcome
    }

    fn set(&self, language: Language) -> Scene {
        let folder = std::env::temp_dir();
        let name = format!("oribi-endure-{}-{language:?}-{}", std::process::id(), self.name.replace(' ', "-"));
        let control = folder.join(name);
        let workers = WORKERS.to_string();
        let mut options = vec!["--workers", &workers, "--control", control.to_str().expect("it is ASCII")];
        options.extend(["--boot-request", "/boot", "--boot-timeout", "20s"]);
        options.extend(&self.options);
        let site = Site::start(self.launcher, language, &options);
        // Connections of HTTP/2 do not change hands in an upgrade, but end.
        let streams = if self.acts.iter().any(|act| act.name.contains("upgrade")) { Manner::Parting } else { self.kept };
        let clients = Clients::start(site.address, self.kept, streams, self.question);
        Scene { site, clients, language, starter: self.launcher == Launcher::StartServer, control }
    }
}
