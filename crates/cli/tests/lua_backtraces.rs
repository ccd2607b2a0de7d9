//! `oribi ctl backtrace`: the positions of Lua scripts, which are not disturbed.

#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;

use lua_directory::{PATIENCE, Server, TestDirectory, leaf};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// An app whose action the path of the request chooses. Loops in the app end when the file `release` exists.
const APP: &str = r#"
local oribi = require 'oribi'
local release = oribi.directory .. '/release'
local function released() local file = io.open(release) return file and file:close() end
local function spin()
    repeat until released()
end
local function deep(level)
    if level == 0 then spin() else deep(level - 1) end
    return true
end
local does = {}
function does.deep() deep(2) end
function does.compiled()
    local sum = 0
    repeat for i = 1, 1e7 do sum = sum + i % 3 end until released()
end
function does.sorts() table.sort({ 2, 1 }, function(a, b) spin() return a < b end) end
function does.catches() pcall(function() deep(0) end) end
function does.resumes()
    local inner = coroutine.wrap(function() deep(0) end)
    inner()
end
function does.strings() (loadstring or load)("local spin = ...\nspin() return 1", '@hostile\27]0;name')(spin) end
function does.texts() (loadstring or load)("local spin = ... spin() return 1")(spin) end
does['evil'] = function() local evil = { ['e\27[2J'] = function() spin() end } evil['e\27[2J']() return 1 end
local function endless(level) if level == 0 then spin() else endless(level - 1) end return 1 end
function does.endless() endless(5000) end
function does.pattern() string.find(('a'):rep(60), ('a?'):rep(60) .. ('a'):rep(60)) end
function does.sleeps()
    local status = os.execute 'read line < gate'
    return (status == 0 or status == true) and 'whole' or 'woken'
end
function does.polls()
    local ffi = require 'ffi'
    ffi.cdef 'int poll(void *, unsigned long, int); int open(const char *, int, ...); int close(int);'
    local ready, gate = nil, ffi.C.open('gate', 2)
    local descriptor_and_events = ffi.new('int[2]', gate, 1)
    repeat ready = ffi.C.poll(descriptor_and_events, 1, -1) until ready >= 0 -- a question just before the wait interrupts it
    ffi.C.close(gate)
    return ready == 1 and 'whole' or 'woken'
end
function does.quick() local sum = 0 for i = 1, 300 do sum = sum + i end return tostring(sum) end
return function(request)
    local name = request.path:match '%w+'
    local text = does[name] and does[name]()
    return type(text) == 'string' and text or name
end
"#;

fn site() -> TestDirectory {
    let place = TestDirectory::new();
    place.file("app.lua", APP);
    place
}

/// Serves with these options, and a control socket.
fn serve(place: &TestDirectory, edge: &str, more: &[&str]) -> Server {
    let server =
        place.serve(&[&["app.lua", "--edge", edge, "--control", "control", "--graceful-timeout", "1s"], more].concat());
    assert!(place.get("/started").ends_with("started"), "{}", place.log());
    server
}

/// Connects and requests the backtraces of all workers.
fn question(place: &TestDirectory) -> UnixStream {
    let start = Instant::now();
    let mut socket = loop {
        match UnixStream::connect(place.0.join("control")) {
            Ok(socket) => break socket,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}: {}", place.log()),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket.write_all(b"backtrace\n").expect("it listens");
    socket
}

fn answer(socket: UnixStream) -> Vec<Value> {
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("an answer");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    answer["workers"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

fn ask(place: &TestDirectory) -> Vec<Value> {
    answer(question(place))
}

/// Repeats the request until `condition` accepts the response.
fn ask_until<T>(place: &TestDirectory, what: &str, condition: impl Fn(&[Value]) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let workers = ask(place);
        if let Some(found) = condition(&workers) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {workers:#?} {}", place.log());
    }
}

/// The threads that report their position: request and frames.
fn telling(workers: &[Value]) -> Vec<(String, Vec<String>)> {
    let threads = workers.iter().flat_map(|worker| worker["threads"].as_array().expect("threads"));
    let frames = |thread: &Value| {
        let frames = thread["frames"].as_array()?.iter().map(|frame| frame.as_str().expect("text").to_owned());
        Some((thread["request"].as_str().unwrap_or_default().to_owned(), frames.collect()))
    };
    threads.filter_map(frames).collect()
}

/// The threads whose script is in its loop.
fn spinning(workers: &[Value]) -> Vec<(String, Vec<String>)> {
    let inside = |frames: &[String]| frames.iter().any(|frame| frame.ends_with(" in spin"));
    telling(workers).into_iter().filter(|(_, frames)| inside(frames)).collect()
}

fn release(place: &TestDirectory) {
    place.file("release", "");
}

fn body_of(mut connection: UnixStream) -> String {
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("an answer");
    text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

/// "FILE:LINE in NAME" for the line of the app with this text.
fn at(place: &TestDirectory, text: &str, name: &str) -> String {
    let line = APP.lines().position(|line| line.contains(text)).expect("it is there") + 1;
    let file = place.0.canonicalize().expect("it is there").join("app.lua");
    format!("{}:{line} in {name}", file.display())
}

#[test]
fn a_loop_is_told_with_its_file_line_and_functions_and_goes_on() {
    for edge in ["off", "on"] {
        let place = site();
        let server = serve(&place, edge, &[]);
        let [spin, deep] = [at(&place, "repeat until", "spin"), at(&place, "if level == 0 then spin() else deep", "deep")];
        let handler = at(&place, "local text = does[name]", "function at line 44");
        let cases: [(&str, &[&str]); 7] = [
            ("deep", &[&spin, &deep, &deep, &deep, &at(&place, "function does.deep", "?"), &handler]),
            (
                "sorts",
                &[
                    &spin,
                    &at(&place, "table.sort", "function at line 18"),
                    "[C] in sort",
                    &at(&place, "table.sort", "?"),
                    &handler,
                ],
            ),
            (
                "catches",
                &[
                    &spin,
                    &deep,
                    &at(&place, "pcall(", "function at line 19"),
                    "[C] in pcall",
                    &at(&place, "pcall(", "?"),
                    &handler,
                ],
            ),
            ("resumes", &[&spin, &deep, &at(&place, "coroutine.wrap(", "function at line 21")]),
            ("strings", &[&spin, "hostile\\x1b]0;name:2 in main chunk"]),
            ("texts", &[&spin, "[string \\\"local spin = ... spin() return 1\\\"]:1 in main chunk"]),
            ("evil", &[&spin, &at(&place, "does['evil']", "e\\x1b[2J")]),
        ];
        for (name, expected) in cases {
            let asked = place.ask(&format!("/{name}?secret"));
            let (request, frames) = ask_until(&place, name, |workers| {
                let told = spinning(workers).into_iter().find(|(_, frames)| frames.iter().any(|frame| frame == &spin))?;
                (workers[0]["trace"] == "told").then_some(told)
            });
            assert_eq!(request, format!("GET /{name}"));
            println!("{frames:#?}");
            for (frame, expected) in frames.iter().skip_while(|frame| **frame != spin).zip(expected) {
                // The names of functions in tables differ between Luas.
                let known = expected.strip_suffix('?').map_or_else(|| frame == expected, |begin| frame.starts_with(begin));
                assert!(known, "{name}: {frame} is not {expected}: {frames:#?}");
            }
            assert_eq!(frames.last().map(String::as_str), Some(handler.as_str()), "{name}: {frames:#?}");
            release(&place);
            assert_eq!(body_of(asked), name);
            fs::remove_file(place.0.join("release")).expect("it is there");
        }
        drop(server);
    }
}

#[test]
fn a_loop_that_has_been_compiled_is_told() {
    let place = site();
    let _server = serve(&place, "off", &[]);
    let asked = place.ask("/compiled");
    let line = at(&place, "repeat for i", "");
    for _ in 0..20 {
        ask_until(&place, "compiled", |workers| {
            telling(workers).iter().any(|(_, frames)| frames[0].starts_with(&line)).then_some(())
        });
    }
    release(&place);
    assert_eq!(body_of(asked), "compiled");
}

#[test]
fn of_endless_frames_some_are_told_and_all_are_counted() {
    let place = site();
    let _server = serve(&place, "off", &[]);
    let asked = place.ask("/endless");
    let left_out = ask_until(&place, "endless", |workers| {
        let told = spinning(workers).into_iter().find(|(_, frames)| frames.len() == 100)?;
        assert!(told.1[99].ends_with(" in endless"), "{told:?}");
        workers[0]["threads"].as_array()?.iter().find_map(|thread| thread["left_out"].as_u64().filter(|count| *count > 0))
    });
    assert!((4902..4920).contains(&left_out), "{left_out}");
    release(&place);
    assert_eq!(body_of(asked), "endless");
}

#[test]
fn a_function_in_c_that_does_not_return_is_silent_and_one_that_waits_is_left_alone() {
    let run = |edge, threads| {
        let place = site();
        let _server = serve(&place, edge, &["--threads", threads]);
        let trace = |name: &'static str| move |workers: &[Value]| (workers[0]["trace"] == name).then_some(());
        // It is unknown whether a single worker without an edge waits for requests or during one.
        if (edge, threads) != ("off", "1") {
            ask_until(&place, "idle", trace("idle"));
        }
        let names: &[&str] = if cfg!(feature = "luajit") { &["sleeps", "polls"] } else { &["sleeps"] };
        // The calls wait for a line in this pipe.
        let gate = place.0.join("gate");
        mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        for name in names {
            let asked = place.ask(&format!("/{name}"));
            let outcome = if threads == "1" { "waits" } else { "silent" };
            let in_call = |thread: &Value| matches!(thread["call"].as_str(), Some("wait4" | "poll"));
            ask_until(&place, name, |workers| {
                let threads = workers[0]["threads"].as_array()?;
                (workers[0]["trace"] == outcome && threads.iter().any(in_call)).then_some(())
            });
            for _ in 0..5 {
                assert!(telling(&ask(&place)).is_empty(), "{name}");
            }
            fs::write(&gate, "open\n").expect("somebody reads");
            assert_eq!(body_of(asked), "whole", "{name} with {threads} threads");
        }
        let _asked = place.ask("/pattern");
        ask_until(&place, "pattern", trace("silent"));
        if threads == "2" {
            let spins = place.ask("/deep");
            ask_until(&place, "one of two", |workers| {
                (workers[0]["trace"] == "partly" && spinning(workers).len() == 1).then_some(())
            });
            release(&place);
            assert_eq!(body_of(spins), "deep");
        }
    };
    std::thread::scope(|scope| {
        for (edge, threads) in [("off", "1"), ("on", "1"), ("off", "2")] {
            scope.spawn(move || run(edge, threads));
        }
    });
}

#[test]
fn threads_tell_each_for_itself() {
    for edge in ["off", "on"] {
        let place = site();
        let _server = serve(&place, edge, &["--threads", "3"]);
        let asked = ["/deep", "/resumes"].map(|target| place.ask(target));
        let mut told = ask_until(&place, "two", |workers| {
            let told = spinning(workers);
            (told.len() == 2 && workers[0]["trace"] == "told").then_some(told)
        });
        told.sort();
        assert_eq!(told.iter().map(|(request, _)| &**request).collect::<Vec<_>>(), ["GET /deep", "GET /resumes"]);
        release(&place);
        assert_eq!(asked.map(body_of), ["deep", "resumes"]);
    }
}

#[test]
fn questions_under_load_leave_every_answer_right() {
    for (edge, threads) in [("off", "1"), ("on", "3")] {
        let place = site();
        let server = serve(&place, edge, &["--threads", threads]);
        std::thread::scope(|scope| {
            let clients = [0, 1].map(|_| {
                scope.spawn(|| {
                    while !place.0.join("release").exists() {
                        assert_eq!(body_of(place.ask("/quick")), "45150");
                    }
                })
            });
            for _ in 0..50 {
                assert_eq!(ask(&place).len(), 1);
            }
            for socket in [0; 10].map(|_| question(&place)) {
                assert_eq!(answer(socket).len(), 1);
            }
            release(&place);
            clients.into_iter().for_each(|client| client.join().expect("all answers were right"));
        });
        assert!(!place.log().contains("panicked"), "{}", place.log());
        drop(server);
    }
}

/// The deadline of a request is kept even if its backtrace is requested repeatedly.
#[test]
fn an_interruption_comes_through_all_questions() {
    let place = site();
    let server = serve(&place, "off", &["--request-timeout", "300ms", "--states", "2"]);
    let worker = leaf(server.0.id());
    for target in ["/compiled", "/deep", "/resumes"] {
        let asked = place.ask(target);
        let answered = std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let (mut text, mut asked) = (String::new(), asked);
                asked.read_to_string(&mut text).expect("an answer");
                text
            });
            while !waits.is_finished() {
                ask(&place);
            }
            waits.join().expect("an answer")
        });
        assert!(answered.starts_with("HTTP/1.1 504 "), "{target}: {answered}");
    }
    assert_eq!(place.get("/quick").split("\r\n\r\n").nth(1), Some("45150"));
    assert_eq!(leaf(server.0.id()), worker, "the worker lives");
}
