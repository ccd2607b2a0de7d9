//! Replays the seeds of the fuzz targets for slots and for WebSockets that are handed over, so that every test run repeats each input
//! that a fuzzer has found.

#[path = "../../../fuzz/bodies/live_record.rs"]
mod live_record;
#[path = "../../../fuzz/bodies/slot_request.rs"]
mod slot_request;
#[path = "../../../fuzz/bodies/slot_response.rs"]
mod slot_response;

/// Replays the seeds of a target, and returns the number of those that are valid for it.
fn replay(target: &str, check: fn(&[u8]) -> bool) -> usize {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let is_one = |path: &std::path::PathBuf| {
        println!("{}", path.display());
        check(&std::fs::read(path).expect("a seed"))
    };
    paths.iter().filter(|path| is_one(path)).count()
}

#[test]
fn heads_of_responses_in_slots() {
    let sent = replay("slot_response", slot_response::check);
    assert!(sent >= 5, "only {sent} heads were sent");
}

#[test]
fn requests_in_slots() {
    let read = replay("slot_request", slot_request::check);
    assert!(read >= 6, "only {read} requests were read");
}

#[test]
fn websockets_that_are_handed_over() {
    let read = replay("live_record", live_record::check);
    assert!(read >= 10, "only {read} were read");
}
