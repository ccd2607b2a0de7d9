//! A kept experiment: it measures the cost of a lock around an engine, which would let another thread drive the engine while
//! the app of the engine's lane is busy. Run `lock_cost mutex` and `lock_cost cell` under callgrind, and compare the counts. A
//! request borrows its engine three times.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Mutex;

const REQUESTS: usize = 100_000;

fn main() {
    let (mutex, cell) = (Mutex::new(0_u64), RefCell::new(0_u64));
    let guarded = std::env::args().nth(1).as_deref() == Some("mutex");
    for _ in 0..REQUESTS * 3 {
        if guarded {
            if let Ok(mut value) = black_box(&mutex).lock() {
                *value += 1;
            }
        } else {
            *black_box(&cell).borrow_mut() += 1;
        }
    }
    println!("{}", mutex.into_inner().unwrap_or_default() + cell.into_inner());
}
