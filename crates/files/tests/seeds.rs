//! Replays the seeds of the fuzz target, so that each test run repeats the inputs that a fuzzer has found.

#[path = "../../../fuzz/bodies/file_request.rs"]
mod file_request;

#[test]
fn requests_for_files() {
    let folder = format!("{}/../../fuzz/seeds/file_request", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let mut parts = 0;
    for path in paths {
        println!("{}", path.display());
        parts += file_request::check(&std::fs::read(&path).expect("a seed"));
    }
    assert!(parts >= 8, "only {parts} parts were asked for");
}
