//! Memory that a burst has taken goes back to the system when the burst is over.

use crate::aging::proportional;
use crate::language::Language;
use crate::readers::slow_reader;
use crate::server::wait_until;
use crate::turn;

// Lua and Ruby keep unused texts until they collect garbage, which is not part of this test.
crate::in_language!(perl, Perl, memory_of_a_burst_is_given_back);

/// A number of bytes that is larger than the kernel's buffers at both ends of a connection.
const LENGTH: usize = 8_000_000;

/// The memory that waiting responses must reach in this test, in bytes; they may take 64 MiB.
const HELD: u64 = 48 << 20;

/// The memory, in bytes, that an app may keep after it has made texts of this length: Perl's variables keep their memory.
const KEPT: u64 = 32 << 20;

fn memory_of_a_burst_is_given_back(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--edge", "off", "--workers", "1"]);
    let worker = site.workers()[0];
    let before = proportional(worker);
    let readers: Vec<_> = (0..24).map(|number| slow_reader(&site, &format!("/big?{number}&{LENGTH}"))).collect();
    wait_until("responses hold memory", || proportional(worker) > before + HELD);
    drop(readers);
    wait_until("it is given back", || proportional(worker) < before + KEPT);
    assert_eq!(site.workers(), [worker], "it is the same worker");
}
