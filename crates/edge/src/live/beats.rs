//! Texts that connections get again and again, as signs of life for clients that cannot see the pings of a WebSocket.

use oribi_live::{Channels, Envelope};
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
    /// Each group is a channel: the interval in milliseconds (4 bytes), its number (1), and the text.
    members: Channels,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    channel: Vec<u8>,
    interval: Duration,
    /// The number of the group.
    number: u32,
    /// `None`: it is new.
    next: Option<Duration>,
}

impl Beats {
    /// Begins to send a text to a connection.
    pub(super) fn start(&mut self, connection: u64, interval: Duration, text: &[u8]) {
        self.members.forget(connection);
        let number = (connection % GROUPS) as u8;
        let mut channel = (interval.as_millis() as u32).to_be_bytes().to_vec();
        channel.push(number);
        channel.extend_from_slice(text);
        self.members.subscribe(connection, &channel, Envelope::default());
        if !self.groups.iter().any(|group| group.channel == channel) {
            self.groups.push(Group { channel, interval, number: number.into(), next: None });
        }
    }

    /// Ends that.
    pub(super) fn stop(&mut self, connection: u64) {
        self.members.forget(connection);
    }

    /// The time at which it is next due.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        self.groups.iter().map(|group| group.next.unwrap_or(now)).min()
    }

    /// Returns the texts that are due, with the connections that get them.
    pub(super) fn take(&mut self, now: Duration) -> Vec<(Vec<u8>, Vec<u64>)> {
        let mut due = Vec::new();
        let members = &self.members;
        self.groups.retain_mut(|group| {
            if group.next.is_some_and(|next| now < next) {
                return true;
            }
            let is_new = group.next.is_none();
            group.next = Some(group.after(now));
            let Some(connections) = members.groups(&group.channel).pop().map(|members| members.connections) else {
                return false;
            };
            if !is_new {
                due.push((group.channel[5..].to_vec(), connections));
            }
            true
        });
        due
    }
}

impl Group {
    /// Its next time after `now`. The groups with the same interval divide it evenly.
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
    fn heard(beats: &mut Beats, from: Duration, until: Duration) -> Vec<(u64, Duration)> {
        let mut heard = Vec::new();
        let mut now = from;
        while let Some(due) = beats.due(now).filter(|due| *due <= until) {
            now = due;
            for (text, connections) in beats.take(now) {
                assert_eq!(text, b"beat");
                heard.extend(connections.into_iter().map(|connection| (connection, now)));
            }
        }
        heard
    }

    #[test]
    fn each_connection_gets_its_text_once_in_each_interval_and_not_all_at_once() {
        let mut beats = Beats::default();
        let start = Duration::from_millis(12_345);
        (0..2 * GROUPS).for_each(|connection| beats.start(connection, INTERVAL, b"beat"));
        let mut times = Vec::new();
        for turn in 0..4 {
            let heard = heard(&mut beats, start + INTERVAL * turn, start + INTERVAL * (turn + 1));
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
        beats.start(1, INTERVAL * 2, b"before");
        beats.start(1, INTERVAL, b"beat");
        assert_eq!(heard(&mut beats, Duration::ZERO, INTERVAL).len(), 1);
        beats.stop(1);
        assert_eq!(heard(&mut beats, INTERVAL, INTERVAL * 3), []);
        assert_eq!((beats.due(INTERVAL * 3), beats.groups.len()), (None, 0), "nothing is left to wait for");
    }
}
