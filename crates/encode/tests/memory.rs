//! The memory of encoders, filters and heads, counted by the allocator. Zstandard has an allocator of its own, which a test
//! beside its code asks.

mod numbers;

use numbers::Numbers;
use oribi_encode::{Coding, Encoder, Filter, HeadWriter, Outcome, default_level, levels};
use oribi_message::{FieldPair, ResponseHead};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer has counters, and needs none.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let held = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        held.get()
    });
    let _ = MOST.try_with(|most| most.set(most.get().max(held.unwrap_or_default())));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller gives the guarantees that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZES: [usize; 8] = [300_000, 100, 1 << 20, 5000, 70_000, 1, 40_000, 1 << 18];

#[test]
fn the_memory_of_an_encoder_is_bounded_and_used_again() {
    let content = Numbers(1).content(1 << 20);
    let mut output = Vec::with_capacity(2 << 20);
    for coding in [Coding::Gzip, Coding::Brotli] {
        for level in levels(coding) {
            let most = match (coding, level <= default_level(coding)) {
                (Coding::Gzip, _) => 380 * 1024,
                (_, true) => 3 << 20,
                (_, false) => 9 << 19,
            };
            let before = HELD.get();
            MOST.set(before);
            let mut encoder = Encoder::new(coding, level);
            let mut encode = |size: usize, piece: usize| {
                output.clear();
                encoder.reset();
                for piece in content[..size].chunks(piece) {
                    encoder.write(piece, &mut output).expect("it is open");
                }
                encoder.finish(&mut output).expect("it is open");
            };
            // While it warms up, large content also comes in one piece.
            for _ in 0..3 {
                SIZES.into_iter().for_each(|size| encode(size, 16 * 1024));
                encode(1 << 20, 1 << 20);
            }
            let calls = CALLS.get();
            SIZES.into_iter().for_each(|size| encode(size, 16 * 1024));
            assert_eq!(CALLS.get() - calls, 0, "{coding:?} {level} allocates for each stream");
            assert!(MOST.get() - before <= most, "{coding:?} {level} takes {} bytes", MOST.get() - before);
        }
    }
}

#[test]
fn decisions_and_heads_allocate_nothing_for_each_response() {
    let (filter, mut heads) = (Filter::default(), HeadWriter::default());
    let fields: [FieldPair<'_>; 5] = [
        (b"Content-Type", b"text/html"),
        (b"Content-Length", b"5000"),
        (b"ETag", b"\"1\""),
        (b"Vary", b"Origin"),
        (b"Set-Cookie", b"a=b"),
    ];
    let mut respond = |fields: &[FieldPair<'_>]| {
        let accepted = [&b"gzip;q=0.5"[..], b"br, zstd;q=0.1"].into_iter();
        let request = filter.read_request(b"GET", accepted, std::iter::once(&b"W/\"1\""[..]), false);
        let outcome = filter.decide(request, 200, fields, None);
        let count = heads.write(outcome, ResponseHead { status: 200, fields }, |head| head.fields.len());
        (outcome, count)
    };
    assert_eq!(respond(&fields[..4]), (Outcome::Encode(Coding::Brotli), 4));
    assert_eq!(respond(&fields), (Outcome::Vary, 5));
    let calls = CALLS.get();
    for _ in 0..10 {
        assert_eq!(respond(&fields[..4]), (Outcome::Encode(Coding::Brotli), 4));
        assert_eq!(respond(&fields), (Outcome::Vary, 5));
    }
    assert_eq!(CALLS.get(), calls);
}
