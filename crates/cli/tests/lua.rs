//! The `oribi` command with Lua scripts, run as users run it.

mod lua_directory;

use lua_directory::{PATIENCE, TestDirectory, request};
use oribi_lua::table;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const HELLO: &str = "return function(request) return 200, { ['Content-Type'] = 'text/plain' }, 'hello from Lua' end";

#[test]
fn help_names_every_flag_with_its_default() {
    let help = TestDirectory::new().run(&["--help"]);
    let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in table() {
        let flag = if setting.is_switch() {
            format!("--{}[=<on|off>] ", setting.name)
        } else {
            format!("--{} <{}> ", setting.name, setting.placeholder)
        };
        let expected = format!("{flag}{} [default: {}]", setting.help, setting.default_text());
        assert!(words.contains(&expected), "{expected} is not in {}", help.out);
    }
}

#[test]
fn the_version_names_the_lua_that_is_built_in() {
    let version = TestDirectory::new().run(&["--version"]);
    assert!(version.out.contains(&format!("\nlua: {} is built in", oribi_lua::built_in())), "{}", version.out);
}

#[test]
fn the_plan_says_what_the_script_is_and_where_each_value_came_from() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    for arguments in [&["check"][..], &["check", "app.lua"], &["check", ".", "--language", "lua"]] {
        let plan = place.run(arguments);
        assert_eq!(plan.planned("app"), ["app.lua"], "{arguments:?}");
        assert_eq!(plan.planned("states"), ["5", "default"]);
    }
    let plan = place.run(&[
        "check",
        "--states",
        "2",
        "--time_limit",
        "90",
        "-E",
        "development",
        "--state-memory=1g",
        "--threads",
        "4",
    ]);
    for (name, expected) in [
        ("states", &["2", "command", "line"][..]),
        ("time-limit", &["90s", "command", "line"]),
        ("state-memory", &["1GiB", "command", "line"]),
        ("show-errors", &["on", "--env"]),
        ("retries", &["2", "default"]),
        ("threads", &["4", "command", "line"]),
    ] {
        assert_eq!(plan.planned(name), expected, "{}", plan.out);
    }
    let plan = place.run(&["check", "-E", "development", "--show-errors=off"]);
    assert_eq!(plan.planned("show-errors"), ["off", "command", "line"]);
}

#[test]
fn mistakes_are_explained() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    place.file("app.psgi", "");
    place.file("dir/app.lua", HELLO);
    for (arguments, parts) in [
        (&["app.lua", "--states", "0"][..], &["bad value `0` for states: expected a whole number from 1"][..]),
        (&["app.lua", "--handler", "a b"], &["bad value `a b` for handler: expected the name"]),
        (&["app.lua", "--config", "x"], &["--config is not for Lua apps"]),
        (&["app.lua", "-MCarp"], &["-M is not for Lua apps"]),
        (&["app.lua", "--lua", "5.9"], &["unknown Lua `5.9`"]),
        (&["app.lua", "--document-root"], &["app.lua is not a directory"]),
        (&["nowhere", "--document-root"], &["cannot find nowhere"]),
        (&["dir", "--document-root", "dir"], &["two directories"]),
        (&["--document-root", "dir", "--native", "x"], &["cannot be used with"]),
        (&["--states", "2", "--native", "x"], &["cannot be used with"]),
        (&["luafcgid", "--document-root"], &["needs a directory"]),
    ] {
        place.run(arguments).fails(2, parts);
    }
    place.run(&["app.psgi", "--states", "2"]).fails(1, &["--states is for Lua apps, and this is a Perl app"]);
    place.run(&["app.psgi", "--document-root", "dir", "--language", "perl"]).fails(2, &["two directories"]);
}

#[test]
fn an_iterator_without_end_is_left_where_no_content_can_be_sent() {
    const ENDLESS: &str = "local asked = 0
        return function(request)
            if request.path == '/asked' then return 200, {}, tostring(asked) end
            asked = 0
            local head = request.path == '/sized' and { ['Content-Length'] = '10' } or {}
            return tonumber(request.query) or 200, head, function() asked = asked + 1; return asked < 100000 and 'a piece' or nil end
        end";
    for edge in ["on", "off"] {
        let place = TestDirectory::new();
        place.file("app.lua", ENDLESS);
        let _server = place.serve(&["app.lua", "--edge", edge, "--workers", "1", "--states", "1"]);
        for (method, target) in [("HEAD", "/"), ("GET", "/?204"), ("GET", "/?304")] {
            let mut stream = place.connect();
            stream.write_all(request(target, "close").replace("GET", method).as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("the end");
            assert!(answer.ends_with("\r\n\r\n"), "{method} {target}, edge {edge}: {answer}");
            assert!(place.get("/asked").ends_with("\r\n\r\n1"), "{method} {target}, edge {edge}");
        }
        let mut stream = place.connect();
        stream.write_all(request("/sized", "close").as_bytes()).expect("sent");
        let mut answer = Vec::new();
        // The end of the connection, which is cut, may be an error.
        let _ = stream.read_to_end(&mut answer);
        assert!(String::from_utf8_lossy(&answer).ends_with("a piecea p"));
        assert!(!place.get("/asked").ends_with("\r\n\r\n100000"), "edge {edge}");
    }
}

#[test]
fn another_lua_is_a_program_beside_this_one() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    let (own, other, name) = if cfg!(feature = "luajit") { ("jit", "5.4", "oribi-lua5.4") } else { ("5.4", "jit", "oribi") };
    assert_eq!(place.run(&["check", "--lua", own]).status, Some(0));
    let program = place.0.join("bin/program");
    fs::create_dir(place.0.join("bin")).expect("created");
    fs::copy(env!("CARGO_BIN_EXE_oribi"), &program).expect("copied");
    let program = program.to_str().expect("UTF-8");
    place.run_as(program, &["check", "--lua", other]).fails(1, &[name, "No such file"]);
    symlink(program, place.0.join("bin").join(name)).expect("linked");
    place.run_as(program, &["check", "--lua", other]).fails(1, &["is this program"]);
    fs::remove_file(place.0.join("bin").join(name)).expect("removed");
    symlink("/bin/echo", place.0.join("bin").join(name)).expect("linked");
    let outcome = place.run_as(program, &["check", "--lua", other, "app.lua"]);
    assert_eq!((outcome.status, outcome.out.as_str()), (Some(0), &*format!("check --lua {other} app.lua\n")));
}

#[test]
fn a_script_that_does_not_load_is_named() {
    let place = TestDirectory::new();
    place.file("app.lua", "return function(");
    for mode in ["check", "serve"] {
        place.run(&[mode, "app.lua", "--listen", "x.sock"]).fails(1, &["app.lua:1:"]);
    }
    assert!(!place.0.join("x.sock").exists());
}

#[test]
fn a_script_answers() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    let _server = place.serve(&["app.lua"]);
    let text = place.get("/");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nhello from Lua"), "{text}\n{}", place.log());
}

#[test]
fn hup_loads_the_script_anew_unless_it_is_broken() {
    let place = TestDirectory::new();
    let app = |text: &str| place.file("app.lua", &format!("return function() return 200, {{}}, '{text}' end"));
    app("first");
    let server = place.serve(&["app.lua", "--sweep", "0"]);
    assert!(place.get("/").ends_with("first"));
    let hang_up = || {
        let status = Command::new("kill").args(["-s", "HUP", &server.0.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    };
    let wait_for = |has_come: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        while !has_come(&place.log()) {
            assert!(start.elapsed() < PATIENCE, "it has not come: {}", place.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for (broken, why) in [("return function(", "Syntax Error"), ("return require('no_such_module')", "no_such_module.lua")] {
        let before = place.log().matches("the current workers stay: ").count();
        place.file("app.lua", broken);
        hang_up();
        wait_for(&|log| log.matches("the current workers stay: ").count() > before && log.contains(why));
        assert!(place.get("/").ends_with("first"));
    }
    app("second");
    hang_up();
    wait_for(&|log| log.contains("all workers have been replaced"));
    assert!(place.get("/").ends_with("second"), "{}", place.log());
}

#[test]
fn the_examples_answer() {
    let examples = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    for (example, target, part) in [
        ("hello.lua", "/", "Hello from Oribi"),
        ("showcase.lua", "/", "you have been here 1 times"),
        ("showcase.lua", "/request?a=1&a=2", "\"all\":{\"a\":[\"1\",\"2\"]}"),
        ("showcase.lua", "/stream", "line 1000\n"),
        ("showcase.lua", "/error", "this page is broken"),
        ("wsapi.lua", "/a/b", "/a/b\n"),
        ("dumpenv.lua", "/?a=%3Cb%3E", "<tr><th>a<td>&lt;b&gt;\n"),
    ] {
        let place = TestDirectory::new();
        let path = examples.join(example);
        let _server = place.serve(&[path.to_str().expect("UTF-8"), "-E", "development"]);
        let text = place.get(target);
        assert!(text.contains(part), "{example} {target}: {text}\n{}", place.log());
    }
}

#[test]
fn hooks_of_a_file_guard_and_change_answers() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    place.file(
        "hooks.lua",
        "return {
            request = function(request) if request.path == '/closed' then return 403, {}, 'closed' end end,
            response = function(request, status, fields, body)
                fields['X-Seen'] = request.path
                return status, fields, body .. ', twice'
            end,
            startup = function() print('a worker starts', 1) end,
        }",
    );
    let _server = place.serve(&["app.lua", "--hooks", "hooks.lua"]);
    let text = place.get("/open");
    assert!(text.contains("\r\nX-Seen: /open\r\n") && text.ends_with("\r\n\r\nhello from Lua, twice"), "{text}");
    assert!(place.log().contains("hooks: a worker starts\\t1"), "{}", place.log());
    let text = place.get("/closed");
    assert!(text.starts_with("HTTP/1.1 403 ") && text.ends_with("\r\n\r\nclosed, twice"), "{text}");
    place.run(&["app.lua", "--hooks", "none.lua"]).fails(1, &["none.lua: cannot read it"]);
}

#[test]
fn hooks_that_never_end_are_stopped_as_scripts_are() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    place.file(
        "hooks.lua",
        "local rounds = 0
        return {
            startup = function() while true do pcall(function() while true do end end) end end,
            housekeeping = function()
                rounds = rounds + 1
                print('round ' .. rounds)
                repeat until false
            end,
            shutdown = function() repeat until false end,
        }",
    );
    let mut server = place.serve(&["app.lua", "--hooks", "hooks.lua", "--time-limit", "100ms", "--sweep", "50ms"]);
    assert!(place.get("/").ends_with("hello from Lua"));
    place.wait_for_log("the hook startup: ");
    place.wait_for_log("hooks: round 3");
    assert!(place.log().contains("has run for longer than it may"), "{}", place.log());
    assert!(place.get("/").ends_with("hello from Lua"));
    server.terminate();
    assert!(server.0.wait().expect("it ends").success(), "{}", place.log());
    assert!(place.log().contains("the hook shutdown: "), "{}", place.log());
}

/// The watchdog stops a script at its next Lua instruction, so it cannot stop C code.
#[test]
fn a_pattern_that_never_ends_costs_its_worker_and_no_request_of_another_thread() {
    let place = TestDirectory::new();
    place.file(
        "app.lua",
        "local oribi = require 'oribi'
        return function(request)
            if request.path == '/pattern' then return tostring(('a'):rep(60):find(('a-'):rep(20) .. 'b')) end
            if request.path == '/slow' then
                repeat os.execute('sleep 0.02') until io.open(oribi.directory .. '/go')
            end
            return 'fine'
        end",
    );
    let timeout = Duration::from_secs(2);
    let _server = place.serve(&["app.lua", "--threads", "2", "--request-kill", "2"]);
    let mut others: Vec<UnixStream> = (0..8).map(|_| place.connect()).collect();
    for connection in &mut others {
        connection.write_all(request("/", "keep-alive").as_bytes()).expect("sent");
        let mut text = String::new();
        while !text.ends_with("fine") {
            let mut part = [0; 512];
            let count = connection.read(&mut part).expect("an answer");
            assert_ne!(count, 0, "{}", place.log());
            text.push_str(str::from_utf8(&part[..count]).expect("UTF-8"));
        }
    }
    let mut stuck = place.ask("/pattern");
    // If both were called at the same time, both would be stuck.
    std::thread::sleep(timeout / 2);
    let mut slow = place.ask("/slow");
    for connection in &mut others {
        connection.write_all(request("/", "close").as_bytes()).expect("sent");
    }
    let edge = std::env::var("ORIBI_EDGE").as_deref() != Ok("off");
    place.wait_for_log(if edge {
        "is stopped: its app does not react"
    } else {
        "is stopped: its app has done nothing for 2 s: GET /pattern"
    });
    place.file("go", "");
    let mut text = String::new();
    slow.read_to_string(&mut text).expect("an answer");
    assert!(text.ends_with("\r\n\r\nfine"), "{text}");
    text.clear();
    // Both ways of closing the connection mean that there is no response.
    let _ = stuck.read_to_string(&mut text);
    // An edge answers for a worker that has ended.
    assert!(if edge { text.starts_with("HTTP/1.1 502 ") } else { text.is_empty() }, "nothing comes of the pattern: {text}");
    for connection in &mut others {
        text.clear();
        let _ = connection.read_to_string(&mut text);
        assert!(text.is_empty() || text.ends_with("\r\n\r\nfine"), "a whole answer or none: {text}");
    }
    assert!(place.get("/").ends_with("\r\n\r\nfine"), "the next worker serves");
}

#[test]
fn paths_lead_to_scripts() {
    let place = TestDirectory::new();
    place.file("scripts/shop/index.lua", "return function() return 200, {}, 'the shop' end");
    place.file("scripts/hello.lua", HELLO);
    place.file("scripts/secret.txt", "secret");
    place.file("outside.lua", HELLO);
    for arguments in [&["scripts", "--document-root"][..], &["--document-root", "scripts/"]] {
        let plan = place.run(&[&["check"], arguments].concat());
        assert!(plan.planned("app").join(" ").starts_with("the scripts below scripts"), "{}", plan.out);
        let server = place.serve(arguments);
        for (target, status, end) in [
            ("/hello.lua", "200", "hello from Lua"),
            ("/hello.lua/more?x=1", "200", "hello from Lua"),
            ("/shop/", "200", "the shop"),
            ("/secret.txt", "404", "404 Not Found\n"),
            ("/../outside.lua", "404", "404 Not Found\n"),
            ("/nothing.lua", "404", "404 Not Found\n"),
        ] {
            let text = place.get(target);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.ends_with(end), "{target}: {text}");
            assert!(!text.contains("secret"), "{text}");
        }
        drop(server);
        let _ = fs::remove_file(place.0.join("x.sock"));
    }
}

#[test]
fn a_configuration_of_luafcgid_says_everything() {
    let place = TestDirectory::new();
    place.file("config.lua", "listen = '/run/lua.sock'; workers = 7; states = workers * 2; clones = states; sates = 1");
    let link = place.0.join("luafcgid");
    symlink(env!("CARGO_BIN_EXE_oribi"), &link).expect("linked");
    for plan in [
        place.run(&["check", "luafcgid", "config.lua"]),
        place.run(&["check", "luafcgid"]),
        place.run_as(link.to_str().expect("UTF-8"), &["check", "config.lua"]),
    ] {
        for (name, expected) in [
            ("listen", &["fcgi+unix:/run/lua.sock", "config.lua"][..]),
            ("threads", &["7", "config.lua"]),
            ("workers", &["1", "config.lua"]),
            ("states", &["14", "config.lua"]),
            ("clones", &["14", "config.lua"]),
            ("max-body-size", &["1MiB", "config.lua"]),
            ("show-errors", &["on", "config.lua"]),
        ] {
            assert_eq!(plan.planned(name), expected, "{}", plan.out);
        }
        assert!(plan.err.contains("config.lua: the name sates means nothing here"), "{}", plan.err);
        assert!(plan.out.contains("SCRIPT_FILENAME"), "{}", plan.out);
    }
    let plan = place.run(&["check", "luafcgid", "config.lua", "--states", "3", "--listen", ":7"]);
    assert_eq!((plan.planned("states"), plan.planned("clones")), (vec!["3", "command", "line"], vec!["3", "--states"]));
    assert_eq!(plan.planned("listen"), ["*:7", "command", "line"]);
    let plan = place.run(&["check", "luafcgid", "missing.lua"]);
    assert_eq!(plan.planned("listen")[0], "fcgi://*:9000");
    assert!(plan.err.contains("missing.lua: cannot read it: No such file"), "{}", plan.err);
}

#[test]
fn threads_have_states_unless_the_operator_wants_fewer() {
    let place = TestDirectory::new();
    place.file("app.lua", HELLO);
    let plan = place.run(&["check", "--threads", "6"]);
    assert_eq!((plan.planned("states"), plan.planned("clones")), (vec!["6", "--threads"], vec!["6", "--threads"]));
    assert_eq!(plan.err, "");
    let plan = place.run(&["check", "--threads", "6", "--clones", "3"]);
    assert_eq!((plan.planned("states"), plan.planned("clones")), (vec!["6", "--threads"], vec!["3", "command", "line"]));
    assert!(plan.err.contains("6 threads, but a script has at most 3 states"), "{}", plan.err);
    // All six answer at once: each waits until the others have started.
    place.file(
        "meet.lua",
        "return function()
        local path = require('oribi').directory .. '/here'
        local file = io.open(path, 'a') file:write('x') file:close()
        local start = os.time()
        while io.open(path):seek('end') < 6 do if os.time() - start > 50 then return 503, 'alone' end end
        return 'met'
    end",
    );
    let _server = place.serve(&["meet.lua", "--threads", "6", "--retries", "0"]);
    let clients: Vec<UnixStream> = (0..6).map(|_| place.ask("/")).collect();
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("met"), "{answer}");
    }
}

#[test]
fn a_worker_that_ends_in_good_order_leaves_nothing_unwritten() {
    let place = TestDirectory::new();
    place.file(
        "app.lua",
        "local directory = require('oribi').directory
        kept = assert(io.open(directory .. '/kept', 'w'))
        local function at_end() local file = io.open(directory .. '/finalized', 'w') file:write('by the script') file:close() end
        if newproxy then finalizer = newproxy(true) getmetatable(finalizer).__gc = at_end
        else finalizer = setmetatable({}, { __gc = at_end }) end
        io.write('loaded ')
        return function() kept:write('buffered') io.write('answered') return 'x' end",
    );
    place.file(
        "hooks.lua",
        "local file
        return { startup = function() file = assert(io.open('hooked', 'w')) file:write('by a hook') kept_file = file end }",
    );
    let output = fs::File::create(place.0.join("output")).expect("a file");
    let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
    let arguments = ["app.lua", "--hooks", "hooks.lua", "--listen", "x.sock", "--workers", "1", "--error-log", "log"];
    let mut server = lua_directory::Server(command.args(arguments).stdout(output).spawn().expect("oribi runs"));
    assert!(place.get("/").ends_with('x'));
    server.terminate();
    assert!(server.0.wait().expect("it ends").success());
    let read = |name: &str| fs::read_to_string(place.0.join(name)).unwrap_or_default();
    assert_eq!((&*read("kept"), &*read("finalized"), &*read("hooked")), ("buffered", "by the script", "by a hook"));
    // Once by the check, and once in the worker.
    assert_eq!(read("output"), "loaded loaded answered");
}

#[test]
fn memory_for_large_content_is_the_states_and_goes_with_it() {
    let place = TestDirectory::new();
    place.file("app.lua", "return function(request) return tostring(#request:read('a')) end");
    let _server = place.serve(&["app.lua", "--state-memory", "16m", "--max-body-size", "100m", "-E", "development"]);
    let mut answers = Vec::new();
    for size in [6 << 20, 60 << 20, 6 << 20] {
        let mut connection = place.connect();
        write!(connection, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n").expect("sent");
        connection.write_all(&vec![b'x'; size]).expect("sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        answers.push(answer);
    }
    assert!(answers[0].ends_with("\r\n6291456") && answers[2].ends_with("\r\n6291456"), "{answers:?}");
    assert!(answers[1].starts_with("HTTP/1.1 500 ") && answers[1].contains("not enough memory"), "{answers:?}");
    let worker = lua_directory::leaf(_server.0.id());
    let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("the worker");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a line");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    assert!(kilobytes < 40 << 10, "{kilobytes} KiB");
}
