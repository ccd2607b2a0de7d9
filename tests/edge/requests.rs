//! `oribi ctl requests`: which requests are in the server, where, and since when.

use crate::connection::Connection;
use crate::language::Language;
use crate::server::wait_until;
use crate::steered::Steered;
use crate::turn;
use serde_json::Value;
use std::time::Instant;

crate::in_every_language!(
    requests_are_told_of_where_they_are,
    a_slow_client_keeps_its_app_sending,
    what_nobody_waits_for_any_more_is_told_of_until_its_app_ends,
    without_an_edge_what_runs_is_known_if_apps_have_a_deadline,
);

fn states(server: &Steered) -> Vec<String> {
    let requests = server.list("requests", "requests");
    requests.iter().map(|request| request["state"].as_str().expect("text").to_owned()).collect()
}

fn requests_are_told_of_where_they_are(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "1", "--request-timeout", "50s", "--queue-timeout", "40s"]);
    wait_until("the request by which its start was seen has ended", || server.well(&["requests"]) == "no requests\n");
    let before = Instant::now();
    let mut slow = Connection::open(server.site.address);
    slow.ask("/read?1");
    let pid = server.site.wait_inside(1);
    let mut waiting: Vec<Connection> = Vec::new();
    for number in 2..4 {
        let mut connection = Connection::open(server.site.address);
        connection.ask(&format!("/mark?{number}"));
        waiting.push(connection);
        let count = waiting.len() + 1;
        wait_until("it waits", || server.list("requests", "requests").len() == count);
    }
    let looked = Instant::now();
    let all = server.list("requests", "requests");
    let seconds = |request: &Value, name: &str| request[name].as_f64().unwrap_or_else(|| panic!("no {name}: {request}"));
    let passed = before.elapsed().as_secs_f64() + 0.001;
    assert!(all.iter().all(|request| (0.0..=passed).contains(&seconds(request, "age"))), "{all:?}");
    assert!(all.windows(2).all(|pair| seconds(&pair[0], "age") >= seconds(&pair[1], "age")), "the oldest first: {all:?}");
    let texts = |name: &str| all.iter().map(|request| request[name].to_string()).collect::<Vec<_>>();
    assert_eq!(texts("state"), ["\"running\"", "\"queued\"", "\"queued\""]);
    assert_eq!(texts("target"), ["\"/read?...\"", "\"/mark?...\"", "\"/mark?...\""], "no query is told");
    assert_eq!(texts("method"), ["\"GET\""; 3]);
    assert_eq!(texts("position"), ["null", "1", "2"]);
    assert_eq!(
        (texts("pid"), texts("worker")),
        (vec![pid.to_string(), "null".into(), "null".into()], ["1", "null", "null"].map(String::from).to_vec())
    );
    let clients: Vec<String> =
        [&slow].into_iter().chain(&waiting).map(|client| format!("\"{}\"", client.own_address())).collect();
    assert_eq!(texts("client"), clients);
    let (quiet, left) = (seconds(&all[0], "quiet"), seconds(&all[0], "deadline"));
    assert!((0.0..=seconds(&all[0], "age")).contains(&quiet) && (50.0 - passed..=50.0).contains(&left), "{all:?}");
    assert!((40.0 - passed..=40.0).contains(&seconds(&all[1], "deadline")), "{all:?}");
    wait_until("time passes", || looked.elapsed().as_millis() > 300);
    let later = server.list("requests", "requests");
    assert!(seconds(&later[0], "age") > 0.3 && seconds(&later[0], "quiet") > 0.2, "{later:?}");
    let table = server.well(&["requests"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["STATE", "AGE", "QUIET", "DEADLINE", "WORKER", "PID", "CLIENT", "REQUEST"]);
    assert!(lines[1][0] == "running" && lines[1].ends_with(&["GET", "/read?..."]), "{table}");
    assert!(lines[2][..2] == ["queued", "1"] && lines.len() == 4, "{table}");

    server.site.release();
    assert_eq!(slow.answer().0.status, 200);
    for connection in &mut waiting {
        assert_eq!(connection.answer().0.status, 200);
    }
    wait_until("all are answered", || server.well(&["requests"]) == "no requests\n");
}

fn a_slow_client_keeps_its_app_sending(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "1", "--output-spool-size", "off"]);
    let mut slow = Connection::open(server.site.address);
    slow.ask("/stream?1&20000000&1000");
    slow.receive(1000).expect("the app answers");
    wait_until("it waits for its client", || states(&server) == ["sending"]);
    assert_eq!(
        server.list("requests", "requests")[0]["pid"].as_u64().map(|pid| pid as u32),
        server.site.workers().first().copied()
    );
    slow.reset();
    wait_until("its app has learned of that", || states(&server).is_empty());
}

fn what_nobody_waits_for_any_more_is_told_of_until_its_app_ends(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "1"]);
    let mut goes = Connection::open(server.site.address);
    goes.ask("/read?1");
    server.site.wait_inside(1);
    goes.reset();
    wait_until("its client is missed", || states(&server) == ["abandoned"]);
    server.site.release();
    wait_until("its app has ended", || states(&server).is_empty());
}

fn without_an_edge_what_runs_is_known_if_apps_have_a_deadline(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--edge", "off", "--workers", "1", "--request-timeout", "50s"]);
    let before = Instant::now();
    let mut slow = Connection::open(server.site.address);
    slow.ask("/read?1");
    let pid = server.site.wait_inside(1);
    wait_until("it is seen", || states(&server) == ["running"]);
    let one = server.list("requests", "requests").remove(0);
    assert_eq!((one["pid"].as_u64(), one["worker"].as_u64()), (Some(u64::from(pid)), Some(1)), "{one}");
    assert_eq!((one["method"].as_str(), one["target"].as_str()), (Some("GET"), Some("/read?...")), "{one}");
    let passed = before.elapsed().as_secs_f64() + 0.1;
    let age = one["age"].as_f64().expect("a time");
    assert!((0.0..=passed).contains(&age) && one["quiet"].as_f64().is_some_and(|quiet| quiet <= age), "{one}");
    assert!(one["deadline"].as_f64().is_some_and(|left| (50.0 - passed..=50.0).contains(&left)), "{one}");
    server.site.release();
    assert_eq!(slow.answer().0.status, 200);
    wait_until("it is answered", || server.well(&["requests"]) == "no requests\n");
}
