//! Replays the seeds of the fuzz targets, so that each test run repeats the inputs that a fuzzer has found.

mod decoder;
#[path = "../../../fuzz/bodies/encode_negotiate.rs"]
mod encode_negotiate;
#[path = "../../../fuzz/bodies/encode_stream.rs"]
mod encode_stream;

fn seeds(target: &str) -> impl Iterator<Item = Vec<u8>> {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    paths.into_iter().map(|path| {
        println!("{}", path.display());
        std::fs::read(&path).expect("a seed")
    })
}

#[test]
fn negotiations() {
    let encoded = seeds("encode_negotiate").filter(|seed| encode_negotiate::check(seed)).count();
    assert!(encoded >= 4, "only {encoded} responses would be encoded");
}

#[test]
fn streams() {
    let ended: usize = seeds("encode_stream").map(|seed| encode_stream::check(&seed)).sum();
    assert!(ended >= 20, "only {ended} streams were decoded");
}
