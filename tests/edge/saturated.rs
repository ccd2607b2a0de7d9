//! With more work than workers can do, requests are answered in turn, whichever client sends them.

use crate::language::Language;
use crate::load::{Load, Opened, Plan, Question};
use crate::turn;
use std::time::Duration;

crate::with_all_kinds_of_workers!(who_comes_later_is_served_in_turn);

fn nap(number: u64) -> Question {
    Question::nap(number, 0.02)
}

fn probe(number: u64) -> Question {
    Question::new(format!("/healthz?{number}"), crate::load::ANYTHING)
}

fn who_comes_later_is_served_in_turn(language: Language) {
    let _turn = turn::alone();
    let site = language.start(&["--workers", "2"]);
    turn::best_of_three(|| {
        let without_pause = Plan { connections: 20, pace: None, requests: None, question: nap };
        let busy = Load::start(site.address, without_pause);
        busy.wait_for_more(60);
        let probes = Plan { connections: 1, pace: Some(Duration::from_millis(20)), requests: Some(50), question: probe };
        // On a connection without an earlier request to an app: it must not wait for one to begin.
        let probes = Opened::idle(site.address, 1).begin(probes);
        let later = Plan { connections: 12, pace: None, requests: Some(60), question: nap };
        let later = Opened::idle(site.address, 12).begin(later).wait();
        let (busy, probes) = (busy.stop(), probes.wait());
        for (what, report) in [("who never pauses", &busy), ("who comes later", &later), ("probes", &probes)] {
            report.must_be_perfect(what);
            println!("{what}: {} answers, mean {:.1?}, longest {:.1?}", report.answers(), report.mean(), report.longest());
        }
        // Beside 32 clients of two workers, 16 answers of 20 ms are in front of each request.
        let mean = later.mean();
        let longest = later.longest().max(busy.longest());
        if longest > 2 * mean {
            return Err(format!("one waited {longest:.1?}, the mean of who comes later is {mean:.1?}"));
        }
        // One that waited for its turn would take as long as the others.
        let probe = probes.percentile(99);
        if probe > mean / 2 { Err(format!("a probe took {probe:.1?}, and those who come later {mean:.1?}")) } else { Ok(()) }
    });
}
