//! Replays the seeds of the fuzz targets, so that every test run repeats the inputs that a fuzzer has found once.

#[path = "../../../fuzz/bodies/lua_form.rs"]
mod lua_form;
#[path = "../../../fuzz/bodies/lua_multipart.rs"]
mod lua_multipart;
#[path = "../../../fuzz/bodies/lua_received.rs"]
mod lua_received;

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
fn forms() {
    for (name, data) in seeds("lua_form") {
        println!("{name}");
        lua_form::check(&data);
    }
}

#[test]
fn uploads() {
    let mut read = 0;
    for (name, data) in seeds("lua_multipart") {
        println!("{name}");
        read += usize::from(lua_multipart::check(&data));
    }
    assert!(read >= 6, "only {read} of the seeds could be read");
}

#[test]
fn answers_of_other_servers() {
    let mut met = 0;
    for (name, data) in seeds("lua_received") {
        println!("{name}");
        met += usize::from(lua_received::check(&data));
    }
    assert!(met >= 6, "the pattern occurs in only {met} of the seeds");
}
