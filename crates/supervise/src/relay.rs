//! The relay: the process that shares messages to channels with other servers, over a Redis (`--relay`).
//!
//! It has a box among those of the edges ([`oribi_ipc::posts`]), so it gets each message that is published in this server, and
//! writes those of others to the boxes of the edges. It may wait for a Redis; nobody waits for it. It ends after all other
//! processes, so that their last messages are shared.
//!
//! The next server has the same boxes, and the relay of the previous server serves both until it ends: with two, each message of other
//! servers would come twice. That of the next one has subscribed at Redis meanwhile, and drops all that it gets.

use super::helper_process::{ForkedHelper, HelperContext, HelperProcess, OnParentDeath};
use super::privileges::Privileges;
use super::signals::Signals;
use oribi_config::Settings;
use oribi_io::process::{Fork, shared_lines};
use oribi_ipc::posts::{PostBoxes, Posts};
use oribi_live::Command;
use oribi_relay::{Link, Prepared};
use oribi_stats::totals::{Account, Counter, Counts};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Pid, WaitStatus};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause before the next start of a relay that has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The time that the relay has to share the last messages when it ends.
const LAST: Duration = Duration::from_millis(1500);

/// The time for which the parent waits for the end of the relay.
const PATIENCE: Duration = Duration::from_millis(2500);

/// The number of messages read before the relay does other work.
const IN_A_ROW: usize = 1000;

/// The interval at which it is checked whether the relay of the previous server has ended. Messages of other servers are lost between
/// its end and the next look.
const LOOK: Duration = Duration::from_millis(5);

/// The wait before a full box is tried again.
const AGAIN: Duration = Duration::from_millis(2);

/// The relay, in its parent process.
pub(super) struct Relay {
    helper_process: HelperProcess,
    prepared: Arc<Prepared>,
    boxes: Arc<PostBoxes>,
    /// The memory for its counters. `None` if the system had none.
    account: Option<Account>,
}

/// The parameters of a new relay.
pub(super) struct ForkedRelay {
    forked: ForkedHelper,
    prepared: Arc<Prepared>,
    boxes: Arc<PostBoxes>,
    account: Option<Account>,
}

impl Relay {
    /// Prepares the relay. `None` if messages stay in this server. `boxes` are those of the edges.
    ///
    /// # Errors
    /// A file that the settings name cannot be used; the message says which, and why.
    pub(super) fn new(settings: &Settings, boxes: Option<&Arc<PostBoxes>>) -> Result<Option<Self>, String> {
        let Some(prepared) = Prepared::new(&settings.relay)? else { return Ok(None) };
        let Some(boxes) = boxes else {
            log::warn!("--relay has no effect, because channels need an edge: --edge on");
            return Ok(None);
        };
        let account = shared_lines(Account::LINES).ok().and_then(Account::first_of);
        let helper_process = HelperProcess::new("the process that shares messages with other servers", PAUSE);
        Ok(Some(Self { helper_process, prepared: Arc::new(prepared), boxes: Arc::clone(boxes), account }))
    }

    /// Returns the counters of the relay and of those before it.
    pub(super) fn counts(&self) -> Counts {
        self.account.map(|account| account.read()).unwrap_or_default()
    }

    /// Starts the relay if it is missing. In the new process it returns the parameters of the relay: the caller must close the
    /// parent's descriptors, and then call [`ForkedRelay::run_and_exit`]. Returns `None` in the parent.
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<ForkedRelay> {
        let forked = self.helper_process.keep_running(fork)?;
        let (prepared, boxes) = (Arc::clone(&self.prepared), Arc::clone(&self.boxes));
        Some(ForkedRelay { forked, prepared, boxes, account: self.account })
    }

    /// Collects its exit status: see [`HelperProcess::reap`].
    pub(super) fn reap(&mut self) {
        self.helper_process.reap();
    }

    /// Records that a process has ended: see [`HelperProcess::ended`].
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> bool {
        self.helper_process.ended(pid, status)
    }

    /// Makes it reopen its log: see [`HelperProcess::reopen_logs`].
    pub(super) fn reopen_logs(&self) {
        self.helper_process.reopen_logs();
    }

    /// Makes the relay share the last messages and end. Called when all other processes have ended. Returns the last counters.
    pub(super) fn finish(self) -> Counts {
        let account = self.account;
        self.helper_process.finish(PATIENCE);
        account.map(|account| account.read()).unwrap_or_default()
    }

    /// Returns the descriptor to watch: see [`HelperProcess::descriptor`].
    // Valgrind complains of the inlined function, as it does of that of the exporter.
    #[inline(never)]
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.helper_process.descriptor()
    }

    /// Returns the longest time to sleep: see [`HelperProcess::patience`].
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.helper_process.patience(now)
    }
}

impl ForkedRelay {
    /// Runs the relay, and ends the process.
    pub(super) fn run_and_exit(self, settings: &Settings, privileges: &Privileges, signals: &mut Signals) -> ! {
        let Self { forked, prepared, boxes, account } = self;
        forked.run_and_exit(signals, |context| work(context, &prepared, (&*boxes, account), settings, privileges))
    }
}

fn work(
    context: &HelperContext,
    prepared: &Prepared,
    (boxes, account): (&PostBoxes, Option<Account>),
    settings: &Settings,
    privileges: &Privileges,
) -> Result<(), String> {
    privileges.drop_in_client()?;
    context.follow_parent(OnParentDeath::Finish)?;
    let own = boxes.relay().ok_or("there is no box for it")?;
    let arrival = boxes.arrival(own).ok_or("there is no box for it")?;
    let mut has_box = has_box_for_itself(arrival);
    if !has_box {
        log::info!("the relay of the previous server serves this one, too, until it ends");
    }
    let (mut posts, mut link) = (Posts::new(own, Some(boxes)), Link::new(prepared, Instant::now()));
    let add = |counter, number| {
        if let Some(account) = account {
            account.add(counter, number);
        }
    };
    if let Some(counts) = account.map(|account| account.read()) {
        // The connection of a relay that was killed has ended with it.
        add(
            Counter::RelayDisconnected,
            counts.of(Counter::RelayConnected).saturating_sub(counts.of(Counter::RelayDisconnected)),
        );
    }
    let mut end_by = None;
    loop {
        if !has_box && has_box_for_itself(arrival) {
            // The old one has delivered what has arrived until now.
            for _ in 0..IN_A_ROW {
                if !link.advance(Instant::now(), &mut |_| {}) {
                    break;
                }
            }
            log::info!("the relay of the previous server has ended, and that of this one serves it");
            has_box = true;
        }
        if context.must_reopen_log()
            && let Err(error) = oribi_log::reopen_error_log(settings)
        {
            log::error!("cannot open the error log again: {error}");
        }
        let now = Instant::now();
        // Messages that were sent before the signal to finish are still read.
        if context.must_end() {
            end_by.get_or_insert(now + LAST);
        }
        let mut has_more = has_box;
        for _ in 0..if has_box { IN_A_ROW } else { 0 } {
            match posts.receive() {
                Some(commands) => link.publish(&commands, now),
                None => {
                    has_more = false;
                    break;
                }
            }
        }
        let mut lost = 0;
        has_more |= link.advance(now, &mut |command: &Command<'_>| {
            if has_box {
                let mut bytes = Vec::new();
                command.write(&mut bytes);
                lost += posts.send_to_all(&bytes);
            }
        });
        posts.flush();
        let (changes, counts) = link.take_counts();
        for (counter, number) in [
            (Counter::RelayConnected, changes.connected),
            (Counter::RelayDisconnected, changes.disconnected),
            (Counter::RelaySent, counts.sent),
            (Counter::RelayReceived, if has_box { counts.received } else { 0 }),
            (Counter::RelayLost, counts.lost + lost),
        ] {
            add(counter, number);
        }
        if end_by.is_some_and(|end_by| now >= end_by || !has_more && link.is_flushed()) {
            add(Counter::RelayDisconnected, u64::from(link.is_connected()));
            return Ok(());
        }
        if has_more {
            continue;
        }
        let again = (!posts.is_idle()).then(|| now + AGAIN);
        let look = (!has_box).then(|| now + LOOK);
        let due = link.due().into_iter().chain(again).chain(look).chain(end_by).min();
        let polled = has_box.then_some((arrival, PollFlags::IN)).into_iter().chain(link.polled());
        let polled = polled.map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor, events));
        context.wait_for(polled, due.map(|due| due.saturating_duration_since(now)));
    }
}

/// Locks a box. `false`: the relay of another server has it. The lock ends with its process.
fn has_box_for_itself(arrival: BorrowedFd<'_>) -> bool {
    // A system that knows no locks for sockets has other errors.
    !matches!(fcntl_lock(arrival, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN | Errno::ACCESS))
}
