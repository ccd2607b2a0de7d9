//! Detects apps that are stuck: each thread that runs an app has a progress number, which the supervisor watches.
//!
//! The progress number is odd while the app runs, and increases whenever the app does something for its client. So no worker
//! reads a clock: the supervisor checks the numbers from time to time, and records when it first saw the current number. The
//! supervisor's orders contain that number, so an order that arrives after progress of the app has no effect.

use crate::clock::milliseconds;
use oribi_config::RequestIdField;
use oribi_host::ExchangeId;
use oribi_io::process::SharedLine;
use oribi_io::process::orders::{Mailbox, Run, order_word};
use oribi_message::RequestHead;
use std::cell::RefCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The number of bytes of method and target for which a line has room beside the progress number.
const TEXT_BYTES: usize = 56;
/// The number of these bytes that are in the line's 64-bit words after the first word.
const TEXT_IN_WORDS: usize = 24;

/// The lines that the supervisor shares with a thread that runs an app. The first has the app's progress number, and method
/// and target of the request. The second has orders, times, and the deadline that the app has set for itself. The third has
/// the id of the request.
pub type RunningLine = [SharedLine; 3];

/// The index of the word with the deadline that an app has set for its current exchange, in milliseconds; 0 for none.
const OWN_DEADLINE: usize = 1;
/// The index of the word with the start of the current exchange, in milliseconds of [`milliseconds`]; 0 if no app runs.
pub(super) const SINCE: usize = 2;
/// The index of the word with the time at which the supervisor first saw the current number, in milliseconds of
/// [`milliseconds`]. Only the supervisor writes this word.
pub(super) const FIRST_SEEN: usize = 3;
/// The value of `OWN_DEADLINE` for an app that may take any time.
const LIFTED: u64 = u64::MAX;

/// The apps that a lane runs: at most one on each of the threads that share the lane.
#[derive(Debug)]
pub struct RunningApps {
    lines: &'static [RunningLine],
    exchanges: RefCell<Vec<Option<ExchangeId>>>,
    /// The field that contains the ids of requests. `None` if requests have no ids.
    ids: Option<RequestIdField>,
}

impl RunningApps {
    /// Returns the apps of a lane, in these lines. `None` if apps are not watched, so that there are no lines.
    pub fn on(lines: &'static [RunningLine], ids: Option<&RequestIdField>) -> Option<Self> {
        let exchanges = RefCell::new(vec![None; lines.len()]);
        (!lines.is_empty()).then(|| Self { lines, exchanges, ids: ids.cloned() })
    }

    /// Records that an app is about to be called for an exchange, and starts its deadlines. `now` is a time of the monotonic
    /// clock.
    pub fn begin(&self, exchange: ExchangeId, head: &RequestHead<'_>, now: Duration) {
        self.enter(exchange, head);
        if let Some([_, orders, _]) = self.line(exchange) {
            orders.words[SINCE].store(now.as_millis() as u64, Relaxed);
        }
        self.note_progress(exchange);
    }

    /// Records that an app is about to be called for an exchange. Its deadlines do not run here until the first
    /// [`RunningApps::note_progress`].
    pub fn enter(&self, exchange: ExchangeId, head: &RequestHead<'_>) {
        let mut exchanges = self.exchanges.borrow_mut();
        let Some(index) = exchanges.iter().position(Option::is_none) else { return };
        exchanges[index] = Some(exchange);
        let line = &self.lines[index];
        write_text(&line[0], [head.method(), b" ", head.target()]);
        if let Some(ids) = &self.ids {
            write_text(&line[2], [ids.of(head).unwrap_or_default(), b"", b""]);
        }
        line[1].words[OWN_DEADLINE].store(0, Relaxed);
    }

    /// Returns the mailbox in which the supervisor leaves its orders for the app of an exchange. `None` if the exchange is
    /// not recorded.
    #[inline]
    pub fn mailbox(&self, exchange: ExchangeId) -> Option<Mailbox> {
        self.line(exchange).map(|[progress, orders, _]| Mailbox { orders: &orders.words[0], run: Run::In(&progress.words[0]) })
    }

    /// Sets the app's own deadline, counted from now. `time` is `None` if the app may take any time.
    #[inline]
    pub fn extend(&self, exchange: ExchangeId, time: Option<Duration>) {
        self.allow(exchange, time);
        self.note_progress(exchange);
    }

    /// As [`RunningApps::extend`], for an app whose deadlines do not run here now: does not start them.
    pub fn allow(&self, exchange: ExchangeId, time: Option<Duration>) {
        if let Some(line) = self.line(exchange) {
            let milliseconds = time.map_or(LIFTED, |time| time.as_millis().clamp(1, u128::from(LIFTED - 1)) as u64);
            line[1].words[OWN_DEADLINE].store(milliseconds, Relaxed);
        }
    }

    /// Records that the app did something for its client, or continues after [`RunningApps::hold`]. Restarts its deadlines.
    #[inline]
    pub fn note_progress(&self, exchange: ExchangeId) {
        self.line(exchange).inspect(|line| note_progress(line));
    }

    /// Stops the deadlines while the app must wait for its client.
    #[inline]
    pub fn hold(&self, exchange: ExchangeId) {
        self.line(exchange).inspect(|line| rest(line));
    }

    /// Records that the app has returned.
    pub fn end(&self, exchange: ExchangeId) {
        let mut exchanges = self.exchanges.borrow_mut();
        if let Some(index) = exchanges.iter().position(|present| *present == Some(exchange)) {
            exchanges[index] = None;
            self.lines[index][1].words[SINCE].store(0, Relaxed);
            rest(&self.lines[index]);
        }
    }

    fn line(&self, exchange: ExchangeId) -> Option<&'static RunningLine> {
        let index = self.exchanges.borrow().iter().position(|present| *present == Some(exchange))?;
        self.lines.get(index)
    }
}

/// Advances the progress number to the next odd number.
fn note_progress([line, ..]: &RunningLine) {
    line.words[0].store((line.words[0].load(Relaxed) + 1) | 1, Release);
}

/// Advances the progress number to the next even number, unless it is even already.
fn rest([line, ..]: &RunningLine) {
    line.words[0].store((line.words[0].load(Relaxed) + 1) & !1, Relaxed);
}

/// Clears the lines of a thread of a worker that has ended, for the next worker.
pub(super) fn clear(line: &RunningLine) {
    line.iter().for_each(|part| part.words[0].store(0, Relaxed));
    line[1].words[SINCE].store(0, Relaxed);
}

fn write_text(line: &SharedLine, parts: [&[u8]; 3]) {
    let mut text = [0; TEXT_BYTES];
    text.iter_mut().zip(parts.into_iter().flatten()).for_each(|(target, byte)| *target = *byte);
    let (in_words, in_halves) = text.split_at(TEXT_IN_WORDS);
    for (word, bytes) in line.words[1..].iter().zip(in_words.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
    for (half, bytes) in line.halves.iter().zip(in_halves.as_chunks().0) {
        half.store(u32::from_ne_bytes(*bytes), Relaxed);
    }
}

/// Returns method and target of the exchange whose app runs on a thread, and its id, if requests have ids. Each of these two
/// texts is cut to the room in its line.
pub fn text_of([line, _, id]: &RunningLine) -> String {
    let text = |line: &SharedLine| {
        let (bytes, more) = text_in(super::rows::words(line), super::rows::halves(line));
        format!("{}{}", String::from_utf8_lossy(&bytes), if more { "..." } else { "" })
    };
    let (request, id) = (text(line), text(id));
    if id.is_empty() { request } else { format!("{request} ({id})") }
}

/// Decodes the text in a copy of a line. Returns it, and whether it may have been cut.
pub(super) fn text_in(words: [u64; 4], halves: [u32; 8]) -> (Vec<u8>, bool) {
    let words = words.into_iter().skip(1).flat_map(u64::to_ne_bytes);
    let bytes: Vec<u8> = words.chain(halves.into_iter().flat_map(u32::to_ne_bytes)).take_while(|byte| *byte != 0).collect();
    let more = bytes.len() == TEXT_BYTES;
    (bytes, more)
}

/// The deadline that an app has set for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnDeadline {
    /// No own deadline: the server's deadline applies.
    None,
    /// The app may take this long.
    After(Duration),
    /// The app may take any time.
    Never,
}

/// Returns the deadline that the running app has set for itself.
pub fn own_deadline([_, line, _]: &RunningLine) -> OwnDeadline {
    own_deadline_in(super::rows::words(line))
}

/// Decodes the app's own deadline in a copy of the second line's words.
pub(super) const fn own_deadline_in(words: [u64; 4]) -> OwnDeadline {
    match words[OWN_DEADLINE] {
        0 => OwnDeadline::None,
        LIFTED => OwnDeadline::Never,
        milliseconds => OwnDeadline::After(Duration::from_millis(milliseconds)),
    }
}

/// The supervisor's last view of a running app, and its orders since then.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgressWatch {
    running: Option<(u64, Instant)>,
    ordered: u64,
}

impl ProgressWatch {
    /// Checks the app again. Returns a lower bound of the time for which the app has run without progress; zero if no app
    /// runs.
    pub fn check(&mut self, [line, orders, _]: &RunningLine, now: Instant) -> Duration {
        let number = line.words[0].load(Acquire);
        match self.running {
            Some((running, since)) if running == number => now - since,
            _ => {
                *self = Self { running: (number % 2 == 1).then_some((number, now)), ordered: 0 };
                orders.words[FIRST_SEEN].store(milliseconds(), Relaxed);
                Duration::ZERO
            }
        }
    }

    /// Leaves `order` for the app that the last check has seen. Returns whether the order is new: `false` if no app ran then,
    /// or if it has that order already.
    pub fn order(&mut self, [_, line, _]: &RunningLine, order: u64) -> bool {
        let Some((number, _)) = self.running else { return false };
        let new = self.ordered & order == 0;
        self.ordered |= order;
        line.words[0].store(order_word(number, self.ordered), Release);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_message::HeadLayout;
    use oribi_proto::h1;

    const SECOND: Duration = Duration::from_secs(1);

    fn lines(count: usize) -> &'static [RunningLine] {
        Vec::leak((0..count).map(|_| RunningLine::default()).collect())
    }

    fn begin(apps: &RunningApps, exchange: ExchangeId, target: &str) {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut layout = HeadLayout::default();
        h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
        apps.begin(exchange, &RequestHead::new(bytes.as_bytes(), &layout), SECOND);
    }

    #[test]
    fn an_app_that_does_nothing_is_told_from_one_that_gets_on_or_rests() {
        let (lines, exchange) = (lines(1), ExchangeId(7));
        let apps = RunningApps::on(lines, None).expect("there is a line");
        let mut watch = ProgressWatch::default();
        let mut now = Instant::now();
        let mut look = |passed: Duration| {
            now += passed;
            watch.check(&lines[0], now)
        };
        assert_eq!(look(SECOND), Duration::ZERO, "nothing runs");
        assert_eq!(look(SECOND), Duration::ZERO, "nothing runs still");
        begin(&apps, exchange, "/slow");
        assert_eq!(look(SECOND), Duration::ZERO, "seen for the first time");
        assert_eq!(look(SECOND), SECOND);
        assert_eq!(look(SECOND), SECOND * 2);
        apps.note_progress(exchange);
        assert_eq!(look(SECOND), Duration::ZERO);
        assert_eq!(look(SECOND), SECOND);
        apps.hold(exchange);
        assert_eq!(look(SECOND), Duration::ZERO);
        assert_eq!(look(SECOND), Duration::ZERO, "its client is waited for");
        apps.note_progress(exchange);
        assert_eq!(look(SECOND), Duration::ZERO);
        assert_eq!(look(SECOND), SECOND);
        apps.end(exchange);
        begin(&apps, ExchangeId(8), "/slow");
        assert_eq!(look(SECOND), Duration::ZERO, "another one");
        apps.end(ExchangeId(8));
        assert_eq!(look(SECOND), Duration::ZERO);
        assert_eq!(look(SECOND), Duration::ZERO);
    }

    #[test]
    fn the_threads_of_a_lane_have_a_line_each() {
        let lines = lines(2);
        let apps = RunningApps::on(lines, None).expect("there are lines");
        begin(&apps, ExchangeId(1), "/one");
        begin(&apps, ExchangeId(2), "/two");
        begin(&apps, ExchangeId(3), "/one-too-many");
        apps.end(ExchangeId(1));
        apps.end(ExchangeId(3));
        begin(&apps, ExchangeId(4), &format!("/{}", "x".repeat(100)));
        assert_eq!(text_of(&lines[1]), "GET /two");
        assert_eq!(text_of(&lines[0]), format!("GET /{}...", "x".repeat(51)));
        assert!(RunningApps::on(&[], None).is_none());
    }

    #[test]
    fn the_id_of_a_request_stands_behind_it() {
        let lines = lines(1);
        let field = RequestIdField::default();
        let apps = RunningApps::on(lines, Some(&field)).expect("there is a line");
        for (id, shown) in
            [("4b1c", "4b1c".to_owned()), (&"x".repeat(57), format!("{}...", "x".repeat(56))), ("9", "9".to_owned())]
        {
            let bytes = format!("GET /slow HTTP/1.1\r\nHost: a\r\nx-request-id: {id}\r\n\r\n");
            let mut layout = HeadLayout::default();
            h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
            apps.begin(ExchangeId(1), &RequestHead::new(bytes.as_bytes(), &layout), SECOND);
            assert_eq!(text_of(&lines[0]), format!("GET /slow ({shown})"));
            apps.end(ExchangeId(1));
        }
    }

    #[test]
    fn an_order_names_the_state_in_which_the_app_was_seen() {
        let (lines, exchange) = (lines(1), ExchangeId(7));
        let apps = RunningApps::on(lines, None).expect("there is a line");
        let (mut watch, now) = (ProgressWatch::default(), Instant::now());
        assert!(!watch.order(&lines[0], 2), "nothing was seen");
        begin(&apps, exchange, "/slow");
        watch.check(&lines[0], now);
        let Mailbox { orders, run: Run::In(run) } = apps.mailbox(exchange).expect("it runs") else { panic!("it changes") };
        assert!(watch.order(&lines[0], 4) && !watch.order(&lines[0], 4));
        assert_eq!(orders.load(Relaxed), order_word(run.load(Relaxed), 4));
        assert!(watch.order(&lines[0], 2));
        assert_eq!(orders.load(Relaxed), order_word(run.load(Relaxed), 6));
        apps.note_progress(exchange);
        assert_ne!(orders.load(Relaxed) >> 24, run.load(Relaxed));
        watch.check(&lines[0], now);
        assert!(watch.order(&lines[0], 2), "a new state, a new order");
        assert_eq!(orders.load(Relaxed), order_word(run.load(Relaxed), 2));
        clear(&lines[0]);
        assert_eq!((orders.load(Relaxed), run.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_deadline_of_its_own_lasts_as_long_as_the_exchange() {
        let (lines, exchange) = (lines(1), ExchangeId(7));
        let apps = RunningApps::on(lines, None).expect("there is a line");
        let (mut watch, now) = (ProgressWatch::default(), Instant::now());
        begin(&apps, exchange, "/slow");
        assert_eq!(own_deadline(&lines[0]), OwnDeadline::None);
        watch.check(&lines[0], now);
        apps.extend(exchange, Some(SECOND * 7));
        assert_eq!(own_deadline(&lines[0]), OwnDeadline::After(SECOND * 7));
        assert_eq!(watch.check(&lines[0], now + SECOND), Duration::ZERO, "it counts from now on");
        apps.extend(exchange, Some(Duration::ZERO));
        assert_eq!(own_deadline(&lines[0]), OwnDeadline::After(Duration::from_millis(1)));
        apps.extend(exchange, None);
        assert_eq!(own_deadline(&lines[0]), OwnDeadline::Never);
        apps.end(exchange);
        apps.extend(exchange, Some(SECOND));
        begin(&apps, ExchangeId(8), "/slow");
        assert_eq!(own_deadline(&lines[0]), OwnDeadline::None);
    }
}
