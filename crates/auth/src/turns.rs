//! A queue in which clients take turns, so that one with many wrong passwords delays any other by one check only.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The reason why nothing was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The client has as many in the queue as it may have.
    OfClient,
    /// The queue has as many as it may have.
    OfAll,
}

/// A queue with room for a number of items, and for fewer of one client.
#[derive(Debug)]
pub struct Turns<C, T> {
    queues: HashMap<C, VecDeque<T>>,
    /// The clients in the order of their turns.
    order: VecDeque<C>,
    count: usize,
    most: usize,
    most_of_client: usize,
}

impl<C: Clone + Eq + Hash, T: PartialEq> Turns<C, T> {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(most: usize, most_of_client: usize) -> Self {
        Self { queues: HashMap::new(), order: VecDeque::new(), count: 0, most, most_of_client }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// There is no room.
    pub fn add(&mut self, client: C, item: T) -> Result<(), Full> {
        if self.queues.get(&client).is_some_and(|queue| queue.len() >= self.most_of_client) {
            return Err(Full::OfClient);
        }
        if self.count >= self.most {
            return Err(Full::OfAll);
        }
        let queue = self.queues.entry(client.clone()).or_default();
        if queue.is_empty() {
            self.order.push_back(client);
        }
        queue.push_back(item);
        self.count += 1;
        Ok(())
    }

    /// Removes the first item of the client whose turn it is.
    pub fn take_next(&mut self) -> Option<T> {
        let client = self.order.pop_front()?;
        let queue = self.queues.get_mut(&client)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.count -= usize::from(item.is_some());
        item
    }

    /// Removes an item, if it is there.
    pub fn remove(&mut self, client: &C, item: &T) {
        let Some(queue) = self.queues.get_mut(client) else { return };
        let Some(position) = queue.iter().position(|other| other == item) else { return };
        queue.remove(position);
        self.count -= 1;
        if queue.is_empty() {
            self.queues.remove(client);
            self.order.retain(|other| other != client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns() {
        let mut turns = Turns::new(10, 3);
        for item in 1..=3 {
            turns.add("a", item).expect("room");
        }
        turns.add("b", 11).expect("room");
        assert_eq!(turns.add("a", 4), Err(Full::OfClient));
        assert_eq!(turns.take_next(), Some(1));
        turns.add("c", 21).expect("room");
        let rest: Vec<i32> = std::iter::from_fn(|| turns.take_next()).collect();
        assert_eq!(rest, [11, 2, 21, 3]);
        assert!(turns.queues.is_empty() && turns.order.is_empty() && turns.count == 0);
    }

    #[test]
    fn room_is_bounded_and_returns() {
        let mut turns = Turns::new(2, 2);
        turns.add("a", 1).expect("room");
        turns.add("b", 2).expect("room");
        assert_eq!(turns.add("c", 3), Err(Full::OfAll));
        turns.remove(&"a", &7);
        turns.remove(&"a", &1);
        turns.add("c", 3).expect("room");
        assert_eq!((turns.take_next(), turns.take_next(), turns.take_next()), (Some(2), Some(3), None));
    }
}
