//! The order of eviction: SIEVE (Zhang and others, NSDI 2024). It keeps entries that were used again as LRU does, and a use
//! only sets a flag.

/// The end of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    /// `None`: the place is free.
    value: Option<T>,
    /// Whether the entry was used since the hand passed it.
    used: bool,
    /// The entry that is next newer; of a free place, the next free one.
    newer: u32,
    older: u32,
}

/// Entries, in the order of their insertion.
#[derive(Debug)]
pub(crate) struct Sieve<T> {
    nodes: Vec<Node<T>>,
    newest: u32,
    oldest: u32,
    free: u32,
    /// The entry at which the search for one to evict continues.
    hand: u32,
}

impl<T> Default for Sieve<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), newest: NONE, oldest: NONE, free: NONE, hand: NONE }
    }
}

impl<T> Sieve<T> {
    /// Adds an entry, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let node = Node { value: Some(value), used: false, newer: NONE, older: self.newest };
        let number = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let number = self.free;
            self.free = self.nodes[number as usize].newer;
            self.nodes[number as usize] = node;
            number
        };
        match self.newest {
            NONE => self.oldest = number,
            newest => self.nodes[newest as usize].newer = number,
        }
        self.newest = number;
        number
    }

    /// Returns an entry.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.nodes.get(number as usize)?.value.as_ref()
    }

    /// Notes that an entry was used.
    #[inline]
    pub(crate) fn touch(&mut self, number: u32) {
        if let Some(node) = self.nodes.get_mut(number as usize) {
            node.used = true;
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let node = self.nodes.get_mut(number as usize)?;
        let value = node.value.take()?;
        let (newer, older) = (node.newer, node.older);
        node.newer = self.free;
        self.free = number;
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        if self.hand == number {
            self.hand = newer;
        }
        Some(value)
    }

    /// Returns the number of the entry to evict next.
    pub(crate) fn victim(&mut self) -> Option<u32> {
        let mut hand = if self.hand == NONE { self.oldest } else { self.hand };
        while hand != NONE {
            let node = &mut self.nodes[hand as usize];
            if !std::mem::take(&mut node.used) {
                self.hand = hand;
                return Some(hand);
            }
            hand = if node.newer == NONE { self.oldest } else { node.newer };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evict(sieve: &mut Sieve<u32>) -> Option<u32> {
        let victim = sieve.victim()?;
        sieve.remove(victim)
    }

    #[test]
    fn the_oldest_entries_go_unless_they_were_used() {
        let mut sieve = Sieve::default();
        let numbers: Vec<u32> = (0..5).map(|value| sieve.insert(value)).collect();
        sieve.touch(numbers[0]);
        sieve.touch(numbers[2]);
        assert_eq!([evict(&mut sieve), evict(&mut sieve), evict(&mut sieve)], [Some(1), Some(3), Some(4)]);
        sieve.insert(5);
        assert_eq!([evict(&mut sieve), evict(&mut sieve)], [Some(0), Some(2)].map(|value| value));
        assert_eq!([evict(&mut sieve), evict(&mut sieve)], [Some(5), None]);
    }

    #[test]
    fn any_order_of_calls_keeps_the_list_whole() {
        let (mut sieve, mut known, mut state) = (Sieve::default(), Vec::new(), 1_u64);
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = (state >> 33) as usize;
            match choice % 5 {
                0 | 1 => known.push((sieve.insert(step), step)),
                2 if !known.is_empty() => {
                    let (number, value) = known.swap_remove(choice / 5 % known.len());
                    assert_eq!(sieve.remove(number), Some(value));
                    assert_eq!(sieve.remove(number), None);
                }
                3 if !known.is_empty() => sieve.touch(known[choice / 5 % known.len()].0),
                _ => {
                    let victim = sieve.victim();
                    assert_eq!(victim.is_some(), !known.is_empty());
                    let Some(victim) = victim else { continue };
                    let place = known.iter().position(|(number, _)| *number == victim).expect("an entry that is there");
                    let (number, value) = known.swap_remove(place);
                    assert_eq!(sieve.remove(number), Some(value));
                }
            }
            assert!(known.iter().all(|(number, value)| sieve.get(*number) == Some(value)));
            if known.len() > 50 {
                known.drain(..).for_each(|(number, value)| assert_eq!(sieve.remove(number), Some(value)));
            }
        }
    }
}
