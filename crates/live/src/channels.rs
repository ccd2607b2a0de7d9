//! The connections that have subscribed to channels.

use std::collections::HashMap;
use std::rc::Rc;

/// The most bytes of the name of a channel.
pub const LARGEST_CHANNEL: usize = 1024;

/// The subscriptions of connections, which are numbers.
#[derive(Debug, Default)]
pub struct Channels {
    subscribers: HashMap<Rc<[u8]>, Vec<u64>>,
    /// The channels of each connection that has any.
    subscriptions: HashMap<u64, Vec<Rc<[u8]>>>,
}

impl Channels {
    /// Subscribes a connection to a channel. Once is enough.
    pub fn subscribe(&mut self, connection: u64, channel: &[u8]) {
        let of_connection = self.subscriptions.entry(connection).or_default();
        if of_connection.iter().any(|known| **known == *channel) {
            return;
        }
        let name = self.subscribers.get_key_value(channel).map_or_else(|| channel.into(), |(name, _)| Rc::clone(name));
        self.subscribers.entry(Rc::clone(&name)).or_default().push(connection);
        of_connection.push(name);
    }

    /// Ends the subscription of a connection to a channel, if there is one.
    pub fn unsubscribe(&mut self, connection: u64, channel: &[u8]) {
        let Some(of_connection) = self.subscriptions.get_mut(&connection) else { return };
        let Some(index) = of_connection.iter().position(|known| **known == *channel) else { return };
        of_connection.swap_remove(index);
        if of_connection.is_empty() {
            self.subscriptions.remove(&connection);
        }
        self.leave(connection, channel);
    }

    /// Ends all subscriptions of a connection.
    pub fn forget(&mut self, connection: u64) {
        for channel in self.subscriptions.remove(&connection).unwrap_or_default() {
            self.leave(connection, &channel);
        }
    }

    fn leave(&mut self, connection: u64, channel: &[u8]) {
        if let Some(subscribers) = self.subscribers.get_mut(channel) {
            if let Some(index) = subscribers.iter().position(|subscriber| *subscriber == connection) {
                subscribers.swap_remove(index);
            }
            if subscribers.is_empty() {
                self.subscribers.remove(channel);
            }
        }
    }

    /// The connections that have subscribed to a channel.
    pub fn subscribers(&self, channel: &[u8]) -> impl Iterator<Item = u64> + '_ {
        self.subscribers.get(channel).into_iter().flatten().copied()
    }

    /// The number of subscriptions of a connection.
    #[must_use]
    pub fn count_of(&self, connection: u64) -> usize {
        self.subscriptions.get(&connection).map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::Channels;

    fn subscribers(channels: &Channels, channel: &[u8]) -> Vec<u64> {
        let mut found: Vec<u64> = channels.subscribers(channel).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_channel_has_each_subscriber_once_until_it_leaves() {
        let mut channels = Channels::default();
        for connection in [1, 2, 3, 2] {
            channels.subscribe(connection, b"news");
        }
        channels.subscribe(2, b"sports");
        assert_eq!(subscribers(&channels, b"news"), [1, 2, 3]);
        assert_eq!(channels.count_of(2), 2);
        channels.unsubscribe(1, b"news");
        channels.unsubscribe(1, b"news");
        channels.unsubscribe(9, b"news");
        assert_eq!(subscribers(&channels, b"news"), [2, 3]);
        channels.forget(2);
        assert_eq!((subscribers(&channels, b"news"), subscribers(&channels, b"sports")), (vec![3], vec![]));
        channels.forget(3);
        channels.forget(3);
        assert!(channels.subscribers.is_empty() && channels.subscriptions.is_empty());
    }
}
