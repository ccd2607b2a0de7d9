//! Divides the room for further workers between apps that want one.
//!
//! At each look at most one worker starts in the whole server. Its memory counts as used from then on. The app whose requests
//! have waited longest gets it; the workers that an app has beyond its lowest number count against it. If several apps follow the
//! load, none has more than half of the memory that it and the others could still take, so that there is always as much for the
//! others.

use std::time::Duration;

/// An app that wants one more worker.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Wish {
    /// The index of the app.
    pub(in super::super) app: usize,
    /// The time that its requests have waited.
    pub(in super::super) wait: Duration,
    /// The number of its workers beyond the lowest number.
    pub(in super::super) extra: usize,
    /// The memory of one of its workers in bytes.
    pub(in super::super) size: u64,
    /// The load of the processors, in percent, from which on it gets none.
    pub(in super::super) most_cpu: u8,
}

/// The room for further workers.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Room {
    /// The memory in bytes, without the reserve, and without that of workers that are starting. `None` if it is not known.
    pub(in super::super) memory: Option<u64>,
    /// The load of the processors in percent. `None` if it is not known.
    pub(in super::super) cpu: Option<u8>,
    /// Whether several apps follow the load.
    pub(in super::super) is_shared: bool,
}

/// The reason why an app gets no worker now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    /// The processors are busy, to this percentage.
    Cpu(u8),
    /// There is too little memory: this many bytes are left, of which this many may be used.
    Memory(u64),
}

impl Room {
    /// Returns the reason why there is no room for this wish, if there is none.
    pub(in super::super) fn refusal(&self, wish: &Wish) -> Option<Refusal> {
        // Another worker on busy processors makes all requests slower.
        if let Some(load) = self.cpu.filter(|load| wish.most_cpu < 100 && *load >= wish.most_cpu) {
            return Some(Refusal::Cpu(load));
        }
        let usable = self.memory.map(|left| {
            let own = wish.size.saturating_mul(wish.extra as u64);
            if self.is_shared { (left.saturating_add(own) / 2).saturating_sub(own) } else { left }
        });
        usable.filter(|usable| wish.size > *usable).map(Refusal::Memory)
    }

    /// Returns the wish that is fulfilled.
    pub(in super::super) fn choose<'w>(&self, wishes: &'w [Wish]) -> Option<&'w Wish> {
        let share = |wish: &&Wish| wish.wait.as_nanos() / (wish.extra as u128 + 1);
        wishes.iter().filter(|wish| self.refusal(wish).is_none()).max_by_key(share)
    }
}

/// Returns the memory, in bytes, that stays free: a twentieth of the whole, but at least 32 MiB.
pub(in super::super) const fn reserve(whole: u64) -> u64 {
    let part = whole / 20;
    if part > 32 << 20 { part } else { 32 << 20 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { memory: Some(100), cpu: Some(50), is_shared: false };
    const WISH: Wish = Wish { app: 0, wait: Duration::from_secs(1), extra: 0, size: 60, most_cpu: 90 };

    #[test]
    fn there_must_be_memory_and_idle_processors() {
        assert_eq!(ROOM.refusal(&WISH), None);
        assert_eq!(ROOM.refusal(&Wish { size: 100, ..WISH }), None);
        assert_eq!(ROOM.refusal(&Wish { size: 101, ..WISH }), Some(Refusal::Memory(100)));
        assert_eq!(Room { is_shared: true, ..ROOM }.refusal(&WISH), Some(Refusal::Memory(50)), "half of it is for others");
        let grown = Wish { size: 20, extra: 3, ..WISH };
        assert_eq!(Room { is_shared: true, ..ROOM }.refusal(&grown), None, "80 of 160");
        assert_eq!(Room { is_shared: true, ..ROOM }.refusal(&Wish { extra: 4, ..grown }), Some(Refusal::Memory(10)));
        assert_eq!(Room { cpu: Some(89), ..ROOM }.refusal(&WISH), None);
        assert_eq!(Room { cpu: Some(90), ..ROOM }.refusal(&WISH), Some(Refusal::Cpu(90)));
        assert_eq!(Room { cpu: Some(100), ..ROOM }.refusal(&Wish { most_cpu: 100, ..WISH }), None);
        assert_eq!(Room { memory: None, cpu: None, is_shared: true }.refusal(&WISH), None, "nothing is known");
        assert_eq!([0, 640 << 20, 20 << 30].map(reserve), [32 << 20, 32 << 20, 1 << 30]);
    }

    #[test]
    fn the_longest_wait_comes_first_and_workers_that_an_app_has_got_count_against_it() {
        let wish = |app, seconds, extra| Wish { app, wait: Duration::from_secs(seconds), extra, ..WISH };
        let chosen = |wishes: &[Wish]| ROOM.choose(wishes).map(|wish| wish.app);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[wish(0, 1, 0), wish(1, 2, 0)]), Some(1));
        assert_eq!(chosen(&[wish(0, 1, 0), wish(1, 3, 3)]), Some(0));
        assert_eq!(chosen(&[Wish { size: 200, ..wish(0, 9, 0) }, wish(1, 1, 0)]), Some(1), "there is no room for the other");
    }
}
