//! Lists the requests whose apps run, from untrusted copies of the lines that a supervisor watches. The lists are only
//! displayed.

use super::Scoreboard;
use super::rows::{self, Board, Row};
use super::running::{FIRST_SEEN, OwnDeadline, RunningLine, SINCE, own_deadline_in, text_in};
use crate::clock::milliseconds;
use std::time::Duration;

/// A request whose app runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRequest {
    /// The process id of the worker that runs the app.
    pub pid: u32,
    /// Method and target of the request, and whether they may have been cut.
    pub text: (Vec<u8>, bool),
    /// The time since the request began.
    pub age: Duration,
    /// The time since the app was first seen without progress. `None` while the app waits for its client.
    pub quiet: Option<Duration>,
    /// The deadline that the app has set for itself.
    pub deadline: OwnDeadline,
}

impl RunningRequest {
    /// Decodes copies of the first and the second line of a thread, of the worker `pid`. `None` if no app runs.
    fn of(pid: u32, first: ([u64; 4], [u32; 8]), second: [u64; 4], now: u64) -> Option<Self> {
        let (words, halves) = first;
        let since = second[SINCE];
        let passed = |moment: u64| Duration::from_millis(now.saturating_sub(moment));
        (since != 0).then(|| Self {
            pid,
            text: text_in(words, halves),
            age: passed(since),
            quiet: (words[0] % 2 == 1).then(|| passed(second[FIRST_SEEN].max(since))),
            deadline: own_deadline_in(second),
        })
    }
}

impl Board {
    /// Returns the requests whose apps run; empty if apps are not watched.
    pub fn running_requests(&self) -> Vec<RunningRequest> {
        let (now, mut all) = (milliseconds(), Vec::new());
        for (pid, lines) in self.lines_of_workers() {
            let pairs = lines.as_chunks::<3>().0.iter();
            let reported = |[first, second, _]: &[[u8; 64]; 3]| {
                RunningRequest::of(pid, (rows::words_in(first), rows::halves_in(first)), rows::words_in(second), now)
            };
            all.extend(pairs.filter_map(reported));
        }
        all
    }
}

impl Scoreboard {
    /// Returns the requests whose apps run; empty if apps are not watched.
    pub fn running_requests(&self) -> Vec<RunningRequest> {
        let now = milliseconds();
        let rows = self.slots().iter().enumerate().filter_map(|(index, slot)| Some((slot.row(index)?, slot.running)));
        let reported = |(row, lines): (Row, &'static [RunningLine])| {
            lines.iter().filter_map(move |[first, second, _]| {
                RunningRequest::of(row.pid, (rows::words(first), rows::halves(first)), rows::words(second), now)
            })
        };
        rows.flat_map(reported).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::running::RunningApps;
    use super::super::{Scoreboard, WorkerCommand};
    use super::*;
    use oribi_host::ExchangeId;
    use oribi_message::{HeadLayout, RequestHead};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_runs_is_shown_by_both_who_may_look() {
        let board = Board::new(2, 2, 0).expect("a file in memory");
        let scoreboard = Scoreboard::in_file(board.descriptor(), 2, 2, 0, false).expect("it has the size");
        assert_eq!((board.running_requests(), scoreboard.running_requests()), (Vec::new(), Vec::new()));
        let slot = scoreboard.slots()[1];
        slot.occupy(WorkerCommand::Serve);
        slot.pid.store(77, Relaxed);
        let apps = RunningApps::on(slot.running, None).expect("there are lines");
        let layout = HeadLayout::default();
        let began = Duration::from_millis(milliseconds()).saturating_sub(Duration::from_secs(5));
        apps.begin(ExchangeId(1), &RequestHead::new(b"", &layout), began);
        for reported in [board.running_requests(), scoreboard.running_requests()] {
            assert_eq!((reported.len(), reported[0].pid, reported[0].text.clone()), (1, 77, (b" ".to_vec(), false)));
            let most = Duration::from_secs(600);
            assert!(
                (Duration::from_secs(5)..most).contains(&reported[0].age)
                    && reported[0].quiet.is_some_and(|quiet| quiet < most)
            );
        }
        apps.hold(ExchangeId(1));
        assert_eq!(board.running_requests()[0].quiet, None, "it waits for its client");
        apps.end(ExchangeId(1));
        assert_eq!((board.running_requests(), scoreboard.running_requests()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn nonsense_is_shown_and_does_no_harm() {
        let reported = RunningRequest::of(1, ([u64::MAX; 4], [u32::MAX; 8]), [u64::MAX; 4], 5).expect("it is not empty");
        assert_eq!(
            (reported.age, reported.quiet, reported.deadline),
            (Duration::ZERO, Some(Duration::ZERO), OwnDeadline::Never)
        );
        assert!(reported.text.1);
    }
}
