//! Files that were asked for lately. Which one makes room for another is found by the clock algorithm (second chance): a file
//! that was used since the hand came by stays.

use std::collections::HashMap;
use std::sync::Arc;

/// Entries by path, of which there is a bounded number.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    places: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Slot<T>>,
    hand: usize,
    capacity: usize,
}

#[derive(Debug)]
struct Slot<T> {
    path: Arc<[u8]>,
    used: bool,
    entry: T,
}

impl<T> Cache<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { places: HashMap::new(), slots: Vec::new(), hand: 0, capacity }
    }

    /// The place of an entry, which is good until the next change.
    #[inline]
    pub(crate) fn find(&mut self, path: &[u8]) -> Option<usize> {
        let place = *self.places.get(path)?;
        self.slots[place].used = true;
        Some(place)
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> &T {
        &self.slots[place].entry
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> &mut T {
        &mut self.slots[place].entry
    }

    /// Adds an entry whose path has none. `Err`: there is room for no entry at all.
    pub(crate) fn add(&mut self, path: &[u8], entry: T) -> Result<usize, T> {
        if self.capacity == 0 {
            return Err(entry);
        }
        let path: Arc<[u8]> = path.into();
        let slot = Slot { path: path.clone(), used: false, entry };
        let place = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let place = self.make_room();
            self.places.remove(&self.slots[place].path);
            self.slots[place] = slot;
            place
        };
        self.places.insert(path, place);
        Ok(place)
    }

    pub(crate) fn remove(&mut self, path: &[u8]) {
        let Some(place) = self.places.remove(path) else { return };
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.path.clone(), place);
        }
    }

    /// The place of the entry that has not been used for the longest time, roughly. The hand goes around twice at most.
    fn make_room(&mut self) -> usize {
        loop {
            let place = self.hand % self.slots.len();
            self.hand = place + 1;
            if !std::mem::take(&mut self.slots[place].used) {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    fn whole(cache: &mut Cache<usize>) {
        assert_eq!(cache.places.len(), cache.slots.len());
        for place in 0..cache.slots.len() {
            let slot = &cache.slots[place];
            assert_eq!(cache.places[&slot.path], place);
            assert_eq!(*slot.path, *name(slot.entry));
        }
    }

    #[test]
    fn there_are_never_more_than_the_bound_and_the_used_ones_stay() {
        let mut cache = Cache::new(4);
        for number in 0..100 {
            assert!(cache.add(&name(number), number).is_ok());
            whole(&mut cache);
            assert!(cache.slots.len() <= 4);
            assert!(cache.find(b"0").is_some(), "it is used all the time");
            assert_eq!(cache.places.get(&*name(number)).map(|place| *cache.get(*place)), Some(number));
        }
    }

    #[test]
    fn what_is_removed_is_gone_and_nothing_else_is() {
        let mut cache = Cache::new(8);
        for number in 0..8 {
            assert!(cache.add(&name(number), number).is_ok());
        }
        for number in [3, 7, 0, 0, 9] {
            cache.remove(&name(number));
            whole(&mut cache);
            assert_eq!(cache.find(&name(number)), None);
        }
        assert_eq!(cache.slots.len(), 5);
        *cache.get_mut(0) += 0;
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let mut cache = Cache::new(0);
        assert_eq!(cache.add(b"a", 1), Err(1));
        assert_eq!(cache.find(b"a"), None);
    }
}
