//! Apps that sleep: an app whose number of workers may be 0 has no process, not even a mold, until a request comes.

use super::super::reloads::ReloadOutcome;
use super::{Generation, Molds};
use oribi_pool::Availability;

/// Whether an app sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Wakefulness {
    #[default]
    Awake,
    /// It has its workers, and edges report each request as if it slept. If there is none until the next look, it sleeps: so no
    /// request is lost that comes at this moment.
    Drowsy,
    /// It has no process.
    Asleep,
}

impl Molds<'_> {
    /// Whether the app has no process because nobody asks for it.
    pub(in super::super) fn is_asleep(&self) -> bool {
        self.wakefulness == Wakefulness::Asleep
    }

    /// Whether the app falls asleep at the next look, unless a request comes.
    pub(in super::super) fn is_drowsy(&self) -> bool {
        self.wakefulness == Wakefulness::Drowsy
    }

    /// Whether the app has served at least once, or waits for its first request.
    pub(in super::super) fn has_started(&self) -> bool {
        self.served || self.is_asleep()
    }

    /// Returns whether edges may queue requests of the app, and whether they must report them.
    pub(in super::super) fn availability(&self) -> Availability {
        let is_always_available = self.label.is_unnamed() && !self.range.may_sleep();
        match self.wakefulness {
            _ if self.stopped => Availability::Unavailable,
            Wakefulness::Drowsy | Wakefulness::Asleep => Availability::Asleep,
            Wakefulness::Awake if is_always_available || self.is_available() => Availability::Available,
            Wakefulness::Awake => Availability::Unavailable,
        }
    }

    /// Lets the app have processes: a mold starts with the next step. Returns whether it had none.
    pub(in super::super) fn wake(&mut self) -> bool {
        std::mem::take(&mut self.wakefulness) == Wakefulness::Asleep
    }

    /// Announces to the edges that the app will sleep.
    pub(in super::super) fn doze_off(&mut self) {
        self.wakefulness = Wakefulness::Drowsy;
    }

    /// Ends all processes of the app, until it is woken. A load that has failed is forgotten: the next request tries it again.
    pub(in super::super) fn fall_asleep(&mut self) {
        (self.wakefulness, self.failed) = (Wakefulness::Asleep, false);
        self.wanted = self.range.at_start();
        self.pace.forgive();
        self.change.last.end();
        let patience = self.patience();
        for generation in self.generations.iter_mut().filter(|generation| Generation::stays(generation)) {
            generation.leave(patience);
            self.reloads.end(generation.number, ReloadOutcome::GivenUp);
        }
    }
}
