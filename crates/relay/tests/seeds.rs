//! Replays the seeds of the fuzz target, so that each test run repeats the inputs that a fuzzer has found.

#[path = "../../../fuzz/bodies/redis.rs"]
mod body;

#[test]
fn values() {
    let folder = format!("{}/../../fuzz/seeds/redis", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let values = paths.into_iter().map(|path| {
        println!("{}", path.display());
        body::check(&std::fs::read(&path).expect("a seed"))
    });
    let values: usize = values.sum();
    assert!(values >= 20, "only {values} values were read");
}
