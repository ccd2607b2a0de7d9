//! A cache of recently requested files. The clock algorithm (second chance) chooses the file to evict: a file that was used
//! since the hand last passed it stays.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// A bounded number of entries by path.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    places: HashMap<Arc<[u8]>, usize, Seed>,
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
        Self { places: HashMap::with_hasher(Seed::new()), slots: Vec::new(), hand: 0, capacity }
    }

    /// The index of an entry, valid until the next change.
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

    /// Adds an entry for a path that has none, and returns its index. Returns the entry as an error if the capacity is 0.
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

    /// Frees and returns the index of the entry that has been unused for about the longest time. The hand goes around at most
    /// twice.
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

/// The random start value of the hash. The cache holds a bounded number of paths, all of existing files, so a fast hash is
/// enough.
#[derive(Clone, Copy, Debug)]
struct Seed(u64);

impl Seed {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folding;

    #[inline]
    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Multiplies and folds eight bytes at a time.
struct Folding(u64);

impl Folding {
    #[inline]
    fn fold(&mut self, word: u64) {
        // The golden ratio, as in Fibonacci hashing.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Folding {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        self.fold(rest.iter().fold(1, |word, byte| word << 8 | u64::from(*byte)));
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
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
    fn hashes_of_similar_paths_differ() {
        let seed = Seed(7);
        let mut hashes: Vec<u64> = (0..10_000).map(|number| seed.hash_one(&name(number)[..])).collect();
        // The highest bits distinguish entries of the same bucket, the lowest choose the bucket.
        let mut low: Vec<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        for list in [&mut hashes, &mut low] {
            list.sort_unstable();
            list.dedup();
        }
        assert_eq!(hashes.len(), 10_000);
        assert!(low.len() > 9_000, "{}", low.len());
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let mut cache = Cache::new(0);
        assert_eq!(cache.add(b"a", 1), Err(1));
        assert_eq!(cache.find(b"a"), None);
    }
}
