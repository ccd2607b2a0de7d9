//! The connections that have subscribed to channels.

use crate::Envelope;
use std::collections::HashMap;
use std::rc::Rc;

/// The most bytes of the name of a channel.
pub const LARGEST_CHANNEL: usize = 1024;

/// The subscriptions of connections, which are numbers.
#[derive(Debug, Default)]
pub struct Channels {
    /// The subscribers of each channel, by their envelopes as bytes. Many have the same one, so it is stored once for all of them.
    subscribers: HashMap<Rc<[u8]>, ByEnvelope>,
    /// The subscriptions of each connection that has any.
    subscriptions: HashMap<u64, Vec<Subscription>>,
}

/// Connections by their envelopes as bytes.
type ByEnvelope = HashMap<Rc<[u8]>, Vec<u64>>;

#[derive(Debug)]
struct Subscription {
    channel: Rc<[u8]>,
    envelope: Rc<[u8]>,
}

/// The subscribers of a channel that get its messages in the same envelope.
#[derive(Clone, Debug)]
pub struct Group {
    envelope: Rc<[u8]>,
    /// The subscribers.
    pub connections: Vec<u64>,
}

impl Group {
    /// Their envelope.
    #[must_use]
    pub fn envelope(&self) -> Envelope<'_> {
        Envelope::read(&self.envelope).unwrap_or_default()
    }
}

impl Channels {
    /// Subscribes a connection to a channel. Once is enough, for each envelope.
    pub fn subscribe(&mut self, connection: u64, channel: &[u8], envelope: Envelope<'_>) {
        let envelope = bytes_of(envelope);
        let of_connection = self.subscriptions.entry(connection).or_default();
        if of_connection.iter().any(|known| *known.channel == *channel && *known.envelope == *envelope) {
            return;
        }
        let shared = |known: Option<&Rc<[u8]>>, bytes: &[u8]| known.map_or_else(|| bytes.into(), Rc::clone);
        let channel = shared(self.subscribers.get_key_value(channel).map(|(name, _)| name), channel);
        let groups = self.subscribers.entry(Rc::clone(&channel)).or_default();
        let envelope = shared(groups.get_key_value(&*envelope).map(|(known, _)| known), &envelope);
        groups.entry(Rc::clone(&envelope)).or_default().push(connection);
        of_connection.push(Subscription { channel, envelope });
    }

    /// Ends the subscription of a connection to a channel with this envelope, if there is one.
    pub fn unsubscribe(&mut self, connection: u64, channel: &[u8], envelope: Envelope<'_>) {
        let envelope = bytes_of(envelope);
        let Some(of_connection) = self.subscriptions.get_mut(&connection) else { return };
        let is_it = |known: &Subscription| *known.channel == *channel && *known.envelope == *envelope;
        let Some(index) = of_connection.iter().position(is_it) else { return };
        let subscription = of_connection.swap_remove(index);
        if of_connection.is_empty() {
            self.subscriptions.remove(&connection);
        }
        self.leave(connection, &subscription);
    }

    /// Ends all subscriptions of a connection.
    pub fn forget(&mut self, connection: u64) {
        for subscription in self.subscriptions.remove(&connection).unwrap_or_default() {
            self.leave(connection, &subscription);
        }
    }

    fn leave(&mut self, connection: u64, Subscription { channel, envelope }: &Subscription) {
        let Some(groups) = self.subscribers.get_mut(channel) else { return };
        if let Some(subscribers) = groups.get_mut(envelope) {
            if let Some(index) = subscribers.iter().position(|subscriber| *subscriber == connection) {
                subscribers.swap_remove(index);
            }
            if subscribers.is_empty() {
                groups.remove(envelope);
            }
        }
        if groups.is_empty() {
            self.subscribers.remove(channel);
        }
    }

    /// Returns the connections that have subscribed to a channel, by their envelopes.
    #[must_use]
    pub fn groups(&self, channel: &[u8]) -> Vec<Group> {
        let groups = self.subscribers.get(channel).into_iter().flatten();
        groups
            .map(|(envelope, connections)| Group { envelope: Rc::clone(envelope), connections: connections.clone() })
            .collect()
    }

    /// The subscriptions of a connection: channels, and envelopes as bytes; empty for none.
    pub fn of(&self, connection: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.subscriptions.get(&connection).into_iter().flatten().map(|one| (&*one.channel, &*one.envelope))
    }

    /// The number of subscriptions of a connection.
    #[must_use]
    pub fn count_of(&self, connection: u64) -> usize {
        self.subscriptions.get(&connection).map_or(0, Vec::len)
    }

    /// The bytes of the envelopes of a connection.
    #[must_use]
    pub fn envelopes_of(&self, connection: u64) -> usize {
        self.subscriptions.get(&connection).map_or(0, |all| all.iter().map(|one| one.envelope.len()).sum())
    }
}

/// An envelope as the key of its group: that of messages without one is empty.
fn bytes_of(envelope: Envelope<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if envelope.size() > 0 {
        envelope.write(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Channels, Envelope};

    const BARE: Envelope<'_> = Envelope { prefix: b"", suffix: b"" };

    fn subscribers(channels: &Channels, channel: &[u8]) -> Vec<u64> {
        let mut found: Vec<u64> = channels.groups(channel).into_iter().flat_map(|group| group.connections).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_channel_has_each_subscriber_once_until_it_leaves() {
        let mut channels = Channels::default();
        for connection in [1, 2, 3, 2] {
            channels.subscribe(connection, b"news", BARE);
        }
        channels.subscribe(2, b"sports", BARE);
        assert_eq!(subscribers(&channels, b"news"), [1, 2, 3]);
        assert_eq!(channels.count_of(2), 2);
        channels.unsubscribe(1, b"news", BARE);
        channels.unsubscribe(1, b"news", BARE);
        channels.unsubscribe(9, b"news", BARE);
        assert_eq!(subscribers(&channels, b"news"), [2, 3]);
        channels.forget(2);
        assert_eq!((subscribers(&channels, b"news"), subscribers(&channels, b"sports")), (vec![3], vec![]));
        channels.forget(3);
        channels.forget(3);
        assert!(channels.subscribers.is_empty() && channels.subscriptions.is_empty());
    }

    #[test]
    fn a_connection_may_subscribe_once_for_each_envelope() {
        let (square, round) = (Envelope { prefix: b"[", suffix: b"]" }, Envelope { prefix: b"(", suffix: b")" });
        let mut channels = Channels::default();
        for (connection, envelope) in [(1, square), (2, square), (1, round), (1, BARE), (1, square)] {
            channels.subscribe(connection, b"news", envelope);
        }
        let mut groups = channels.groups(b"news");
        groups.sort_by_key(|group| group.envelope().prefix.to_vec());
        let found: Vec<_> = groups.iter().map(|group| (group.envelope(), &group.connections[..])).collect();
        assert_eq!(found, [(BARE, &[1][..]), (round, &[1]), (square, &[1, 2])]);
        assert_eq!((channels.count_of(1), channels.envelopes_of(1), channels.envelopes_of(2)), (3, 8, 4));
        channels.unsubscribe(1, b"news", square);
        channels.unsubscribe(2, b"news", BARE);
        assert_eq!(subscribers(&channels, b"news"), [1, 1, 2]);
        channels.forget(1);
        channels.forget(2);
        assert!(channels.subscribers.is_empty() && channels.subscriptions.is_empty());
    }
}
