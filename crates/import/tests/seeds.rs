//! Replays the seeds of the fuzz target for configurations of other servers, whole and cut at every byte.

#[path = "../../../fuzz/bodies/import.rs"]
mod import;

#[test]
fn sources() {
    let folder = format!("{}/../../fuzz/seeds/import", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 20, "{folder} is nearly empty");
    paths.sort();
    let mut read = 0;
    for path in paths {
        println!("{}", path.display());
        let seed = std::fs::read(&path).expect("a seed");
        read += usize::from(import::check(&seed));
        for end in 0..seed.len() {
            import::check(&seed[..end]);
        }
    }
    assert!(read >= 20, "only {read} sources could be read");
}
