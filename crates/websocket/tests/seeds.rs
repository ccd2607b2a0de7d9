//! Replays the seeds of the fuzz targets, so that each test run repeats the inputs that a fuzzer has found.

#[path = "../../../fuzz/bodies/websocket_extensions.rs"]
mod extensions;
#[path = "../../../fuzz/bodies/websocket_reader.rs"]
mod reader;

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
fn frames() {
    let messages: usize = seeds("websocket_reader").map(|seed| reader::check(&seed)).sum();
    assert!(messages >= 20, "only {messages} messages were read");
}

#[test]
fn handshakes() {
    let agreed = seeds("websocket_extensions").filter(|seed| extensions::check(seed).is_some()).count();
    assert!(agreed >= 5, "only {agreed} offers were accepted");
}
