//! How many workers there may be, and what has become of a change of that number.

use oribi_admin::control::Progress;
use oribi_config::Settings;
use rustix::process::Pid;

/// A server may always grow to that many workers: their places are memory that costs nothing until it is used.
const ALWAYS: usize = 64;

/// The most workers that may be wanted of a server that was started with `workers`: twice as many, or [`ALWAYS`].
pub(super) fn most(workers: usize) -> usize {
    workers.saturating_mul(2).max(ALWAYS)
}

/// Room for workers on the scoreboard: twice as many as may be wanted, for replacements that start next to the workers that they
/// replace, and as many again as there are at the start, for workers with slow requests to finish.
pub(super) fn room(workers: usize) -> usize {
    most(workers).saturating_mul(2).saturating_add(workers)
}

/// Places for workers in the memory of each edge, for workers with that many `lanes`, each of which needs one: as many as the
/// scoreboard has room for, but no more than `descriptors` allow, of which a place needs [`DESCRIPTORS`]; and in any case for a
/// few more workers than at the start, and for their replacements.
pub(super) fn places(settings: &Settings, lanes: usize, descriptors: Option<u64>) -> usize {
    let (workers, lanes) = (settings.workers.max(1), lanes.max(1));
    let least = workers.saturating_mul(4).saturating_add(16).saturating_mul(lanes);
    let all = room(workers).saturating_mul(lanes);
    // Half of them is for connections, and each edge has memory of its own.
    let edges = settings.edges_wanted().max(1);
    let affordable =
        descriptors.map_or(usize::MAX, |most| usize::try_from(most / 4).unwrap_or(usize::MAX) / DESCRIPTORS / edges);
    all.min(affordable).max(least)
}

/// Descriptors of a place in the memory of an edge.
const DESCRIPTORS: usize = 3;

/// The most workers that may be wanted if the memory of an edge has that many `places`, where one worker needs `lanes` of them: when
/// all are replaced, there are twice as many for a moment.
pub(super) fn most_with(settings: &Settings, places: Option<usize>, lanes: usize) -> usize {
    let most = most(settings.workers);
    places.map_or(most, |places| most.min(places / lanes.max(1) / 2).max(settings.workers).max(1))
}

/// How many workers are wanted, of now `present` and at most `most`, after signals that ask for one more and for one fewer.
pub(super) fn changed(most: usize, present: usize, more: usize, fewer: usize) -> usize {
    present.saturating_add(more).saturating_sub(fewer).clamp(1, most.max(1))
}

/// Whether there can be that many `workers`, of at most `most`; returns the number.
///
/// # Errors
/// Says why not, and how many there can be.
pub(super) fn check(settings: &Settings, workers: usize, most: usize) -> Result<usize, String> {
    if settings.edges_wanted() == 0 && settings.sockets_of_address() > 1 {
        let opened = settings.workers;
        return Err(format!("the number of workers stays: the sockets are opened for {opened} of them (--accept)"));
    }
    match workers {
        0 => Err("there must be a worker".to_owned()),
        _ if workers > most => Err(format!(
            "there can be at most {most} workers, because the server was started with {}: start it with more (--workers)",
            settings.workers
        )),
        _ => Ok(workers),
    }
}

/// The last change of the number of workers that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Change {
    number: u64,
    outcome: Outcome,
    /// Those who were leaving when there were as many workers as there should be for the first time.
    awaited: Option<Vec<Pid>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Outcome {
    #[default]
    Done,
    /// Workers are starting or finishing.
    UnderWay,
    /// Some worker cannot start, for this reason.
    Failed(String),
}

impl Change {
    /// The number of workers was changed; returns the number of this change.
    pub(super) fn begin(&mut self) -> u64 {
        (self.number, self.outcome) = (self.number + 1, Outcome::UnderWay);
        self.awaited = None;
        self.number
    }

    /// There are as many workers as there should be, and these are still leaving. The change is complete when they have left; who
    /// leaves later is replaced, which may go on for ever where workers live shortly.
    pub(super) fn await_ends_of(&mut self, leaving: impl Iterator<Item = Pid>) {
        self.awaited.get_or_insert_with(|| leaving.collect());
    }

    /// Whether the change is not complete before this worker has ended.
    pub(super) fn awaits_end_of(&self, worker: Pid) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.contains(&worker))
    }

    /// Whether somebody may wait for it.
    pub(super) fn is_under_way(&self) -> bool {
        self.outcome == Outcome::UnderWay
    }

    /// There are as many workers as there should be.
    pub(super) fn end(&mut self) {
        if self.is_under_way() {
            self.outcome = Outcome::Done;
        }
    }

    /// Some worker could not start. Others are tried, but nobody should wait for that.
    pub(super) fn fail(&mut self, why: &str) {
        if self.is_under_way() {
            self.outcome = Outcome::Failed(why.to_owned());
        }
    }

    /// How far the change with this number has come, after which there are to be that many `workers`.
    pub(super) fn progress(&self, number: u64, workers: usize) -> Progress {
        match &self.outcome {
            _ if number != self.number => {
                Progress::Failed(format!("the number of workers has been changed again meanwhile, to {workers}"))
            }
            Outcome::UnderWay => Progress::Pending,
            Outcome::Done => Progress::Done(String::new()),
            Outcome::Failed(why) => {
                Progress::Failed(format!("{why}; the server goes on trying to have {workers}, unless another number is set"))
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
        let mut settings = Settings { workers: 2, ..Settings::default() };
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
        let settings = Settings { workers: 4, ..Settings::default() };
        assert_eq!(places(&settings, 1, None), 132);
        assert_eq!(places(&settings, 8, None), 132 * 8);
        assert_eq!(places(&settings, 1, Some(1 << 20)), 132);
        assert_eq!(places(&settings, 1, Some(1024)), 85);
        assert_eq!(places(&settings, 8, Some(1024)), 256, "at least for a few more");
        assert_eq!(most_with(&settings, Some(132), 1), 64);
        assert_eq!(most_with(&settings, Some(85), 1), 42);
        assert_eq!(most_with(&settings, Some(256), 8), 16);
        assert_eq!(most_with(&settings, Some(1), 8), 4, "never fewer than at the start");
        assert_eq!(most_with(&settings, None, 8), 64);
    }

    #[test]
    fn a_change_awaits_those_who_are_leaving_when_the_number_is_right_and_not_those_who_leave_later() {
        let mut change = Change::default();
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
        let mut change = Change::default();
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
