//! The way to the edges for molds and their workers: the writing ends of the boxes of all edges, and of that of the relay, which
//! the environment names. The next server gets both ends.

use oribi_io::process::environment::variable;
use oribi_io::process::{adopt, claim};
use oribi_ipc::handover::LIVE_VERSION;
use oribi_ipc::posts::{Outbox, PostBoxes};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;

/// Names the boxes of edges.
pub(super) const OUTBOX: &str = "ORIBI_OUTBOX";

/// Names the box of the relay.
pub(super) const RELAY_OUTBOX: &str = "ORIBI_RELAY_OUTBOX";

/// Names both ends of the boxes to the next server.
pub(super) const BOXES: &str = "ORIBI_BOXES";

/// Marks the box of the relay.
const RELAY_MARK: &str = "relay=";

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

/// Names the boxes to the next server, as `ORIBI_BOXES=1:123:12,13;14,15`: the version of the messages between edges, this process, and
/// the numbers of both ends of each box. That of a relay begins with `relay=`.
pub(super) fn describe_boxes(boxes: &PostBoxes, program: &mut Command) {
    let describe = |(number, [reader, writer]): (usize, [BorrowedFd<'_>; 2])| {
        let mark = if boxes.relay() == Some(number) { RELAY_MARK } else { "" };
        format!("{mark}{},{}", reader.as_raw_fd(), writer.as_raw_fd())
    };
    let ends = boxes.descriptors().enumerate().map(describe).collect::<Vec<_>>().join(";");
    program.env(BOXES, format!("{LIVE_VERSION}:{}:{ends}", std::process::id()));
}

/// Takes over the boxes of the previous server, process `before`, if it has named any, and if its edges speak with these. A server that
/// does not know the variable passes that of an earlier one on.
pub(super) fn inherit_boxes(before: i32) -> Option<PostBoxes> {
    let value = variable(BOXES)?;
    let (version, value) = value.split_once(':')?;
    let (owner, value) = value.split_once(':')?;
    if owner.parse() != Ok(before) {
        return None;
    }
    let end = |number: &str| {
        let number = number.parse().ok()?;
        claim(number).and_then(|()| adopt(number)).ok()
    };
    let mut has_relay = false;
    let ends = value.split(';').map(|ends| {
        has_relay = ends.starts_with(RELAY_MARK);
        let (reader, writer) = ends.strip_prefix(RELAY_MARK).unwrap_or(ends).split_once(',')?;
        Some((end(reader)?, end(writer)?))
    });
    let (readers, writers) = ends.collect::<Option<Vec<_>>>()?.into_iter().unzip();
    // Those of another version are closed.
    (version.parse() == Ok(LIVE_VERSION)).then(|| PostBoxes::inherited(readers, writers, has_relay))
}

fn numbers(name: &str) -> Vec<i32> {
    let value = variable(name).unwrap_or_default();
    value.split(',').filter_map(|number| number.parse().ok()).collect()
}
