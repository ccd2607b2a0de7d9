//! The way to the edges for molds and their workers: the writing ends of the boxes of all edges, which the environment names.

use oribi_io::process::environment::variable;
use oribi_io::process::{adopt, claim};
use oribi_ipc::posts::Outbox;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

/// Names the boxes.
pub(super) const OUTBOX: &str = "ORIBI_OUTBOX";

/// Names the boxes to a mold, which inherits them.
pub(super) fn describe(outbox: Option<&Outbox>, mold: &mut Command) {
    match outbox {
        Some(outbox) => {
            let numbers: Vec<String> = outbox.descriptors().map(|writer| writer.as_raw_fd().to_string()).collect();
            mold.env(OUTBOX, numbers.join(","));
        }
        None => _ = mold.env_remove(OUTBOX),
    }
}

/// Keeps programs that the app executes from inheriting the boxes. Errors are reported when they are taken over.
pub(super) fn claim_all() {
    numbers().into_iter().for_each(|number| _ = claim(number));
}

/// Takes over the boxes.
pub(super) fn inherit() {
    let writers: Option<Vec<OwnedFd>> = numbers().into_iter().map(|number| adopt(number).ok()).collect();
    if let Some(writers) = writers.filter(|writers| !writers.is_empty()) {
        Outbox::new(writers).adopt();
    }
}

fn numbers() -> Vec<i32> {
    let value = variable(OUTBOX).unwrap_or_default();
    value.split(',').filter_map(|number| number.parse().ok()).collect()
}
