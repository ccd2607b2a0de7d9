//! Replays the seeds of the fuzz target, so that every test run tries again what a fuzzer has found once.

#[path = "../../../fuzz/bodies/slot_response.rs"]
mod slot_response;

#[test]
fn heads_of_responses_in_slots() {
    let folder = format!("{}/../../fuzz/seeds/slot_response", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let mut sent = 0;
    for path in paths {
        println!("{}", path.display());
        sent += usize::from(slot_response::check(&std::fs::read(&path).expect("a seed")));
    }
    assert!(sent >= 5, "only {sent} heads were sent");
}
