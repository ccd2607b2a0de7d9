//! The work of a lane with one thread: asks for requests, calls the host, and handles commands until the lane ends.
//!
//! The lane waits in its source, unless the host runs an event loop of its language. Then the lane waits in that loop, for the
//! loop's own events and for the descriptor of the source at once. The loop comes round between two requests: so an app that
//! computes for one exchange delays the others by no more than that, and takes no request that another worker could take.

use super::{ContextSupply, Lane, LaneSetup, Renewal};
use oribi_host::{After, Host};
use oribi_io::Waiter;
use oribi_source::{Next, Source};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The next task of a lane.
enum Task<X> {
    Answer(X),
    HandleCommand,
    /// The event loop has come round, and its app has wishes.
    Note(After),
}

/// The way in which a lane waits.
trait Waiting<S: Source> {
    /// Waits for the next task.
    ///
    /// # Errors
    /// The source can no longer wait.
    fn next(&mut self, lane: &Lane<'_, S>, host: &mut dyn Host) -> io::Result<Task<S::Exchange>>;
}

/// Waits in the source.
struct InSource;

impl<S: Source> Waiting<S> for InSource {
    #[inline]
    fn next(&mut self, lane: &Lane<'_, S>, _host: &mut dyn Host) -> io::Result<Task<S::Exchange>> {
        Ok(lane.source().next_exchange()?.map_or(Task::HandleCommand, Task::Answer))
    }
}

/// Waits in the event loop of the host.
struct InLoop<W> {
    waiter: W,
    /// Whether the loop must come round before the next request.
    is_due: bool,
}

impl<S: Source> Waiting<S> for InLoop<S::Waiter> {
    fn next(&mut self, lane: &Lane<'_, S>, host: &mut dyn Host) -> io::Result<Task<S::Exchange>> {
        if std::mem::take(&mut self.is_due) {
            return self.come_round(host, Some(Duration::ZERO)).map(Task::Note);
        }
        let mut source = lane.source();
        let next = if source.answering() < lane.concurrency { source.next_exchange_now()? } else { source.next_event_now()? };
        // The source may have announced a wait before it found something.
        let timeout = match next {
            Next::Exchange(exchange) => {
                source.end_wait();
                self.is_due = true;
                return Ok(Task::Answer(exchange));
            }
            Next::Command => {
                source.end_wait();
                return Ok(Task::HandleCommand);
            }
            Next::Nothing(timeout) => timeout,
        };
        let idle = source.is_idle_while_it_waits().then_some(lane.slot.idle);
        drop(source);
        idle.inspect(|idle| _ = idle.fetch_add(1, Ordering::Relaxed));
        let outcome = self.come_round(host, timeout);
        idle.inspect(|idle| _ = idle.fetch_sub(1, Ordering::Relaxed));
        let after = outcome?;
        self.waiter.wait(Some(Duration::ZERO))?;
        let mut source = lane.source();
        source.collect(&mut self.waiter);
        source.end_wait();
        Ok(Task::Note(after))
    }
}

impl<W: Waiter> InLoop<W> {
    fn come_round(&self, host: &mut dyn Host, timeout: Option<Duration>) -> io::Result<After> {
        let descriptor = self.waiter.descriptor().ok_or_else(no_descriptor)?;
        Ok(host.run_loop(descriptor, timeout))
    }
}

fn no_descriptor() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "no event loop of an app can wait for this I/O model: choose another by --io, such as epoll, or --edge on, or --loop none",
    )
}

/// Answers the requests of the lane's source.
pub(super) fn run_from<S: Source>(lane: &Lane<'_, S>, setup: &LaneSetup<'_>, supply: &mut dyn ContextSupply) -> io::Result<()> {
    let host = supply.first().map_err(io::Error::other)?;
    if host.has_loop() {
        let waiter = lane.source().waiter().ok().filter(|waiter| waiter.descriptor().is_some()).ok_or_else(no_descriptor)?;
        lane.source().report_client_changes();
        return serve(lane, setup, supply, host, InLoop { waiter, is_due: true });
    }
    lane.source().serve_alone(host.is_prompt());
    if host.is_concurrent() {
        lane.source().report_client_changes();
    }
    serve(lane, setup, supply, host, InSource)
}

fn serve<S: Source>(
    lane: &Lane<'_, S>,
    setup: &LaneSetup<'_>,
    supply: &mut dyn ContextSupply,
    mut host: Box<dyn Host>,
    mut waiting: impl Waiting<S>,
) -> io::Result<()> {
    host.enter();
    host.begin(lane);
    lane.source().expect_prompt_answers(host.is_prompt());
    lane.handle_command();
    lane.ends_with_context.set(supply.ends_with_context());
    let mut due = supply.due();
    let mut answered = 0;
    let mut serves = true;
    loop {
        let retire = match waiting.next(lane, &mut *host)? {
            Task::Answer(exchange) => {
                let Some(exchange) = lane.answer_in_front(exchange, setup.listeners) else { continue };
                answered += 1;
                lane.answer(exchange, setup.listeners, &mut *host)
            }
            Task::HandleCommand if lane.handle_command() => {
                if serves && lane.stops() {
                    serves = false;
                    supply.retires();
                }
                lane.call_woken_host(&mut *host)
            }
            Task::HandleCommand => break,
            Task::Note(after) if after.deferred => lane.run_deferred(&mut *host, after),
            Task::Note(after) => after.retire,
        };
        // A context that has only reached its number of requests is not exchanged while it has unanswered exchanges. A process
        // that ends with its context must not wait for that: its app may have an event stream open at any time.
        let may_renew = || lane.ends_with_context.get() || lane.source().answering() == 0;
        if retire || (answered >= due && may_renew()) {
            host.leave();
            match supply.renew(host, answered, After { retire, ..After::default() }) {
                Renewal::Serve(next, until) => {
                    // Any other context has answered all of its exchanges, or it stays.
                    if retire {
                        lane.source().abandon_all();
                    }
                    host = next;
                    due = until;
                }
                Renewal::Stop(last) => {
                    host = last;
                    due = u64::MAX;
                    lane.source().stop(false);
                    serves = false;
                    supply.retires();
                }
            }
            host.enter();
            host.begin(lane);
        }
    }
    lane.source().abandon_all();
    host.leave();
    Ok(())
}
