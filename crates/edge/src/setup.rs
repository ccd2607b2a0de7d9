//! Computes the sizes of an edge's pool, and the settings of its engine.

use oribi_config::Settings;
use oribi_pool::Shape;
use rustix::process::{Resource, getrlimit};
use std::os::fd::AsRawFd;

/// The number of bytes of content for which a slot has room next to the largest head. The buffer into which a request is
/// received has the same size. Larger content goes to a file, because copying it would cost too much.
const CONTENT_BYTES: usize = 32 << 10;

/// The number of bytes of a slot for each field of a request, besides its text: the positions of its name and its value.
const FIELD_BYTES: usize = 32;

/// The number of bytes of a slot for everything else: numbers, addresses, the field that the edge adds.
const OTHER_BYTES: usize = 1 << 10;

/// The most unfinished responses of one worker: those of its threads, and those that its apps postpone. A larger
/// `--concurrency` or `--fibers` raises it.
const AREAS: u32 = 512;

/// The number of bytes of a response that may wait for the edge. Most responses fit, so that their worker never waits.
const AREA_BYTES: u32 = 256 << 10;

/// The descriptors that an edge opens later, besides those of connections and their files: logs, and files that it sends in
/// front of apps.
const OTHER_DESCRIPTORS: u64 = 16;

/// A number of connections that is too low for most servers.
const FEW: usize = 256;

/// Returns the settings for the engine of an edge with these pools.
pub(super) fn settings_of_edge(settings: &Settings, pools: &[oribi_pool::Edge]) -> Settings {
    let mut settings = settings.clone();
    // Content that does not fit into a slot must be in a file, so the engine receives it into a file.
    let request_bytes = pools.iter().map(|pool| pool.shape().request_bytes).min().unwrap_or_default();
    let room = (request_bytes as usize).saturating_sub(head_bytes(&settings)).max(CONTENT_BYTES);
    settings.limits.content_small_bytes = settings.limits.content_memory_bytes;
    settings.limits.content_memory_bytes = settings.limits.content_memory_bytes.min(room);
    // The edges share the connections as if each were a worker with one lane.
    settings.workers = settings.edges_wanted().into();
    let open = open_descriptors();
    // One descriptor for each worker watches its process.
    let others = open + pools.iter().map(|pool| u64::from(pool.shape().workers)).sum::<u64>() + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile).current;
    let connections = connections_within(limit, others, settings.limits.connections);
    if connections < settings.limits.connections.min(FEW) {
        log::warn!(
            "an edge may have {connections} connections, because the hard limit of open files is {}: raise it (ulimit -Hn in a \
             shell, LimitNOFILE= in systemd)",
            limit.unwrap_or_default()
        );
    }
    settings.limits.connections = connections;
    // Only the worker looks up a file that its app names instead of content.
    settings.files.sendfile_roots.clear();
    settings.files.accelerated.clear();
    settings
}

/// Returns the number of open descriptors.
fn open_descriptors() -> u64 {
    // The kernel hides `/proc/self` from a process that may not be traced. Then the lowest free descriptor gives the number:
    // an edge has closed few of the descriptors that it inherited.
    let next = || rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0).map_or(0, |next| next.as_raw_fd());
    std::fs::read_dir("/proc/self/fd").map_or_else(|_| u64::from(next().unsigned_abs()), |entries| entries.count() as u64)
}

/// Returns the number of connections that an edge may have. `limit` is the limit of descriptors, `others` the number that
/// connections cannot use, and `most` the configured number of connections. While an edge sends a large response, it has a
/// file from the worker besides the connection; without a free descriptor for that file, the response is lost. So half of the
/// free descriptors are for files. If all connections are in use, further clients wait until they are accepted.
fn connections_within(limit: Option<u64>, others: u64, most: usize) -> usize {
    let Some(limit) = limit else { return most };
    usize::try_from(limit.saturating_sub(others) / 2).map_or(most, |room| room.clamp(1, most))
}

/// Returns the size of the largest head in a slot, in bytes. A web server may send twice as much as a client: see the
/// engine's limits.
fn head_bytes(settings: &Settings) -> usize {
    let limits = &settings.limits;
    let variables = oribi_proto::fcgi::Limits::default().pairs;
    limits.head_bytes.saturating_mul(2).saturating_add((limits.fields + variables) * FIELD_BYTES + OTHER_BYTES)
}

/// Returns the sizes of a pool for up to `workers` that are alive at the same time.
#[must_use]
pub fn shape(settings: &Settings, workers: u32) -> Shape {
    let request_bytes = head_bytes(settings).saturating_add(CONTENT_BYTES);
    // There are slots for the requests that may wait, for those that workers may be answering, and for those that workers may
    // postpone. When workers are being replaced, more requests may be postponed; these use slots of requests that could wait.
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let answering = workers.saturating_mul(number(settings.most_threads()).saturating_add(8));
    let concurrency = number(settings.event_loop.most_open());
    let areas = AREAS.max(concurrency);
    let of_worker = if concurrency > AREAS { concurrency } else { oribi_worker::intake::most_postponed(AREAS) };
    let postponed = number(settings.workers.most()).saturating_mul(of_worker);
    let slots = number(settings.queue_limit).saturating_add(answering).saturating_add(postponed);
    Shape {
        slots: slots.min(65_535),
        request_bytes: u32::try_from(request_bytes).unwrap_or(u32::MAX),
        workers,
        areas,
        area_bytes: AREA_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::connections_within;

    #[test]
    fn files_for_connections_find_descriptors() {
        assert_eq!(connections_within(None, 100, 16_384), 16_384);
        assert_eq!(connections_within(Some(1 << 20), 100, 16_384), 16_384);
        assert_eq!(connections_within(Some(1024), 124, 16_384), 450);
        assert_eq!(connections_within(Some(1024), 124, 100), 100);
        assert_eq!(connections_within(Some(64), 124, 100), 1, "one client after the other");
    }
}
