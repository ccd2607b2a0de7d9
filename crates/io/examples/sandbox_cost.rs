//! Measures the cost of the sandbox of edges for a system call: the same calls outside, and then inside.

use oribi_io::process::sandbox::Offer;
use rustix::io::{fcntl_getfd, read, write};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::unix::net::UnixStream;
use std::time::Instant;

const ROUNDS: u32 = 300_000;
const SETS: usize = 9;

/// The shortest time of a call in several sets of them, in nanoseconds.
fn time(call: impl Fn()) -> f64 {
    let set = || {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    (0..SETS).map(|_| set()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let (here, there) = UnixStream::pair().expect("sockets are to be had");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let all = || {
        let by_pipe = || {
            let _ = write(&writer, &[7]);
            let _ = read(&reader, &mut [0]);
        };
        let by_sockets = || {
            let _ = send(&here, &[7], SendFlags::empty());
            let _ = recv(&there, &mut [0], RecvFlags::empty());
        };
        let with_argument = || {
            let _ = fcntl_getfd(&here);
        };
        [
            ("write and read of a pipe", time(by_pipe)),
            ("send and recv", time(by_sockets)),
            ("fcntl, of which the filter looks at an argument", time(with_argument)),
        ]
    };
    let outside = all();
    let offer = Offer::of_kernel();
    offer.take(&[], &[]).expect("the kernel has what it takes");
    println!("{offer}");
    for ((name, outside), (_, inside)) in outside.into_iter().zip(all()) {
        println!("{name}: {outside:.0} ns outside, {inside:.0} ns inside");
    }
}
