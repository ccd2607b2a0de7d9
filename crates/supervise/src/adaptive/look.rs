//! One look at all apps whose numbers of workers follow the load.

use super::policy::{Decision, Policy, Rules, Sample};
use super::shares::{Refusal, Room, Wish, reserve};
use std::time::Duration;

/// An app at a look.
#[derive(Debug)]
pub(in super::super) struct View<'p> {
    /// The index of the app.
    pub(in super::super) app: usize,
    pub(in super::super) policy: &'p mut Policy,
    pub(in super::super) rules: Rules,
    /// The target number of workers.
    pub(in super::super) wanted: usize,
    pub(in super::super) sample: Sample,
    /// The memory of one of its workers in bytes.
    pub(in super::super) size: u64,
    /// The load of the processors, in percent, from which on no worker starts.
    pub(in super::super) most_cpu: u8,
}

/// The memory and the processors of the machine, or of the control group.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Machine {
    /// The memory that is left, and the whole memory, in bytes.
    pub(in super::super) memory: Option<(u64, u64)>,
    /// The load of the processors since the last look, in percent.
    pub(in super::super) cpu: Option<u8>,
}

/// A change for an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Action {
    /// One more worker starts, because requests have waited this long.
    Grow(Duration),
    /// One would start, but there is no room.
    Refused(Refusal),
    /// One worker ends.
    Shrink,
    /// The app falls asleep.
    Sleep,
    /// A worker could not start; the target number falls back to this.
    GiveUp(usize),
}

/// Returns the changes after a look, each with the index of its app.
pub(in super::super) fn look(now: Duration, apps: &mut [View<'_>], machine: Machine) -> Vec<(usize, Action)> {
    // The memory of workers that are starting is not seen yet.
    let starting = |view: &View<'_>| view.size.saturating_mul(view.wanted.saturating_sub(view.sample.ready) as u64);
    let starting: u64 = apps.iter().map(starting).sum();
    let free = machine.memory.map(|(left, whole)| left.saturating_sub(reserve(whole)).saturating_sub(starting));
    let room = Room { memory: free, cpu: machine.cpu, is_shared: apps.len() > 1 };
    let (mut actions, mut wishes) = (Vec::new(), Vec::new());
    for view in apps.iter_mut() {
        let View { app, ref mut policy, ref rules, wanted, ref sample, size, most_cpu } = *view;
        match policy.decide(now, rules, wanted, sample) {
            Decision::Stay => {}
            Decision::Grow(wait) => {
                wishes.push(Wish { app, wait, extra: wanted.saturating_sub(rules.least), size, most_cpu });
            }
            Decision::Shrink => {
                policy.has_shrunk(now);
                actions.push((app, Action::Shrink));
            }
            Decision::Sleep => actions.push((app, Action::Sleep)),
            Decision::GiveUp => {
                policy.start_has_failed(now);
                actions.push((app, Action::GiveUp(sample.ready.max(rules.least).max(1))));
            }
        }
    }
    let chosen = room.choose(&wishes).map(|wish| wish.app);
    for wish in wishes {
        if chosen == Some(wish.app) {
            if let Some(view) = apps.iter_mut().find(|view| view.app == wish.app) {
                view.policy.has_grown(now, &view.rules);
            }
            actions.push((wish.app, Action::Grow(wish.wait)));
        } else if let Some(refusal) = room.refusal(&wish) {
            actions.push((wish.app, Action::Refused(refusal)));
        }
    }
    actions
}
