//! Replays the seeds of the fuzz target for configuration files, whole and cut at every byte.

#[path = "../../../fuzz/bodies/config_file.rs"]
mod config_file;

#[test]
fn configuration_files() {
    let folder = format!("{}/../../fuzz/seeds/config_file", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let mut fit = 0;
    for path in paths {
        println!("{}", path.display());
        let seed = std::fs::read(&path).expect("a seed");
        fit += usize::from(config_file::check(&seed));
        for end in 0..seed.len() {
            config_file::check(&seed[..end]);
        }
    }
    assert!(fit >= 7, "only {fit} files had no mistake");
}
