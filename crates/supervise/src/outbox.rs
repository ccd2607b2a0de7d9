//! The way to the edges for molds and their workers: the writing ends of the boxes of all edges, and of that of the relay, which
//! the environment names.

use oribi_io::process::environment::variable;
use oribi_io::process::{adopt, claim};
use oribi_ipc::posts::Outbox;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

/// Names the boxes of edges.
pub(super) const OUTBOX: &str = "ORIBI_OUTBOX";

/// Names the box of the relay.
pub(super) const RELAY_OUTBOX: &str = "ORIBI_RELAY_OUTBOX";

/// Names the boxes to a mold, which inherits them.
pub(super) fn describe(outbox: Option<&Outbox>, mold: &mut Command) {
    mold.env_remove(OUTBOX).env_remove(RELAY_OUTBOX);
    let Some(outbox) = outbox else { return };
    let mut numbers: Vec<String> = outbox.descriptors().map(|writer| writer.as_raw_fd().to_string()).collect();
    if let Some(relay) = outbox.relay() {
        mold.env(RELAY_OUTBOX, numbers.remove(relay));
    }
    mold.env(OUTBOX, numbers.join(","));
}

/// Keeps programs that the app executes from inheriting the boxes. Errors are reported when they are taken over.
pub(super) fn claim_all() {
    numbers(OUTBOX).into_iter().chain(numbers(RELAY_OUTBOX)).for_each(|number| _ = claim(number));
}

/// Takes over the boxes.
pub(super) fn inherit() {
    let relay = numbers(RELAY_OUTBOX);
    let all = numbers(OUTBOX).into_iter().chain(relay.iter().copied());
    let writers: Option<Vec<OwnedFd>> = all.map(|number| adopt(number).ok()).collect();
    if let Some(writers) = writers.filter(|writers| !writers.is_empty()) {
        Outbox::new(writers, !relay.is_empty()).adopt();
    }
}

fn numbers(name: &str) -> Vec<i32> {
    let value = variable(name).unwrap_or_default();
    value.split(',').filter_map(|number| number.parse().ok()).collect()
}
