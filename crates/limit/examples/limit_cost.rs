//! The time of a decision, with one thread, and with several that decide about the same client. A report; nothing is judged by
//! it.
//!
//! `cargo run --release -p oribi-limit --example limit_cost`

use oribi_limit::{Concurrent, Keys, Rule, Table};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 2_000_000;
const ENTRIES: usize = 65_536;

fn main() {
    let rules = [Rule { requests: 100, per: Duration::from_secs(1), burst: 50 }];
    let words: Vec<AtomicU64> = (0..Table::words(ENTRIES, &rules)).map(|_| AtomicU64::new(0)).collect();
    let table = Table::new(&words, &rules).expect("the rule is valid");
    let keys = Keys::new([7; 16]);
    let address = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(number));
    let start = Instant::now();

    report("key of a client", 1, |_, round| {
        black_box(keys.of_client(black_box(address(round))));
    });
    let one = keys.of_client(address(1));
    report("take, one client, mostly refused", 1, |_, round| {
        black_box(table.take(0, one, Duration::from_micros(round.into())));
    });
    report("take, one client, always allowed", 1, |_, round| {
        black_box(table.take(0, one, start.elapsed() + Duration::from_millis(10) * round));
    });
    report("key and take, 50,000 clients", 1, |_, round| {
        let client = round.wrapping_mul(0x9e37_79b9) % 50_000;
        black_box(table.take(0, keys.of_client(address(client)), Duration::from_micros(round.into())));
    });
    report("key and take, all addresses: the table is full", 1, |_, round| {
        let client = round.wrapping_mul(0x9e37_79b9);
        black_box(table.take(0, keys.of_client(address(client)), Duration::from_micros(round.into())));
    });
    report("take, one client, two threads", 2, |_, round| {
        black_box(table.take(0, one, Duration::from_millis(10) * round));
    });
    for processes in [1, 4, 32] {
        let words: Vec<AtomicU64> = (0..Concurrent::words(processes, 4096)).map(|_| AtomicU64::new(0)).collect();
        let concurrent = Concurrent::new(&words, processes, 0, 10);
        report(&format!("enter and leave, {processes} processes"), 1, |_, _| {
            if let Some(guard) = black_box(concurrent.enter(one)) {
                concurrent.leave(guard);
            }
        });
    }
}

/// Prints the nanoseconds of a step, as a thread sees it.
fn report(name: &str, threads: usize, step: impl Fn(usize, u32) + Sync) {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let step = &step;
            scope.spawn(move || (0..ROUNDS).for_each(|round| step(thread, round)));
        }
    });
    println!("{:>7.1} ns  {name}", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}
