//! Replays the seeds of the fuzz target, so that each test run repeats the inputs that a fuzzer has found.

#[path = "../../../fuzz/bodies/route.rs"]
mod body;
mod reference;

#[test]
fn rules_and_requests() {
    let folder = format!("{}/../../fuzz/seeds/route", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 8, "{folder} is nearly empty");
    paths.sort();
    let mut requests = 0;
    for path in paths {
        println!("{}", path.display());
        requests += body::check(&std::fs::read(&path).expect("a seed"));
    }
    assert!(requests >= 30, "only {requests} requests were made");
}
