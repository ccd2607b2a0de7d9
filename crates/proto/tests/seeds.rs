//! Replays the seeds of the fuzz targets, so that what a fuzzer has found once is looked for by every test run.

#[path = "../../../fuzz/bodies/h1_request.rs"]
mod h1_request;
#[path = "../../../fuzz/bodies/h1_response.rs"]
mod h1_response;
mod transcript;

/// Every seed of a target, with its name.
fn seeds(target: &str) -> impl Iterator<Item = (String, Vec<u8>)> {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths =
        std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect::<Vec<_>>();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), std::fs::read(&path).expect("a seed")))
}

#[test]
fn requests() {
    for (name, data) in seeds("h1_request") {
        println!("{name}");
        h1_request::check(&data);
    }
}

#[test]
fn responses() {
    for (name, data) in seeds("h1_response") {
        println!("{name}");
        h1_response::check(&data);
    }
}
