//! Replays the seeds of the fuzz target, so that each test run repeats the inputs that a fuzzer has found, also cut at each
//! byte.

#[path = "../../../fuzz/bodies/auth.rs"]
mod body;

#[test]
fn files_and_credentials() {
    let folder = format!("{}/../../fuzz/seeds/auth", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 8, "{folder} is nearly empty");
    paths.sort();
    for path in paths {
        println!("{}", path.display());
        let seed = std::fs::read(&path).expect("a seed");
        (0..=seed.len()).for_each(|size| body::check(&seed[..size]));
    }
}
