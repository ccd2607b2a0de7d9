//! Reloads of several apps at once.

use super::super::molds::Molds;
use oribi_admin::control::Progress;
use std::collections::VecDeque;

/// The number of reloads that are remembered. This is enough, because clients ask for the outcome of their reload soon.
const REMEMBERED: usize = 32;

/// The last reloads: the number of each, and the apps that it loads again, each by its index and its generation.
#[derive(Debug, Default)]
pub(super) struct AppReloads {
    started: u64,
    last: VecDeque<(u64, Vec<(usize, u64)>)>,
}

impl AppReloads {
    /// Records a reload; returns its number.
    pub(super) fn begin(&mut self, generations: Vec<(usize, u64)>) -> u64 {
        self.started += 1;
        self.last.push_back((self.started, generations));
        let excess = self.last.len().saturating_sub(REMEMBERED);
        self.last.drain(..excess);
        self.started
    }

    /// Returns the progress of a reload. It is done when all its apps are, and has failed when one has.
    pub(super) fn progress(&self, number: u64, apps: &[Molds<'_>]) -> Progress {
        let Some((_, generations)) = self.last.iter().find(|(known, _)| *known == number) else {
            return Progress::Failed("the reload is forgotten".to_owned());
        };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (index, generation) in generations {
            let app = &apps[*index];
            let name = app.label().name().map_or_else(String::new, |name| format!("{name}: "));
            match app.progress_of_reload(*generation) {
                Progress::Pending => return Progress::Pending,
                Progress::Done(text) => done.push(name + &text),
                Progress::Failed(why) => failed.push(name + &why),
            }
        }
        if generations.is_empty() {
            return Progress::Done("no app was loaded again, because all are stopped or asleep".to_owned());
        }
        if failed.is_empty() { Progress::Done(done.join("; ")) } else { Progress::Failed(failed.join("; ")) }
    }
}
