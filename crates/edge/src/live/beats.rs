//! Texts that connections get again and again, as signs of life for clients that cannot see the pings of a WebSocket.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

/// The shortest time between two.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);

/// The most bytes of a text.
pub(super) const LARGEST: usize = 1024;

/// The groups into which the connections with the same text are divided, so that not all of them are sent to at once: that would hold
/// up everything else.
const GROUPS: u64 = 32;

/// The texts of an edge, and the connections that get them.
#[derive(Debug, Default)]
pub(super) struct Beats {
    groups: HashMap<Rc<Key>, Group>,
    /// The group of each connection.
    members: HashMap<u64, Rc<Key>>,
    /// When each group is due.
    queue: BTreeSet<(Duration, Rc<Key>)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    interval: Duration,
    /// Below [`GROUPS`].
    number: u32,
    text: Box<[u8]>,
}

/// Whether a connection has missed a text on its way from another edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    Wait,
    Send,
}

#[derive(Debug)]
struct Group {
    next: Duration,
    connections: Vec<u64>,
}

impl Beats {
    /// Begins to send a text to a connection.
    pub(super) fn start(&mut self, connection: u64, interval: Duration, text: &[u8], now: Duration) {
        self.stop(connection);
        let key = Key { interval, number: (connection % GROUPS) as u32, text: text.into() };
        let key = self.groups.get_key_value(&key).map_or_else(|| Rc::new(key), |(known, _)| Rc::clone(known));
        let queue = &mut self.queue;
        let group = self.groups.entry(Rc::clone(&key)).or_insert_with(|| {
            let next = key.after(now);
            queue.insert((next, Rc::clone(&key)));
            Group { next, connections: Vec::new() }
        });
        group.connections.push(connection);
        self.members.insert(connection, key);
    }

    /// Goes on to send a text to a connection to which another edge has sent it until `before`.
    pub(super) fn go_on(
        &mut self,
        connection: u64,
        interval: Duration,
        text: &[u8],
        (before, now): (Duration, Duration),
    ) -> CatchUp {
        self.start(connection, interval, text, now);
        let missed = self.members.get(&connection).is_some_and(|key| key.after(before) <= now);
        if missed { CatchUp::Send } else { CatchUp::Wait }
    }

    /// The text of a connection, and the time between two.
    pub(super) fn of(&self, connection: u64) -> Option<(Duration, &[u8])> {
        self.members.get(&connection).map(|key| (key.interval, &*key.text))
    }

    /// Ends that.
    pub(super) fn stop(&mut self, connection: u64) {
        let Some(key) = self.members.remove(&connection) else { return };
        let Some(group) = self.groups.get_mut(&key) else { return };
        group.connections.retain(|member| *member != connection);
        if group.connections.is_empty() {
            self.queue.remove(&(group.next, Rc::clone(&key)));
            self.groups.remove(&key);
        }
    }

    /// The time at which it is next due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.queue.first().map(|(next, _)| *next)
    }

    /// Returns the texts that are due, with the connections that get them.
    pub(super) fn take(&mut self, now: Duration) -> Vec<(Vec<u8>, Vec<u64>)> {
        let mut due = Vec::new();
        while self.due().is_some_and(|next| next <= now) {
            let Some((_, key)) = self.queue.pop_first() else { break };
            let Some(group) = self.groups.get_mut(&key) else { continue };
            group.next = key.after(now);
            due.push((key.text.to_vec(), group.connections.clone()));
            self.queue.insert((group.next, key));
        }
        due
    }
}

impl Key {
    /// The next time of the group after `now`. The groups with the same interval divide it evenly.
    fn after(&self, now: Duration) -> Duration {
        let interval = self.interval.as_millis().max(1) as u64;
        let offset = interval * u64::from(self.number) / GROUPS;
        let now = now.as_millis() as u64;
        let turn = (now + interval - offset) / interval;
        Duration::from_millis(turn * interval + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Beats, Duration, GROUPS};

    const INTERVAL: Duration = Duration::from_secs(3);

    /// The connections that get a text until a time, each with the times.
    fn heard(beats: &mut Beats, until: Duration) -> Vec<(u64, Duration)> {
        let mut heard = Vec::new();
        while let Some(due) = beats.due().filter(|due| *due <= until) {
            for (text, connections) in beats.take(due) {
                assert_eq!(text, b"beat");
                heard.extend(connections.into_iter().map(|connection| (connection, due)));
            }
        }
        heard
    }

    #[test]
    fn each_connection_gets_its_text_once_in_each_interval_and_not_all_at_once() {
        let mut beats = Beats::default();
        let start = Duration::from_millis(12_345);
        (0..2 * GROUPS).for_each(|connection| beats.start(connection, INTERVAL, b"beat", start));
        let mut times = Vec::new();
        for turn in 0..4 {
            let heard = heard(&mut beats, start + INTERVAL * (turn + 1));
            let mut connections: Vec<u64> = heard.iter().map(|(connection, _)| *connection).collect();
            connections.sort_unstable();
            assert_eq!(connections, (0..2 * GROUPS).collect::<Vec<_>>(), "turn {turn}");
            times.extend(heard.into_iter().map(|(_, time)| time));
        }
        times.sort_unstable();
        times.dedup();
        assert_eq!(times.len() as u64, 4 * GROUPS);
    }

    #[test]
    fn a_connection_has_one_text_until_it_ends() {
        let mut beats = Beats::default();
        beats.start(1, INTERVAL * 2, b"before", Duration::ZERO);
        beats.start(1, INTERVAL, b"beat", Duration::ZERO);
        assert_eq!(heard(&mut beats, INTERVAL).len(), 1);
        beats.stop(1);
        assert_eq!(heard(&mut beats, INTERVAL * 3), []);
    }

    #[test]
    fn a_text_that_nobody_gets_any_more_is_forgotten_at_once() {
        let mut beats = Beats::default();
        for number in 0..1000_u32 {
            beats.start(1, Duration::from_secs(86_400), &number.to_be_bytes(), Duration::ZERO);
        }
        assert_eq!((beats.groups.len(), beats.queue.len(), beats.members.len()), (1, 1, 1));
        beats.stop(1);
        assert_eq!((beats.groups.len(), beats.queue.len(), beats.members.len()), (0, 0, 0));
        assert_eq!(beats.due(), None);
    }
}
