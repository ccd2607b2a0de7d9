//! The boot request, which a new worker answers to itself before any other: it shows whether the app can answer, and loads
//! the parts of the app that are loaded with the first request. The answer is not sent anywhere.

use crate::event_sources::{EventSources, Interrupter, Poller};
use oribi_config::{Settings, SocketAddress};
use oribi_host::{Content, Endpoint, ExchangeId, GlobalLock, Host, Outlet, Piece, Reply, ReplyError, Request, Wait};
use oribi_message::{FieldPair, HeadLayout, RequestHead, ResponseHead};
use oribi_proto::h1::{Event, Limits, Machine};
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot};
use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Waker;
use std::time::Duration;

/// The id of the only exchange.
const EXCHANGE: ExchangeId = ExchangeId(u64::MAX);

/// The longest wait before the worker's command and, if the language has a global lock, the language's interrupts are checked
/// again: Ruby runs some of its work only then.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The progress of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The answer has not begun.
    Waiting,
    /// The content has begun, after a head with this status.
    Started(u16),
    /// The answer, with this status, is complete.
    Done(u16),
    /// The app has abandoned the answer.
    GivenUp,
}

/// The boot request of a lane, and the outlet of its answer. A host may keep the outlet's address, so this value must live as
/// long as the host. Calls for the exchange after its end are refused.
pub struct Boot<'a> {
    settings: &'a Settings,
    target: &'a str,
    slot: &'a WorkerSlot,
    event_sources: EventSources,
    progress: Cell<Progress>,
}

impl<'a> Boot<'a> {
    /// Creates the boot request of `settings`; `None` if they have none. `wake` is the read end of the worker's pipe: after a
    /// write to it, [`Boot::ask`] reads the command in `slot`.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn new(settings: &'a Settings, slot: &'a WorkerSlot, wake: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let Some(target) = settings.life.boot_request.as_deref() else { return Ok(None) };
        let event_sources = EventSources::new(wake)?;
        Ok(Some(Self { settings, target, slot, event_sources, progress: Cell::new(Progress::Waiting) }))
    }

    /// Makes `host`, which no other thread uses, answer the boot request, and waits for the end of the answer. If the language
    /// has a global `lock`, the calling thread holds it, and releases it while it waits. No deadline applies: the supervisor
    /// kills a worker that takes too long.
    ///
    /// # Errors
    /// The app is not fit to serve, or the worker was told to stop. The message contains the reason.
    pub fn ask(&self, host: &mut dyn Host, lock: Option<&dyn GlobalLock>) -> Result<(), String> {
        host.enter();
        host.begin(self);
        let outcome = self.answer(host, lock);
        // The exchange is over: further calls of the app for it are refused.
        self.progress.set(Progress::GivenUp);
        host.leave();
        outcome.map_err(|why| format!("the boot request, GET {}, {why}", self.target))
    }

    fn answer(&self, host: &mut dyn Host, lock: Option<&dyn GlobalLock>) -> Result<(), String> {
        let bytes = format!(
            "GET {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Oribi (boot request)\r\nAccept: */*\r\n\r\n",
            self.target
        );
        let mut layout = HeadLayout::default();
        let step = Machine::new().handle_input(bytes.as_bytes(), &mut layout, &Limits::default());
        let Event::Head { .. } = step.event else { return Err("is no valid request".to_owned()) };
        let port = self.settings.listen.iter().find_map(|address| match &address.socket {
            SocketAddress::Tcp { port, .. } => Some(port.to_string()),
            SocketAddress::Unix { .. } => None,
        });
        let request = Request {
            head: RequestHead::new(bytes.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"127.0.0.1", port: b"0" },
            server: Endpoint { address: b"localhost", port: port.as_deref().unwrap_or("0").as_bytes() },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: self.settings.underscore_headers,
            gateway: None,
        };
        let mut after = host.answer(&request, Reply::new(self, EXCHANGE));
        let mut retire = after.retire;
        loop {
            while after.deferred {
                after = host.run_deferred();
                retire |= after.retire;
            }
            match self.progress.get() {
                Progress::Done(status) if status >= 500 => return Err(format!("was answered with status {status}")),
                Progress::Done(_) if retire => return Err("was the last that its app wanted to answer".to_owned()),
                Progress::Done(_) => return Ok(()),
                Progress::GivenUp => return Err("was answered in part only".to_owned()),
                Progress::Waiting | Progress::Started(_) if retire => return Err("was not answered".to_owned()),
                Progress::Waiting | Progress::Started(_) => {}
            }
            // The app continues the answer later.
            if host.has_loop() {
                let poller = self.event_sources.poller();
                after = host.run_loop(poller.descriptor(), Some(LONGEST_WAIT));
                retire |= after.retire;
                // An error would occur again, and the supervisor kills a worker without progress.
                let _ = poller.wait(Some(Duration::ZERO));
            } else {
                self.wait(lock);
            }
            if self.slot.command() != WorkerCommand::Serve {
                return Err("was not answered before the worker was told to stop".to_owned());
            }
            if !after.deferred && self.event_sources.take() {
                after = host.attend(self);
                retire |= after.retire;
            }
        }
    }

    /// Waits until an event occurs.
    fn wait(&self, lock: Option<&dyn GlobalLock>) {
        let poller = self.event_sources.poller();
        let event_wait = EventWait { poller: &poller, interrupter: self.event_sources.interrupter() };
        match lock {
            None => event_wait.wait(),
            // Other threads of the language may finish the answer.
            Some(lock) => {
                lock.without_lock(&event_wait);
                lock.see_to_interrupts();
            }
        }
    }

    /// Advances the answer, unless it has ended.
    fn advance(&self, exchange: ExchangeId, next: impl FnOnce(Progress) -> Option<Progress>) -> Result<(), ReplyError> {
        let open = exchange == EXCHANGE && matches!(self.progress.get(), Progress::Waiting | Progress::Started(_));
        let next = open.then(|| next(self.progress.get())).flatten().ok_or(ReplyError::Gone)?;
        self.progress.set(next);
        if matches!(next, Progress::Done(_) | Progress::GivenUp) {
            // Another thread may be waiting for this.
            self.event_sources.interrupter().interrupt();
        }
        Ok(())
    }

    fn whole(&self, exchange: ExchangeId, status: u16) -> Result<(), ReplyError> {
        self.advance(exchange, |progress| (progress == Progress::Waiting).then_some(Progress::Done(status)))
    }
}

/// Waits for the events of a boot request.
struct EventWait<'a> {
    poller: &'a Poller,
    interrupter: Interrupter,
}

impl Wait for EventWait<'_> {
    fn wait(&self) {
        // An error would occur again, and the supervisor kills a worker without progress.
        let _ = self.poller.wait(Some(LONGEST_WAIT));
    }

    fn interrupt(&self) {
        self.interrupter.interrupt();
    }
}

impl Outlet for Boot<'_> {
    fn respond(&self, exchange: ExchangeId, head: ResponseHead<'_>, _parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.whole(exchange, head.status)
    }

    fn respond_pieces(&self, exchange: ExchangeId, head: ResponseHead<'_>, _pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        self.whole(exchange, head.status)
    }

    fn start(&self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.advance(exchange, |progress| (progress == Progress::Waiting).then_some(Progress::Started(head.status)))
    }

    fn write(&self, exchange: ExchangeId, _piece: &[u8]) -> Result<(), ReplyError> {
        self.advance(exchange, |progress| matches!(progress, Progress::Started(_)).then_some(progress))
    }

    fn finish(&self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.advance(exchange, |progress| match progress {
            Progress::Started(status) => Some(Progress::Done(status)),
            _ => None,
        })
    }

    fn abandon(&self, exchange: ExchangeId) {
        // A client would get a 500 if nothing had been sent. The exchange may be over already.
        let _ = self.advance(exchange, |progress| match progress {
            Progress::Waiting => Some(Progress::Done(500)),
            _ => Some(Progress::GivenUp),
        });
    }

    fn has_gone(&self, exchange: ExchangeId) -> bool {
        exchange != EXCHANGE || !matches!(self.progress.get(), Progress::Waiting | Progress::Started(_))
    }

    fn inform(&self, exchange: ExchangeId, _status: u16, _fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.advance(exchange, Some)
    }

    /// Returns 1, so that work for idle times waits for the first pause between clients.
    fn waiting(&self) -> usize {
        1
    }

    fn waker(&self) -> Waker {
        self.event_sources.waker()
    }

    fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.event_sources.watch(descriptor)
    }

    fn unwatch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.event_sources.unwatch(descriptor)
    }

    fn wake_after(&self, time: Option<Duration>) -> io::Result<()> {
        self.event_sources.wake_after(time)
    }

    fn take_socket(&self, _exchange: ExchangeId) -> io::Result<OwnedFd> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the boot request has no client and no socket"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::After;
    use std::io::Write;
    use std::os::fd::AsFd;

    /// An app that answers with this function, and records the calls.
    struct App<F: FnMut(&Request<'_>, Reply<'_>) -> After + Send>(F, Vec<&'static str>);

    impl<F: FnMut(&Request<'_>, Reply<'_>) -> After + Send> Host for App<F> {
        fn enter(&mut self) {
            self.1.push("enter");
        }

        fn begin(&mut self, _outlet: &dyn Outlet) {
            self.1.push("begin");
        }

        fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
            (self.0)(request, reply)
        }

        fn run_deferred(&mut self) -> After {
            self.1.push("deferred");
            After::default()
        }

        fn leave(&mut self) {
            self.1.push("leave");
        }
    }

    const fn head(status: u16) -> ResponseHead<'static> {
        ResponseHead { status, fields: &[] }
    }

    /// Returns the result for an app with this answer, in a worker that gets `command` in the meantime.
    fn boot_told(command: WorkerCommand, answer: impl FnMut(&Request<'_>, Reply<'_>) -> After + Send) -> Result<(), String> {
        let _deadline = oribi_test_support::waits_for("the answer to the boot request");
        let mut settings = Settings::default();
        settings.life.boot_request = Some("/up?deep=1".to_owned());
        let slot = WorkerSlot::unshared();
        slot.set_command(command);
        let (wake, mut writer) = io::pipe().expect("a pipe is to be had");
        writer.write_all(b"x").expect("it has room");
        let boot = Boot::new(&settings, &slot, wake.as_fd()).expect("the system allows it").expect("it is set");
        let mut app = App(answer, Vec::new());
        let outcome = boot.ask(&mut app, None);
        assert_eq!((app.1[..2].to_vec(), app.1.last()), (vec!["enter", "begin"], Some(&"leave")));
        outcome
    }

    fn boot(answer: impl FnMut(&Request<'_>, Reply<'_>) -> After + Send) -> Result<(), String> {
        boot_told(WorkerCommand::Serve, answer)
    }

    #[test]
    fn the_app_sees_a_usual_request() {
        let outcome = boot(|request, reply| {
            assert_eq!((request.head.method(), request.head.target()), (&b"GET"[..], &b"/up?deep=1"[..]));
            assert_eq!((request.server_port(), request.remote_address()), (&b"80"[..], &b"127.0.0.1"[..]));
            reply.send(head(204), &[]).expect("it is open");
            After { deferred: true, ..After::default() }
        });
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn any_answer_below_500_will_do() {
        for (status, fit) in [(200, true), (302, true), (404, true), (499, true), (500, false), (503, false)] {
            let whole = boot(|_, reply| {
                reply.send(head(status), &[b"x"]).expect("it is open");
                After::default()
            });
            let pieces = boot(|_, reply| {
                let mut writer = reply.start(head(status)).expect("it is open");
                writer.write(b"x").expect("it is open");
                writer.finish().expect("it is open");
                After::default()
            });
            assert_eq!((whole.is_ok(), pieces.is_ok()), (fit, fit), "{status}");
            if let Err(why) = whole {
                assert_eq!(why, format!("the boot request, GET /up?deep=1, was answered with status {status}"));
            }
        }
    }

    #[test]
    fn an_app_that_gives_up_or_wants_to_end_is_not_fit() {
        let given_up = boot(|_, reply| {
            drop(reply);
            After::default()
        });
        assert!(given_up.expect_err("no answer").contains("status 500"));
        let cut = boot(|_, reply| {
            drop(reply.start(head(200)));
            After::default()
        });
        assert!(cut.expect_err("half an answer").contains("in part"));
        let last = boot(|_, reply| {
            reply.send(head(200), &[]).expect("it is open");
            After { retire: true, ..After::default() }
        });
        assert!(last.expect_err("it wants to end").contains("the last"));
    }

    #[test]
    fn an_answer_may_come_later_and_a_stop_is_not_held_up() {
        let later = |_: &Request<'_>, reply: Reply<'_>| {
            let (outlet, id) = reply.detach();
            outlet.wake_after(Some(Duration::from_millis(5))).expect("there are timers");
            assert!(!outlet.has_gone(id));
            After::default()
        };
        assert!(boot_told(WorkerCommand::Retire, later).expect_err("no answer").contains("told to stop"));
    }
}
