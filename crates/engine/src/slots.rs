//! The table of connections: numbered places that are reused with a new generation.

use oribi_io::Token;
use std::ops::{Index, IndexMut};

/// The most entries for which a table reserves room at the start. Unused room costs nothing, because the kernel allocates a
/// page only when the page is touched. A table that never moves leaves no touched pages behind.
const MOST_ROOM: usize = 1 << 16;

/// An empty table with room for this many entries, up to a limit.
pub(super) fn with_room<T>(entries: usize) -> Vec<T> {
    Vec::with_capacity(entries.min(MOST_ROOM))
}

/// Makes room for another entry by growing a quarter, where a vector would double. So the memory per connection does not depend
/// on how far their number is from a power of two.
pub(super) fn grow_gently<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 4).max(16));
    }
}

/// A table of `T` whose indices are small numbers.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<TableEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct TableEntry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Reserves room for this many values.
    pub(super) fn with_room(values: usize) -> Self {
        Self { places: with_room(values), free: with_room(values) }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts a value into a free place and returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|| value)
    }

    /// Like [`Slots::insert`], but makes the value in its place: moving a value costs more than all the rest.
    #[inline(always)]
    pub(super) fn insert_with(&mut self, make: impl FnOnce() -> T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            grow_gently(&mut self.places);
            self.places.push(TableEntry { generation: 0, value: None });
            (self.places.len() - 1) as u32
        });
        self.places[index as usize].value.get_or_insert_with(make);
        index
    }

    /// Empties a place, and returns its value. Tokens of that value are invalid from now on.
    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.places.get_mut(index as usize)?.value.take()?;
        self.free(index);
        Some(value)
    }

    /// Like [`Slots::remove`], but drops the value in its place: moving a value costs more than all the rest.
    pub(super) fn empty(&mut self, index: u32) {
        let Some(value @ Some(_)) = self.places.get_mut(index as usize).map(|place| &mut place.value) else { return };
        *value = None;
        self.free(index);
    }

    fn free(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        // A generation has 31 bits, so that no token is in the range of the backend (Token::LIMIT).
        place.generation = (place.generation + 1) & 0x7fff_ffff;
        self.free.push(index);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.value.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_mut()
    }

    /// The token of the current value of a place.
    pub(super) fn token(&self, index: u32) -> Token {
        Token(u64::from(self.places[index as usize].generation) << 32 | u64::from(index))
    }

    /// The index of a token, if its value still exists.
    #[inline]
    pub(super) fn find(&self, token: Token) -> Option<u32> {
        let index = token.0 as u32;
        let place = self.places.get(index as usize)?;
        (place.generation == (token.0 >> 32) as u32 && place.value.is_some()).then_some(index)
    }

    /// The numbers of all places in use.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().enumerate().filter(|(_, place)| place.value.is_some()).map(|(index, _)| index as u32)
    }
}

/// For a place that is known to be in use. The index of a free place is a bug of the engine, and panics.
impl<T> Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: u32) -> &T {
        match self.get(index) {
            Some(value) => value,
            None => empty(index),
        }
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: u32) -> &mut T {
        match self.get_mut(index) {
            Some(value) => value,
            None => empty(index),
        }
    }
}

#[cold]
#[track_caller]
fn empty(index: u32) -> ! {
    panic!("nothing stands in place {index} of a table");
}

#[cfg(test)]
mod tests {
    use super::{MOST_ROOM, Slots, with_room};

    #[test]
    fn a_table_with_room_stays_where_it_is_and_one_that_is_full_grows_gently() {
        let mut slots = Slots::with_room(1000);
        let first = slots.insert(0_u64);
        let address = std::ptr::from_ref(&slots.places[first as usize]);
        (1..1000).for_each(|value| assert_eq!(slots.insert(value), value as u32));
        assert_eq!(std::ptr::from_ref(&slots.places[first as usize]), address);
        slots.insert(1000);
        assert!((1001..=1250).contains(&slots.places.capacity()), "{}", slots.places.capacity());
        assert_eq!(slots.get(999), Some(&999));
    }

    #[test]
    fn room_is_made_for_a_number_that_is_within_reason() {
        assert_eq!(with_room::<u8>(usize::MAX).capacity(), MOST_ROOM);
    }
}
