//! Replays the seeds of the fuzz target, so that each test run repeats the inputs that a fuzzer has found.

#[path = "../../../fuzz/bodies/cache_fields.rs"]
mod cache_fields;

#[test]
fn fields() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/cache_fields");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    let mut stored = 0;
    for path in paths {
        println!("{}", path.display());
        let seed = std::fs::read(&path).expect("a seed");
        // All beginnings, and each byte replaced.
        (0..seed.len()).for_each(|end| _ = cache_fields::check(&seed[..end]));
        for place in 0..seed.len() {
            for byte in *b"\0\",=: \n>0a\xff" {
                let mut other = seed.clone();
                other[place] = byte;
                cache_fields::check(&other);
            }
        }
        stored += usize::from(cache_fields::check(&seed));
    }
    assert!(stored >= 6, "only {stored} responses were stored");
}
