//! The memory of a brotli encoder, kept from one response to the next.

use brotli::enc::cluster::HistogramPair;
use brotli::enc::command::Command;
use brotli::enc::entropy_encode::HuffmanTree;
use brotli::enc::histogram::{ContextType, HistogramCommand, HistogramDistance, HistogramLiteral};
use brotli::enc::{Allocator, BrotliAlloc, PDF, SliceWrapper, SliceWrapperMut, StaticCommand, ZopfliNode, s16, v8};

/// The most free blocks of a type. An encoder frees fewer at the end of a stream.
const MOST_FREE: usize = 16;

/// A block of memory that the library has asked for.
pub(super) struct Block<T>(Vec<T>);

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> SliceWrapper<T> for Block<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Block<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// The free blocks of a type.
struct Free<T>(Vec<Vec<T>>);

impl<T> Default for Free<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + Default> Free<T> {
    /// Returns a block of `length` default values: the smallest free one that is large enough, or a new one. A new block takes
    /// the place of the largest of those that are too small, so that growing requests leave no trail of blocks.
    fn take(&mut self, length: usize) -> Block<T> {
        if length == 0 {
            return Block::default();
        }
        let sizes = self.0.iter().map(Vec::capacity).enumerate();
        let fitting = sizes.clone().filter(|(_, size)| *size >= length).min_by_key(|(_, size)| *size);
        match fitting.or_else(|| sizes.max_by_key(|(_, size)| *size)) {
            Some((index, size)) => {
                let mut block = self.0.swap_remove(index);
                if size < length {
                    return Block(vec![T::default(); length]);
                }
                block.clear();
                block.resize(length, T::default());
                Block(block)
            }
            None => Block(vec![T::default(); length]),
        }
    }

    fn give(&mut self, block: Block<T>) {
        if block.0.capacity() > 0 && self.0.len() < MOST_FREE {
            self.0.push(block.0);
        }
    }
}

macro_rules! recycling {
    ($($field:ident: $type:ty,)*) => {
        /// The allocator of a brotli encoder: it keeps what the encoder frees.
        #[derive(Default)]
        pub(super) struct Recycling { $($field: Free<$type>,)* }

        $(impl Allocator<$type> for Recycling {
            type AllocatedMemory = Block<$type>;

            fn alloc_cell(&mut self, length: usize) -> Block<$type> {
                self.$field.take(length)
            }

            fn free_cell(&mut self, block: Block<$type>) {
                self.$field.give(block);
            }
        })*
    };
}

recycling! {
    bytes: u8,
    shorts: u16,
    signed: i32,
    words: u32,
    commands: Command,
    literals: HistogramLiteral,
    command_histograms: HistogramCommand,
    distances: HistogramDistance,
    trees: HuffmanTree,
}

/// Memory of a type that only the library's levels from 10 and a log that is off ask for: it is never there. Because the calls
/// for it never return, the compiler leaves out the algorithms that follow, and their tables.
pub(super) enum Never {}

impl Default for Never {
    fn default() -> Self {
        unreachable!("an encoder asks for memory of another level")
    }
}

impl<T> SliceWrapper<T> for Never {
    fn slice(&self) -> &[T] {
        match *self {}
    }
}

impl<T> SliceWrapperMut<T> for Never {
    fn slice_mut(&mut self) -> &mut [T] {
        match *self {}
    }
}

macro_rules! refusing {
    ($($type:ty,)*) => {
        $(impl Allocator<$type> for Recycling {
            type AllocatedMemory = Never;

            fn alloc_cell(&mut self, _length: usize) -> Never {
                Never::default()
            }

            fn free_cell(&mut self, block: Never) {
                match block {}
            }
        })*
    };
}

refusing! {
    u64,
    f32,
    v8,
    s16,
    PDF,
    StaticCommand,
    HistogramPair,
    ContextType,
    ZopfliNode,
}

impl BrotliAlloc for Recycling {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_block_is_used_again_and_its_content_is_not() {
        let mut free = Free::<u8>::default();
        let mut block = free.take(100);
        block.slice_mut().fill(7);
        let start = block.slice().as_ptr();
        free.give(block);
        let block = free.take(90);
        assert_eq!((block.slice().as_ptr(), block.slice()), (start, &[0; 90][..]));
    }

    #[test]
    fn the_smallest_block_that_fits_is_taken_and_one_that_is_too_small_gives_way() {
        let mut free = Free::<u8>::default();
        for size in [300, 100, 200] {
            free.give(Block(vec![0; size]));
        }
        assert_eq!(free.take(150).0.capacity(), 200);
        assert_eq!(free.0.iter().map(Vec::capacity).sum::<usize>(), 400);
        assert_eq!(free.take(301).0.capacity(), 301);
        assert_eq!(free.0.iter().map(Vec::capacity).sum::<usize>(), 100);
    }

    #[test]
    fn only_some_blocks_are_kept() {
        let mut free = Free::<u8>::default();
        for _ in 0..2 * MOST_FREE {
            free.give(Block(vec![0; 1]));
        }
        assert_eq!(free.0.len(), MOST_FREE);
        free.give(Block::default());
        assert_eq!(free.take(0).0.capacity(), 0);
    }
}
