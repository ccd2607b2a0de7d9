use super::*;
use crate::{
    Backtraces, Bucket, Certificate, Changed, Connections, CounterValue, Counters, Done, Generation, Histogram, Process,
    Processes, Request, Requests, Scaled, Seconds, Status, Stopped, ThreadBacktrace, Times, WorkerBacktrace,
};
use std::fmt::Debug;

/// Characters that end strings of JSON, control terminals, or change the direction of text.
const HOSTILE: &str = "a\u{1b}[2J\"\\/\r\n\t\u{8}\u{c}\0\u{7f}\u{9b}\u{202e}\u{2028}\u{e9}\u{1f980}";

/// The same in JSON.
const ESCAPED: &str = "a\\u001b[2J\\\"\\\\/\\r\\n\\t\\u0008\\u000c\\u0000\\u007f\\u009b\\u202e\\u2028\u{e9}\u{1f980}";

/// Checks that an answer is written as these bytes, and read back.
fn both_ways<T: Serialize + DeserializeOwned + Default + PartialEq + Debug>(fields: T, json: &str) {
    let answer = Answer::Done(fields);
    assert_eq!(answer.to_json(), json);
    assert_eq!(Answer::parse(json).expect("it is JSON"), answer);
    assert_eq!(Answer::parse(&format!("{json}\n")).expect("it is JSON"), answer);
}

fn running() -> Request {
    Request {
        state: "running".into(),
        edge: Some(1),
        position: None,
        method: HOSTILE.to_owned(),
        target: HOSTILE.to_owned(),
        client: "192.0.2.1:9".to_owned(),
        age: Seconds(1.5),
        quiet: Some(Seconds(1.0)),
        deadline: Some(Seconds(28.5)),
        pid: Some(77),
        worker: Some(3),
        generation: Some(2),
        app: None,
    }
}

/// [`running`] in JSON.
fn running_in_json() -> String {
    format!(
        "{{\"state\":\"running\",\"edge\":1,\"method\":\"{ESCAPED}\",\"target\":\"{ESCAPED}\",\"client\":\"192.0.2.1:9\",\
         \"age\":1.500,\"quiet\":1.000,\"deadline\":28.500,\"pid\":77,\"worker\":3,\"generation\":2}}"
    )
}

#[test]
fn a_status_has_these_bytes_and_is_read_back() {
    let values =
        vec![("queue_wait_seconds".into(), CounterValue::Time(Seconds(1.5))), ("responses_2xx".into(), CounterValue::Count(7))];
    let bucket = |bound, count| Bucket { bound, count };
    let buckets = vec![bucket(Some(0.00001), 1), bucket(Some(0.004), 1), bucket(None, 1)];
    let app = Histogram { count: 3, seconds: Seconds(200.008), buckets };
    let none = "{\"count\":0,\"seconds\":0.000,\"buckets\":[]}";
    let connections =
        Connections { reading: 1, answering: 2, sending: 3, idle: 4, lingering: 5, http1: 2, http2: 6, fastcgi: 7 };
    both_ways(
        Status {
            apps: Vec::new(),
            version: "0.1.0".into(),
            pid: 100,
            app: HOSTILE.to_owned(),
            state: "serving".into(),
            uptime: Seconds(2.0),
            addresses: vec!["http://127.0.0.1:5000".to_owned(), HOSTILE.to_owned()],
            generations: vec![Generation { app: None, number: 2, pid: 77, state: "serving".into(), age: Seconds(1.0) }],
            edges: 1,
            workers: 2,
            threads: 3,
            connections,
            certificates: vec![Certificate { name: HOSTILE.to_owned(), expires: u64::MAX }],
            requests: 7,
            workers_started: 8,
            workers_failed: 9,
            counters: Counters { seconds: Seconds(60.0), values },
            times: Times { app, ..Times::default() },
        },
        &format!(
            "{{\"ok\":true,\"version\":\"0.1.0\",\"pid\":100,\"app\":\"{ESCAPED}\",\"state\":\"serving\",\"uptime\":2.000,\
             \"addresses\":[\"http://127.0.0.1:5000\",\"{ESCAPED}\"],\
             \"generations\":[{{\"number\":2,\"pid\":77,\"state\":\"serving\",\"age\":1.000}}],\
             \"edges\":1,\"workers\":2,\"threads\":3,\
             \"connections\":{{\"reading\":1,\"answering\":2,\"sending\":3,\"idle\":4,\"lingering\":5,\"http1\":2,\"http2\":6,\
             \"fastcgi\":7}},\
             \"certificates\":[{{\"name\":\"{ESCAPED}\",\"expires\":18446744073709551615}}],\
             \"requests\":7,\"workers_started\":8,\"workers_failed\":9,\
             \"counters\":{{\"seconds\":60.000,\"queue_wait_seconds\":1.500,\"responses_2xx\":7}},\
             \"times\":{{\"queue\":{none},\"app\":{{\"count\":3,\"seconds\":200.008,\
             \"buckets\":[[0.00001,1],[0.004,1],[null,1]]}},\"send\":{none},\"total\":{none}}}}}"
        ),
    );
}

#[test]
fn processes_have_these_bytes_and_are_read_back() {
    let edge = Process {
        app: None,
        kind: "edge".into(),
        number: 1,
        pid: 150,
        generation: None,
        state: "ready".into(),
        age: Seconds(61.001),
        connections: 3,
        requests: 0,
    };
    let worker = Process { kind: "worker".into(), generation: Some(2), requests: u64::MAX, ..edge.clone() };
    both_ways(
        Processes { processes: vec![edge, worker] },
        "{\"ok\":true,\"processes\":[\
         {\"kind\":\"edge\",\"number\":1,\"pid\":150,\"state\":\"ready\",\"age\":61.001,\"connections\":3,\"requests\":0},\
         {\"kind\":\"worker\",\"number\":1,\"pid\":150,\"generation\":2,\"state\":\"ready\",\"age\":61.001,\"connections\":3,\
         \"requests\":18446744073709551615}]}",
    );
}

#[test]
fn requests_have_these_bytes_and_are_read_back() {
    let least = Request { state: "queued".into(), position: Some(2), ..Request::default() };
    let running_in_json = running_in_json();
    both_ways(
        Requests { requests: vec![running(), least], more: 5 },
        &format!(
            "{{\"ok\":true,\"requests\":[{running_in_json},{{\"state\":\"queued\",\"position\":2,\"method\":\"\",\
             \"target\":\"\",\"age\":0.000}}],\"more\":5}}"
        ),
    );
}

#[test]
fn backtraces_have_these_bytes_and_are_read_back() {
    let thread = ThreadBacktrace {
        thread: 5,
        name: Some(HOSTILE.to_owned()),
        state: Some("sleeping".to_owned()),
        call: Some("read".to_owned()),
        place: Some("do_read".to_owned()),
        request: "GET /".to_owned(),
        frames: Some(vec![HOSTILE.to_owned(), "b".to_owned()]),
        left_out: Some(3),
    };
    let worker = WorkerBacktrace {
        app: None,
        number: 1,
        pid: 77,
        generation: Some(2),
        state: "ready".into(),
        trace: "partly".into(),
        note: HOSTILE.to_owned(),
        requests: Some(vec![running()]),
        threads: vec![thread, ThreadBacktrace { thread: 6, ..ThreadBacktrace::default() }],
        more: 4,
    };
    let least = WorkerBacktrace { trace: "told".into(), ..WorkerBacktrace::default() };
    let running_in_json = running_in_json();
    both_ways(
        Backtraces { workers: vec![worker, least] },
        &format!(
            "{{\"ok\":true,\"workers\":[{{\"number\":1,\"pid\":77,\"generation\":2,\"state\":\"ready\",\"trace\":\"partly\",\
             \"note\":\"{ESCAPED}\",\"requests\":[{running_in_json}],\"threads\":[{{\"thread\":5,\"name\":\"{ESCAPED}\",\
             \"state\":\"sleeping\",\"call\":\"read\",\"place\":\"do_read\",\"request\":\"GET /\",\
             \"frames\":[\"{ESCAPED}\",\"b\"],\"left_out\":3}},{{\"thread\":6}}],\"more\":4}},\
             {{\"number\":0,\"pid\":0,\"state\":\"\",\"trace\":\"told\",\"threads\":[],\"more\":0}}]}}"
        ),
    );
}

#[test]
fn answers_to_changes_have_these_bytes_and_are_read_back() {
    both_ways(Changed { message: HOSTILE.to_owned() }, &format!("{{\"ok\":true,\"message\":\"{ESCAPED}\"}}"));
    both_ways(Scaled { workers: 4, before: 2 }, "{\"ok\":true,\"workers\":4,\"before\":2}");
    both_ways(Stopped { status: -1 }, "{\"ok\":true,\"status\":-1}");
    both_ways(Done {}, "{\"ok\":true}");
}

#[test]
fn failures_have_these_bytes_and_are_read_back() {
    let failed = Answer::<Status>::failed(HOSTILE);
    let json = format!("{{\"ok\":false,\"error\":\"{ESCAPED}\"}}");
    assert_eq!(failed.to_json(), json);
    assert_eq!(Answer::<Status>::parse(&json).expect("it is JSON"), failed);
    let without = Answer::<Done>::Failed(Failure::default());
    assert_eq!(without.to_json(), "{\"ok\":false}");
    for line in ["{\"ok\":false}", "{\"ok\":1}", "{\"ok\":\"true\"}", "{\"ok\":false,\"error\":7}", "{}", "[]", "7", "null"] {
        assert_eq!(Answer::<Done>::parse(line).expect("it is JSON"), without, "{line}");
    }
    assert_eq!(Failure::default().reason(), "the server gave no reason");
}

#[test]
fn a_line_that_is_not_json_is_reported_with_the_reason() {
    for line in ["", "HTTP/1.1 400 Bad Request", "{\"ok\":true", "{\"ok\":true}{}"] {
        let error = Answer::<Done>::parse(line).expect_err(line).to_string();
        assert!(error.starts_with("the answer is not JSON, so this is not an Oribi server: "), "{error}");
    }
    assert!(Answer::<Done>::parse(&"[".repeat(100_000)).is_err(), "nesting is limited");
}

#[test]
fn what_another_version_lacks_or_changes_counts_as_nothing_and_what_it_adds_is_ignored() {
    let odd = "{\"ok\":true,\"pid\":-1,\"uptime\":\"x\",\"addresses\":7,\"counters\":[1],\"edges\":1.5,\"threads\":null,\
               \"generations\":[7,\"x\"],\"new\":{\"a\":[1]},\"version\":[]}";
    assert_eq!(Answer::parse(odd).expect("it is JSON"), Answer::Done(Status::default()));
    let mixed = "{\"ok\":true,\"requests\":[{\"state\":\"queued\",\"position\":\"x\",\"age\":2,\"worker\":null,\"new\":1}],\
                 \"more\":-5}";
    let request = Request { state: "queued".into(), age: Seconds(2.0), ..Request::default() };
    let requests = Requests { requests: vec![request], more: 0 };
    assert_eq!(Answer::parse(mixed).expect("it is JSON"), Answer::Done(requests));
    assert_eq!(Answer::parse("{\"ok\":true}").expect("it is JSON"), Answer::Done(Backtraces::default()));
}
