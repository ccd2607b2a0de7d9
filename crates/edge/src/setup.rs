//! The sizes of an edge's pool, and the settings of its engine.

use oribi_config::Settings;
use oribi_pool::Shape;
use rustix::process::{Resource, getrlimit};
use std::os::fd::AsRawFd;

/// Bytes of content that a slot has room for next to the largest head. As much fits into the buffer that a request is received
/// into; larger content goes to a file anyhow as soon as it would be too much to copy.
const CONTENT_BYTES: usize = 32 << 10;

/// Bytes of a slot for each field of a request: where its name and its value are.
const FIELD_BYTES: usize = 32;

/// Bytes of a slot for everything else: numbers, addresses, the field that the edge adds.
const OTHER_BYTES: usize = 1 << 10;

/// Responses that one worker may have unfinished at once: those of its threads, and those that its apps put off.
const AREAS: u32 = 512;

/// Bytes of a response that may wait for the edge. Most responses fit, and then their worker never waits.
const AREA_BYTES: u32 = 256 << 10;

/// Descriptors for everything that an edge opens later and that is no client's: logs, files in front of apps.
const OTHER_DESCRIPTORS: u64 = 16;

/// The settings for the engine of an edge.
pub(super) fn settings_of_edge(settings: &Settings, pool: &oribi_pool::Edge) -> Settings {
    let mut settings = settings.clone();
    // Content that does not fit into a slot must be in a file, so it is received into one.
    let room = (pool.shape().request_bytes as usize).saturating_sub(head_bytes(&settings)).max(CONTENT_BYTES);
    settings.limits.content_small_bytes = settings.limits.content_memory_bytes;
    settings.limits.content_memory_bytes = settings.limits.content_memory_bytes.min(room);
    // An edge counts as a worker with one lane among edges.
    settings.workers = settings.edges_wanted().max(1);
    let open = open_descriptors();
    // One for each worker watches its process.
    let others = open + u64::from(pool.shape().workers) + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile).current;
    settings.limits.connections = connections_within(limit, others, settings.limits.connections);
    // What an app names instead of content is looked for by its worker.
    settings.files.sendfile_roots.clear();
    settings.files.accelerated.clear();
    settings
}

/// How many descriptors are open.
fn open_descriptors() -> u64 {
    // The system hides the folder from a process that nobody may trace. A new descriptor has the lowest free number, and an edge has
    // closed few of those that it got from its keeper.
    let next = || rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0).map_or(0, |next| next.as_raw_fd());
    std::fs::read_dir("/proc/self/fd").map_or_else(|_| u64::from(next().unsigned_abs()), |entries| entries.count() as u64)
}

/// The connections that an edge may have. While it sends a large response, it has a file from the worker besides the connection,
/// and a worker's file that finds no free descriptor is lost, and its response with it. So half of the free descriptors are for
/// files, and clients beyond the rest wait until they are accepted.
fn connections_within(limit: Option<u64>, others: u64, most: usize) -> usize {
    let Some(limit) = limit else { return most };
    usize::try_from(limit.saturating_sub(others) / 2).map_or(most, |room| room.clamp(1, most))
}

/// The bytes of the largest head in a slot. A web server may send twice as much as a client: see the engine's limits.
fn head_bytes(settings: &Settings) -> usize {
    let limits = &settings.limits;
    let variables = oribi_proto::fcgi::Limits::default().pairs;
    limits.head_bytes.saturating_mul(2).saturating_add((limits.fields + variables) * FIELD_BYTES + OTHER_BYTES)
}

/// The sizes of a pool with room for `workers` that are alive at the same time.
#[must_use]
pub fn shape(settings: &Settings, workers: u32) -> Shape {
    let request_bytes = head_bytes(settings).saturating_add(CONTENT_BYTES);
    // As many as may wait, as many as workers may be answering, and as many as they may put off. Only workers that are being
    // replaced have more of these, and take slots of requests that could wait.
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let answering = workers.saturating_mul(number(settings.threads).saturating_add(8));
    let put_off = number(settings.workers.max(1)).saturating_mul(oribi_worker::intake::most_put_off(AREAS));
    let slots = number(settings.queue_limit).saturating_add(answering).saturating_add(put_off);
    Shape {
        slots: slots.min(65_535),
        request_bytes: u32::try_from(request_bytes).unwrap_or(u32::MAX),
        workers,
        areas: AREAS,
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
