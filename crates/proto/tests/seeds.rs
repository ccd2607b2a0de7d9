//! Replays the seeds of the fuzz targets, so that every test run tries again every input that a fuzzer has found once.

mod fastcgi_transcript;
#[path = "../../../fuzz/bodies/fcgi_machine.rs"]
mod fcgi_machine;
#[path = "../../../fuzz/bodies/fcgi_params.rs"]
mod fcgi_params;
#[path = "../../../fuzz/bodies/fcgi_response.rs"]
mod fcgi_response;
#[path = "../../../fuzz/bodies/framed_content.rs"]
mod framed_content;
mod frames;
#[path = "../../../fuzz/bodies/h1_request.rs"]
mod h1_request;
#[path = "../../../fuzz/bodies/h1_response.rs"]
mod h1_response;
#[path = "../../../fuzz/bodies/h1_upstream.rs"]
mod h1_upstream;
#[path = "../../../fuzz/bodies/h2_fields.rs"]
mod h2_fields;
#[path = "../../../fuzz/bodies/h2_frames.rs"]
mod h2_frames;
#[path = "../../../fuzz/bodies/h2_operations.rs"]
mod h2_operations;
mod http2_transcript;
#[path = "../../../fuzz/bodies/proxy_protocol.rs"]
mod proxy_protocol;
mod records;
mod transcript;
mod upstream_transcript;

/// Every seed of a target, with its name.
fn seeds(target: &str) -> impl Iterator<Item = (String, Vec<u8>)> {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths =
        std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect::<Vec<_>>();
    assert!(paths.len() >= 10, "{folder} is nearly empty");
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), std::fs::read(&path).expect("a seed")))
}

fn replay(target: &str, check: impl Fn(&[u8])) {
    for (name, data) in seeds(target) {
        println!("{name}");
        check(&data);
    }
}

#[test]
fn requests() {
    replay("h1_request", |data| drop(h1_request::check(data)));
}

#[test]
fn content_of_apps() {
    replay("framed_content", framed_content::check);
}

#[test]
fn responses() {
    replay("h1_response", h1_response::check);
}

#[test]
fn responses_of_upstreams() {
    replay("h1_upstream", h1_upstream::check);
}

#[test]
fn proxy_headers() {
    replay("proxy_protocol", proxy_protocol::check);
}

#[test]
fn fastcgi_connections() {
    replay("fcgi_machine", fcgi_machine::check);
}

#[test]
fn fastcgi_variables() {
    replay("fcgi_params", fcgi_params::check);
}

#[test]
fn fastcgi_responses() {
    replay("fcgi_response", fcgi_response::check);
}

#[test]
fn http2_connections() {
    replay("h2_frames", |data| drop(h2_frames::check(data)));
}

#[test]
fn http2_fields() {
    replay("h2_fields", |data| drop(h2_fields::check(data)));
}

#[test]
fn http2_operations() {
    replay("h2_operations", h2_operations::check);
}
