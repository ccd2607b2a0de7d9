//! The conversation with Redis, without sockets and clocks: the caller passes bytes, and the time.
//!
//! It greets (HELLO 3), subscribes to all channels of the prefix, and then publishes. Redis sends all messages to these channels
//! over the same connection, those of this relay as well. Messages are queued while there is no connection, but not for long:
//! clients of other servers have no use for old ones. A message that has left is never sent again, because others may have it.

use crate::message::{Origin, Received, beginning, parts};
use crate::resp::{Reader, Value, write_command};
use oribi_live::Command;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time for which messages wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of messages that wait: more than the largest message has.
const MOST_QUEUED: usize = 32 << 20;

/// The bytes of messages that leave at once.
const BATCH: usize = 64 << 10;

/// The most answers that are awaited.
const MOST_AWAITED: usize = 10_000;

/// The silence after which Redis is asked whether it is there, and that after which a connection is given up while an answer is
/// awaited.
const SILENCE: Duration = Duration::from_secs(10);
const DEAD: Duration = Duration::from_secs(15);

/// The most bytes of a text of Redis in a message.
const QUOTED: usize = 200;

/// The numbers of messages since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that Redis has taken.
    pub sent: u64,
    /// Messages of others.
    pub received: u64,
    /// Messages that have not reached others, or perhaps not, and messages of others that were too large.
    pub lost: u64,
}

/// The name and the password for Redis, the prefix of channels, and the number of this server.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) credentials: Option<(String, String)>,
    pub(crate) prefix: String,
    pub(crate) origin: Origin,
}

/// A conversation, over one connection after the other.
pub(crate) struct Session {
    identity: Identity,
    phase: Phase,
    reader: Reader,
    /// Bytes that are no messages, and leave before those.
    orders: Vec<u8>,
    /// The commands that publish messages, and their times.
    queue: VecDeque<(Instant, Vec<u8>)>,
    queued: usize,
    awaited: VecDeque<Awaited>,
    /// The time of the last sign of life, or that from which an answer is awaited.
    last: Instant,
    pub(crate) counts: Counts,
    /// The last error that Redis has given for a message.
    refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no connection, since this time.
    Away(Instant),
    Greeting,
    Subscribing,
    Ready,
}

/// A command whose answer has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Greeting,
    Publishing,
    Ping,
}

impl Session {
    pub(crate) fn new(identity: Identity, now: Instant) -> Self {
        Self {
            identity,
            phase: Phase::Away(now),
            reader: Reader::default(),
            orders: Vec::new(),
            queue: VecDeque::new(),
            queued: 0,
            awaited: VecDeque::new(),
            last: now,
            counts: Counts::default(),
            refusal: None,
        }
    }

    /// The number of the server.
    #[cfg(test)]
    pub(crate) fn origin(&self) -> Origin {
        self.identity.origin
    }

    /// Whether messages leave at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether Redis has taken all messages.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty() && !self.awaited.contains(&Awaited::Publishing)
    }

    /// Begins the conversation over a new connection.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.phase, self.reader, self.last) = (Phase::Greeting, Reader::default(), now);
        self.orders.clear();
        let mut arguments: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some((user, password)) = &self.identity.credentials {
            arguments.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        arguments.push(b"SETNAME");
        write_command(&arguments, &[b"oribi"], &mut self.orders);
        self.awaited = VecDeque::from([Awaited::Greeting]);
    }

    /// Notes that there is no connection any more. Messages without an answer count as lost.
    pub(crate) fn end(&mut self, now: Instant) {
        self.counts.lost += self.awaited.drain(..).filter(|awaited| *awaited == Awaited::Publishing).count() as u64;
        if !matches!(self.phase, Phase::Away(_)) {
            self.phase = Phase::Away(now);
        }
    }

    /// Queues the messages among these commands of the server. Returns whether there was room for all.
    pub(crate) fn publish(&mut self, mut commands: &[u8], now: Instant) -> bool {
        let mut all = true;
        while let Ok(Some((command, rest))) = Command::read(commands) {
            commands = rest;
            let Some((channel, head, payload)) = parts(&command) else { continue };
            let [mark, origin] = beginning(&self.identity.origin);
            let channel = [self.identity.prefix.as_bytes(), channel].concat();
            let mut bytes = Vec::with_capacity(payload.len() + channel.len() + 64);
            write_command(&[b"PUBLISH", &channel], &[mark, origin, &head, payload], &mut bytes);
            if self.is_away_for_long(now) || self.queued + bytes.len() > MOST_QUEUED {
                self.counts.lost += 1;
                all = false;
                continue;
            }
            self.queued += bytes.len();
            self.queue.push_back((now, bytes));
        }
        all
    }

    fn is_away_for_long(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Away(since) if now.saturating_duration_since(since) >= PATIENCE)
    }

    /// Forgets messages that have waited too long for a connection. Returns their number.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        if self.phase == Phase::Ready {
            return 0;
        }
        let mut expired = 0;
        while let Some((at, bytes)) = self.queue.front()
            && now.saturating_duration_since(*at) >= PATIENCE
        {
            self.queued -= bytes.len();
            self.queue.pop_front();
            expired += 1;
        }
        self.counts.lost += expired;
        expired
    }

    /// Returns the next bytes for Redis, which the caller sends as a whole.
    pub(crate) fn take_output(&mut self, now: Instant) -> Vec<u8> {
        let mut output = std::mem::take(&mut self.orders);
        let was_idle = self.awaited.is_empty();
        while self.phase == Phase::Ready && output.len() < BATCH && self.awaited.len() < MOST_AWAITED {
            let Some((_, bytes)) = self.queue.pop_front() else { break };
            self.queued -= bytes.len();
            if output.is_empty() {
                output = bytes;
            } else {
                output.extend_from_slice(&bytes);
            }
            self.awaited.push_back(Awaited::Publishing);
        }
        if was_idle && !self.awaited.is_empty() {
            self.last = now;
        }
        output
    }

    /// Reads bytes of Redis, and passes messages of others to `deliver`.
    ///
    /// # Errors
    /// Says why the connection is of no use.
    pub(crate) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        deliver: &mut dyn FnMut(&Command<'_>),
    ) -> Result<(), String> {
        if !bytes.is_empty() {
            self.last = now;
        }
        while let Some(value) = self.reader.read(&mut bytes).map_err(|malformed| malformed.to_string())? {
            match value {
                Value::Push(parts) => self.take_push(&parts, deliver),
                Value::Oversized => self.counts.lost += 1,
                Value::Answer(_) => match self.awaited.pop_front() {
                    Some(Awaited::Greeting) => {
                        self.phase = Phase::Subscribing;
                        let prefix = self.identity.prefix.as_bytes();
                        write_command(&[b"PSUBSCRIBE"], &[prefix, b"*"], &mut self.orders);
                    }
                    Some(Awaited::Publishing) => {
                        self.counts.sent += 1;
                        self.refusal = None;
                    }
                    Some(Awaited::Ping) => {}
                    None => return Err("it answers without a question".to_owned()),
                },
                Value::Error(text) => self.take_error(&text)?,
            }
        }
        Ok(())
    }

    fn take_push(&mut self, parts: &[Vec<u8>], deliver: &mut dyn FnMut(&Command<'_>)) {
        let [kind, _, rest @ ..] = parts else { return };
        match (&kind[..], rest) {
            (b"psubscribe", _) if self.phase == Phase::Subscribing => self.phase = Phase::Ready,
            (b"pmessage", [channel, message]) => {
                let Some(channel) = channel.strip_prefix(self.identity.prefix.as_bytes()) else { return };
                match Received::read(channel, message, &self.identity.origin) {
                    Received::Own => {}
                    Received::Command(command) => {
                        self.counts.received += 1;
                        deliver(&command);
                    }
                    Received::Unfit => self.counts.lost += 1,
                }
            }
            _ => {}
        }
    }

    fn take_error(&mut self, text: &[u8]) -> Result<(), String> {
        let quoted = self.quoted(text);
        if self.phase == Phase::Subscribing {
            return Err(format!("it does not let this server subscribe to {}* ({quoted})", self.identity.prefix));
        }
        match self.awaited.pop_front() {
            Some(Awaited::Publishing) => {
                self.counts.lost += 1;
                if self.refusal.as_ref() != Some(&quoted) {
                    log::error!("Redis refuses a message for other servers: {quoted}");
                    self.refusal = Some(quoted);
                }
                Ok(())
            }
            Some(Awaited::Greeting) if text.starts_with(b"WRONGPASS") => {
                Err(format!("it refuses the user or the password ({quoted})"))
            }
            Some(Awaited::Greeting) if text.starts_with(b"NOAUTH") => Err(format!("it wants a password ({quoted})")),
            Some(Awaited::Greeting) if text.starts_with(b"NOPROTO") || text.starts_with(b"ERR unknown command") => {
                Err(format!("Redis 6 or newer is needed ({quoted})"))
            }
            _ => Err(format!("it says: {quoted}")),
        }
    }

    /// A text of Redis, which may repeat what it was sent.
    fn quoted(&self, text: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(text).into_owned();
        if let Some((_, password)) = &self.identity.credentials {
            text = text.replace(password, "***");
        }
        text.escape_debug().take(QUOTED).collect()
    }

    /// The time at which [`Session::keep_alive`] or [`Session::expire`] is next due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let oldest = self.queue.front().map(|(at, _)| *at + PATIENCE);
        match self.phase {
            Phase::Away(_) => oldest,
            Phase::Ready => Some(self.last + if self.awaited.is_empty() { SILENCE } else { DEAD }),
            Phase::Greeting | Phase::Subscribing => oldest.into_iter().chain([self.last + DEAD]).min(),
        }
    }

    /// Notes that bytes which had no room have left: Redis takes a large message, although it cannot answer yet.
    pub(crate) fn note_progress(&mut self, now: Instant) {
        self.last = now;
    }

    /// Asks a silent Redis for a sign of life.
    ///
    /// # Errors
    /// It has given none.
    pub(crate) fn keep_alive(&mut self, now: Instant) -> Result<(), String> {
        let silence = now.saturating_duration_since(self.last);
        let is_asked = !self.awaited.is_empty() || self.phase != Phase::Ready;
        if matches!(self.phase, Phase::Away(_)) {
            return Ok(());
        }
        if is_asked && silence >= DEAD {
            return Err(format!("it has not answered for {} s", DEAD.as_secs()));
        }
        if !is_asked && silence >= SILENCE {
            write_command(&[], &[b"PING"], &mut self.orders);
            self.awaited.push_back(Awaited::Ping);
            self.last = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MARK;
    use oribi_live::Kind;

    const GREETED: &[u8] = b"%1\r\n+server\r\n+redis\r\n";
    const SUBSCRIBED: &[u8] = b">3\r\n+psubscribe\r\n+oribi:*\r\n:1\r\n";

    fn session(now: Instant) -> Session {
        let credentials = Some(("app".to_owned(), "hunter2".to_owned()));
        Session::new(Identity { credentials, prefix: "oribi:".to_owned(), origin: [7; 16] }, now)
    }

    fn publish(session: &mut Session, payload: &[u8], now: Instant) -> bool {
        let mut bytes = Vec::new();
        Command::Publish { kind: Kind::Text, channel: b"chat", payload }.write(&mut bytes);
        session.publish(&bytes, now)
    }

    /// Receives bytes in pieces of `size`; returns the payloads of the messages.
    fn receive(session: &mut Session, bytes: &[u8], size: usize, now: Instant) -> Result<Vec<Vec<u8>>, String> {
        let mut payloads = Vec::new();
        for piece in bytes.chunks(size) {
            session.receive(piece, now, &mut |command| {
                let Command::Publish { channel: b"chat", payload, .. } = command else { panic!("{command:?}") };
                payloads.push(payload.to_vec());
            })?;
        }
        Ok(payloads)
    }

    fn ready(now: Instant) -> Session {
        let mut session = session(now);
        session.begin(now);
        session.take_output(now);
        receive(&mut session, &[GREETED, SUBSCRIBED].concat(), 5, now).expect("valid");
        session.take_output(now);
        session
    }

    #[test]
    fn messages_that_wait_leave_when_the_subscription_is_there_and_own_ones_do_not_come_back() {
        let now = Instant::now();
        let message = b"*3\r\n$7\r\nPUBLISH\r\n$10\r\noribi:chat\r\n$26\r\n\0oribi\x01\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x01hi\r\n";
        let own = [&b">4\r\n+pmessage\r\n+oribi:*\r\n+oribi:chat\r\n$26\r\n"[..], MARK, &[7; 16], b"\x01hi\r\n"].concat();
        let other = [&b">4\r\n+pmessage\r\n+oribi:*\r\n+oribi:chat\r\n$26\r\n"[..], MARK, &[8; 16], b"\x01ho\r\n"].concat();
        let plain = b">4\r\n+pmessage\r\n+oribi:*\r\n+oribi:chat\r\n$5\r\nhello\r\n".to_vec();
        let all = [GREETED, SUBSCRIBED, &own, b":2\r\n", &other, &plain].concat();
        for size in 1..=all.len() {
            let mut session = session(now);
            assert!(publish(&mut session, b"hi", now));
            assert!(session.take_output(now).is_empty() && !session.is_flushed());
            session.begin(now);
            let greeting = session.take_output(now);
            assert!(greeting.starts_with(b"*7\r\n$5\r\nHELLO\r\n") && greeting.windows(7).any(|part| part == b"hunter2"));
            assert_eq!(receive(&mut session, GREETED, size, now), Ok(vec![]));
            assert_eq!(session.take_output(now), b"*2\r\n$10\r\nPSUBSCRIBE\r\n$7\r\noribi:*\r\n");
            assert_eq!(receive(&mut session, SUBSCRIBED, size, now), Ok(vec![]));
            assert_eq!(session.take_output(now), message);
            let rest = &all[GREETED.len() + SUBSCRIBED.len()..];
            assert_eq!(receive(&mut session, rest, size, now), Ok(vec![b"ho".to_vec(), b"hello".to_vec()]), "{size}");
            assert!(session.is_flushed() && session.is_ready());
            assert_eq!(session.counts, Counts { sent: 1, received: 2, lost: 0 });
        }
    }

    #[test]
    fn messages_wait_for_a_connection_for_some_seconds() {
        let now = Instant::now();
        let mut session = session(now);
        assert!(publish(&mut session, b"old", now));
        assert_eq!(session.due(), Some(now + PATIENCE));
        assert!(!publish(&mut session, b"late", now + PATIENCE));
        assert_eq!((session.expire(now + PATIENCE), session.counts.lost), (1, 2));
        // A message that has left may have arrived, so it is never sent again.
        let mut session = ready(now);
        assert!(publish(&mut session, b"one", now) && !session.take_output(now).is_empty());
        assert!(publish(&mut session, b"two", now));
        session.end(now);
        assert_eq!(session.counts.lost, 1);
        session.begin(now);
        session.take_output(now);
        receive(&mut session, &[GREETED, SUBSCRIBED].concat(), 9, now).expect("valid");
        let output = session.take_output(now);
        assert!(output.ends_with(b"two\r\n") && !output.windows(3).any(|part| part == b"one"));
    }

    #[test]
    fn a_redis_that_takes_nothing_costs_bounded_memory() {
        let now = Instant::now();
        let mut session = ready(now);
        let large = vec![b'x'; 1 << 20];
        let taken = (0..100).filter(|_| publish(&mut session, &large, now)).count();
        assert!((16..=32).contains(&taken) && session.counts.lost == 100 - taken as u64, "{taken}");
        let mut session = ready(now);
        (0..2 * MOST_AWAITED).for_each(|_| assert!(publish(&mut session, b"", now)));
        while !session.take_output(now).is_empty() {}
        assert_eq!(session.awaited.len(), MOST_AWAITED);
    }

    #[test]
    fn a_silent_redis_is_asked_and_then_given_up() {
        let now = Instant::now();
        let mut session = ready(now);
        assert_eq!((session.keep_alive(now + SILENCE / 2), session.due()), (Ok(()), Some(now + SILENCE)));
        session.keep_alive(now + SILENCE).expect("it is asked first");
        assert_eq!(session.take_output(now + SILENCE), b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(session.due(), Some(now + SILENCE + DEAD));
        assert!(session.keep_alive(now + SILENCE + DEAD).is_err());
        receive(&mut session, b"+PONG\r\n", 3, now + SILENCE).expect("an answer");
        session.keep_alive(now + SILENCE + DEAD / 2).expect("it lives");
        let mut session = self::session(now);
        session.begin(now);
        assert!(session.keep_alive(now + DEAD).is_err(), "it does not greet");
    }

    #[test]
    fn messages_for_a_silent_redis_are_no_sign_of_life() {
        let now = Instant::now();
        let mut session = ready(now);
        for seconds in 0..DEAD.as_secs() {
            let now = now + Duration::from_secs(seconds);
            session.receive(b"", now, &mut |_| {}).expect("nothing has come");
            session.keep_alive(now).expect("not for long");
            assert!(publish(&mut session, b"news", now) && !session.take_output(now).is_empty());
        }
        session.receive(b"", now + DEAD, &mut |_| {}).expect("nothing has come");
        assert!(session.keep_alive(now + DEAD).is_err());
        session.note_progress(now + DEAD);
        session.keep_alive(now + DEAD).expect("it takes a large message");
    }

    #[test]
    fn refusals_are_explained_without_the_password() {
        let now = Instant::now();
        for (answer, why) in [
            ("-WRONGPASS invalid hunter2 pair", "it refuses the user or the password (WRONGPASS invalid *** pair)"),
            ("-NOAUTH Authentication required.", "it wants a password (NOAUTH Authentication required.)"),
            ("-ERR unknown command `HELLO`", "Redis 6 or newer is needed (ERR unknown command `HELLO`)"),
            ("-ERR max number of clients reached", "it says: ERR max number of clients reached"),
            ("HTTP/1.1 400 Bad Request", "its bytes are not those of Redis"),
        ] {
            let mut session = session(now);
            session.begin(now);
            assert_eq!(receive(&mut session, format!("{answer}\r\n").as_bytes(), 4, now), Err(why.to_owned()));
        }
        let mut session = session(now);
        session.begin(now);
        receive(&mut session, GREETED, 100, now).expect("valid");
        let why = receive(&mut session, b"-NOPERM no\r\n", 100, now).expect_err("refused");
        assert_eq!(why, "it does not let this server subscribe to oribi:* (NOPERM no)");
        let mut session = ready(now);
        assert!(receive(&mut session, b"+OK\r\n", 100, now).is_err(), "an answer without a question");
        let mut session = ready(now);
        assert!(publish(&mut session, b"x", now) && !session.take_output(now).is_empty());
        assert_eq!(receive(&mut session, b"-NOPERM no\r\n", 100, now), Ok(vec![]), "others may be taken");
        assert_eq!(session.counts, Counts { lost: 1, ..Counts::default() });
    }
}
