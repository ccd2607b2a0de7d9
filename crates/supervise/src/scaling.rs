//! Limits of the number of workers, and the progress of a change of that number.

use oribi_admin::control::Progress;
use oribi_config::Settings;
use rustix::process::Pid;

/// The number of workers to which any server may be scaled: the memory for a worker costs nothing until it is used.
const ALWAYS: usize = 64;

/// Returns the highest number of workers for a server that was started with `workers`: twice that number, but at least
/// [`ALWAYS`].
pub(super) fn most(workers: usize) -> usize {
    workers.saturating_mul(2).max(ALWAYS)
}

/// Returns the number of slots for workers on the scoreboard, for a server that was started with `workers`: twice the highest
/// number of workers, because replacements start before the old workers end, plus `workers`, for old workers that finish slow
/// requests.
pub(super) fn room(workers: usize) -> usize {
    most(workers).saturating_mul(2).saturating_add(workers)
}

/// Returns the number of places in the memory of each edge, if each worker has `lanes` lanes: a lane needs a place. There are
/// as many as all workers on the scoreboard need, if a quarter of the `descriptors` suffices for the places of all edges
/// ([`DESCRIPTORS`] each). Otherwise there are fewer, but enough for a few more workers than at the start, and for their
/// replacements. `descriptors` is the limit of open descriptors, or `None` without a limit. Several `apps` share the places,
/// which are then limited even without a limit of descriptors: a server may have hundreds of apps.
pub(super) fn pool_capacity(settings: &Settings, lanes: usize, descriptors: Option<u64>, apps: usize) -> usize {
    let (workers, lanes) = (settings.workers.most(), lanes.max(1));
    let (times, spare) = if apps > 1 { (2, 4) } else { (4, 16) };
    let least = workers.saturating_mul(times).saturating_add(spare).saturating_mul(lanes);
    let all = room(workers).saturating_mul(lanes);
    // Connections and files need most of the descriptors, so places get a quarter. Each edge has memory of its own.
    let edges = settings.edges_wanted().max(1);
    let quarter = descriptors.map(|most| usize::try_from(most / 4).unwrap_or(usize::MAX));
    let quarter = if apps > 1 { Some(quarter.unwrap_or(usize::MAX).min(OF_SEVERAL_APPS)) } else { quarter };
    let affordable = quarter.map_or(usize::MAX, |quarter| quarter / DESCRIPTORS / edges / apps.max(1));
    all.min(affordable).max(least)
}

/// The most descriptors of the places of several apps together, beyond those that each app needs.
const OF_SEVERAL_APPS: usize = 1 << 15;

/// The number of descriptors of a place in the memory of an edge.
const DESCRIPTORS: usize = 3;

/// Returns the highest number of workers if the memory of an edge has `capacity` places, and a worker needs `lanes` of them.
/// Half of the places are for replacements: when all workers are replaced, there are temporarily twice as many. `capacity` is
/// `None` without edges.
pub(super) fn most_with(settings: &Settings, capacity: Option<usize>, lanes: usize) -> usize {
    let highest = settings.workers.most();
    let most = most(highest);
    capacity.map_or(most, |capacity| most.min(capacity / lanes.max(1) / 2).max(highest))
}

/// Returns the target number of workers after `more` signals to add a worker and `fewer` signals to remove one, if the target
/// was `present`. It is at least 1 and at most `most`.
pub(super) fn changed(most: usize, present: usize, more: usize, fewer: usize) -> usize {
    present.saturating_add(more).saturating_sub(fewer).clamp(1, most.max(1))
}

/// Checks `workers`, a target number of workers, and returns it. `most` is the highest number.
///
/// # Errors
/// The number is not possible; the message says why, and names the limit.
pub(super) fn check(settings: &Settings, workers: usize, most: usize) -> Result<usize, String> {
    if settings.edges_wanted() == 0 && settings.sockets_of_address() > 1 {
        let opened = settings.workers;
        return Err(format!("the number of workers cannot change: the sockets are opened for {opened} of them (--accept)"));
    }
    match workers {
        0 => Err("there must be at least one worker".to_owned()),
        _ if workers > most => Err(format!(
            "there can be at most {most} workers, because the server was started with {}: start it with more (--workers)",
            settings.workers
        )),
        _ => Ok(workers),
    }
}

/// The last change of the number of workers that was requested by an order, for the client that waits for it.
#[derive(Debug, Default)]
pub(super) struct WorkerCountChange {
    number: u64,
    outcome: ChangeOutcome,
    /// The workers that were leaving when the target number was reached for the first time. `None` before that.
    awaited: Option<Vec<Pid>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ChangeOutcome {
    #[default]
    Done,
    /// Workers are starting or finishing.
    UnderWay,
    /// A worker cannot start, for this reason.
    Failed(String),
}

impl WorkerCountChange {
    /// Begins a change of the number of workers; returns the number that identifies the change.
    pub(super) fn begin(&mut self) -> u64 {
        (self.number, self.outcome) = (self.number + 1, ChangeOutcome::UnderWay);
        self.awaited = None;
        self.number
    }

    /// As [`Self::begin`], for a change after which no worker starts or ends.
    pub(super) fn begin_nothing(&mut self) -> u64 {
        let number = self.begin();
        self.end();
        number
    }

    /// Records that the target number is reached, and that the workers `leaving` are still ending. The change is complete when
    /// these workers have ended. Only the first call counts: where workers have short lives, there is always one that is
    /// leaving.
    pub(super) fn await_ends_of(&mut self, leaving: impl Iterator<Item = Pid>) {
        self.awaited.get_or_insert_with(|| leaving.collect());
    }

    /// Whether the change is incomplete until process `worker` has ended.
    pub(super) fn awaits_end_of(&self, worker: Pid) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.contains(&worker))
    }

    /// Whether the change is incomplete.
    pub(super) fn is_under_way(&self) -> bool {
        self.outcome == ChangeOutcome::UnderWay
    }

    /// Records that the change is complete.
    pub(super) fn end(&mut self) {
        if self.is_under_way() {
            self.outcome = ChangeOutcome::Done;
        }
    }

    /// Records that a worker could not start, for the reason `why`. Others are tried later, but the client should not wait for
    /// them.
    pub(super) fn fail(&mut self, why: &str) {
        if self.is_under_way() {
            self.outcome = ChangeOutcome::Failed(why.to_owned());
        }
    }

    /// Returns the progress of the change that `number` identifies. `workers` is the current target.
    pub(super) fn progress(&self, number: u64, workers: usize) -> Progress {
        match &self.outcome {
            _ if number != self.number => {
                Progress::Failed(format!("the number of workers has been changed again meanwhile, to {workers}"))
            }
            ChangeOutcome::UnderWay => Progress::Pending,
            ChangeOutcome::Done => Progress::Done(String::new()),
            ChangeOutcome::Failed(why) => {
                Progress::Failed(format!("{why}; the server keeps trying to start {workers}, unless another number is set"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::AcceptModel;

    #[test]
    fn a_server_grows_to_twice_its_workers_or_to_a_fixed_number_unless_each_worker_has_its_sockets() {
        let mut settings = Settings { workers: 2.into(), ..Settings::default() };
        assert_eq!([0, 1, 2, 32, 33, 100].map(most), [64, 64, 64, 64, 66, 200]);
        assert_eq!(check(&settings, 64, most(2)), Ok(64));
        let refused = check(&settings, 65, most(2)).expect_err("too many");
        assert!(refused.contains("at most 64 workers"), "{refused}");
        assert!(check(&settings, 0, most(2)).is_err());
        assert_eq!(room(2), 130);
        assert_eq!(
            [(2, 1, 0), (2, 99, 0), (2, 0, 9), (5, 1, 3)].map(|(now, more, fewer)| changed(most(2), now, more, fewer)),
            [3, 64, 1, 3]
        );
        settings.accept = AcceptModel::Own;
        assert!(check(&settings, 2, most(2)).is_err());
    }

    #[test]
    fn places_are_for_twice_as_many_workers_as_far_as_descriptors_allow() {
        let settings = Settings { workers: 4.into(), ..Settings::default() };
        assert_eq!(pool_capacity(&settings, 1, None, 1), 132);
        assert_eq!(pool_capacity(&settings, 8, None, 1), 132 * 8);
        assert_eq!(pool_capacity(&settings, 1, Some(1 << 20), 1), 132);
        assert_eq!(pool_capacity(&settings, 1, Some(1024), 1), 85);
        assert_eq!(pool_capacity(&settings, 8, Some(1024), 1), 256, "at least for a few more");
        assert_eq!(pool_capacity(&settings, 1, None, 5), 132);
        assert_eq!(pool_capacity(&settings, 1, Some(1 << 20), 200), 54, "the apps share them");
        assert_eq!(most_with(&settings, Some(132), 1), 64);
        assert_eq!(most_with(&settings, Some(85), 1), 42);
        assert_eq!(most_with(&settings, Some(256), 8), 16);
        assert_eq!(most_with(&settings, Some(1), 8), 4, "never fewer than at the start");
        assert_eq!(most_with(&settings, None, 8), 64);
    }

    #[test]
    fn a_change_awaits_those_who_are_leaving_when_the_number_is_right_and_not_those_who_leave_later() {
        let mut change = WorkerCountChange::default();
        let [first, second] = [1, 2].map(|number| Pid::from_raw(number).expect("a number"));
        change.begin();
        assert!(!change.awaits_end_of(first));
        change.await_ends_of([first].into_iter());
        change.await_ends_of([second].into_iter());
        assert!(change.awaits_end_of(first) && !change.awaits_end_of(second));
        change.begin();
        assert!(!change.awaits_end_of(first));
        change.await_ends_of([first, second].into_iter());
        assert!(change.awaits_end_of(first) && change.awaits_end_of(second));
    }

    #[test]
    fn who_waits_for_a_change_learns_what_becomes_of_it() {
        let mut change = WorkerCountChange::default();
        let first = change.begin();
        assert_eq!(change.progress(first, 3), Progress::Pending);
        let second = change.begin();
        assert!(matches!(change.progress(first, 4), Progress::Failed(why) if why.contains("changed again meanwhile, to 4")));
        change.fail("no memory");
        change.end();
        assert!(matches!(change.progress(second, 4), Progress::Failed(why) if why.starts_with("no memory; ")));
        let third = change.begin();
        change.end();
        change.fail("too late");
        assert_eq!(change.progress(third, 4), Progress::Done(String::new()));
    }
}
