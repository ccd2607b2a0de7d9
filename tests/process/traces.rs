//! `--traces`: the access log has the ids that the app sees.

use crate::client::{Target, get};
use crate::native;
use crate::server::{Folder, wait_for};

const SHAPES: [&[&str]; 3] = [&["--edge", "off"], &["--edge", "on"], &["--edge", "on", "--edge-sandbox", "on"]];

#[test]
fn the_access_log_tells_the_place_of_each_request() {
    for shape in SHAPES {
        for format in ["%{traceparent}i 00-%{trace_id}n-%{span_id}n-01", "json"] {
            let folder = Folder::new();
            let log = folder.file("access");
            let log_flags = ["--access-log", log.to_str().expect("plain"), "--access-log-format", format];
            let mut server = native(&[&["--traces", "--workers", "1"], &log_flags[..], shape].concat());
            let target = Target::Tcp(server.address());
            for _ in 0..2 {
                get(&target).expect("it serves");
            }
            let lines: Vec<String> = wait_for("two lines", || {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                Some(text.lines().map(str::to_owned).collect()).filter(|lines: &Vec<String>| lines.len() == 2)
            });
            assert_ne!(lines[0], lines[1]);
            for line in lines {
                if format == "json" {
                    assert!(line.contains("\"trace_id\":\"") && line.contains("\"span_id\":\""), "{line}");
                } else {
                    let (seen, told) = line.split_once(' ').expect("two words");
                    assert!(seen == told && seen.len() == 55, "{line}");
                }
            }
        }
    }
}
