//! Starts the server with everything unusual that it can inherit from its parent: ignored or blocked signals, low limits,
//! closed descriptors, and unusual masks, environments and directories. The server must answer, or end with a message that
//! names the cause.

use crate::client::{Target, get_from};
use crate::server::{Folder, Server, wait_for};
use crate::site::{Edge, Language, Plan, program};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

crate::in_shape!(
    perl,
    Perl,
    Edge::On,
    limits_and_signals,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);
crate::in_shape!(
    ruby,
    Ruby,
    Edge::On,
    limits_and_signals,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);
crate::in_shape!(
    lua,
    Lua,
    Edge::On,
    limits_and_signals,
    each_signal,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);
crate::in_shape!(
    perl_alone,
    Perl,
    Edge::Off,
    limits_and_signals,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);
crate::in_shape!(
    ruby_alone,
    Ruby,
    Edge::Off,
    limits_and_signals,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);
crate::in_shape!(
    lua_alone,
    Lua,
    Edge::Off,
    limits_and_signals,
    each_signal,
    a_request_is_interrupted_whatever_was_blocked,
    files_at_their_limit_end_no_process
);

/// A way to start the server. `script` has the commands of a shell. If the server cannot serve like this, the log must name the
/// cause; otherwise the cause is empty.
struct Row {
    /// The commands. `$FOLDER` is a folder of the test, and `"$@"` executes the server.
    script: &'static str,
    cause: &'static [&'static str],
}

const fn serves(script: &'static str) -> Row {
    Row { script, cause: &[] }
}

const fn may_fail(script: &'static str, cause: &'static [&'static str]) -> Row {
    Row { script, cause }
}

const ROWS: [Row; 41] = [
    serves("exec env --ignore-signal -- \"$@\""),
    serves("exec env --block-signal -- \"$@\""),
    serves("exec env --ignore-signal --block-signal -- \"$@\""),
    may_fail("ulimit -n 16; exec \"$@\"", &["ulimit -n", "ulimit -Hn", "open files"]),
    may_fail("ulimit -n 64; exec \"$@\"", &["ulimit -n", "ulimit -Hn", "open files"]),
    serves("ulimit -n 1024; exec \"$@\""),
    serves("ulimit -Sn 64; exec \"$@\""),
    may_fail("exec 2> >(cat >&2); ulimit -f 0; exec \"$@\"", &["ulimit -f"]),
    may_fail("exec 2> >(cat >&2); ulimit -f 100; exec \"$@\"", &["ulimit -f"]),
    may_fail("exec 2> >(cat >&2); ulimit -f 1000000; exec \"$@\"", &["ulimit -f"]),
    serves("ulimit -Sf 100; exec \"$@\""),
    may_fail("ulimit -v 100000; exec \"$@\"", &["ulimit -v", "memory"]),
    may_fail("ulimit -v 1000000; exec \"$@\"", &["ulimit -v", "memory"]),
    serves("ulimit -v 16000000; exec \"$@\""),
    may_fail("ulimit -u 1; exec \"$@\"", &["ulimit -u"]),
    serves("ulimit -c 0; exec \"$@\""),
    serves("ulimit -l 0; exec \"$@\""),
    serves("ulimit -s 256; exec \"$@\""),
    serves("ulimit -s 1024; exec \"$@\""),
    serves("ulimit -s unlimited; exec \"$@\""),
    serves("ulimit -q 0; exec \"$@\""),
    may_fail("ulimit -i 0; exec \"$@\"", &["ulimit -i"]),
    serves("ulimit -x 0; exec \"$@\""),
    serves("ulimit -e 0; exec \"$@\""),
    serves("ulimit -r 0; exec \"$@\""),
    serves("ulimit -m 1000; exec \"$@\""),
    may_fail("ulimit -d 20000; exec \"$@\"", &["ulimit -d", "memory"]),
    serves("exec \"$@\" 0<&-"),
    serves("exec \"$@\" 1>&-"),
    serves("exec \"$@\" 2>&-"),
    serves("exec \"$@\" 0<&- 1>&- 2>&-"),
    serves("umask 0777; exec \"$@\""),
    serves("umask 0; exec \"$@\""),
    serves("exec nice -n 5 \"$@\""),
    serves("unset HOME; exec \"$@\""),
    serves("unset PATH; exec \"$@\""),
    serves("exec env -i ORIBI_TEST_FOLDER=\"$ORIBI_TEST_FOLDER\" \"$@\""),
    serves("PORT=3 HOST=x86_64-conda-linux-gnu exec \"$@\""),
    serves("mkdir -m 0555 \"$FOLDER/d\" && cd \"$FOLDER/d\" && exec \"$@\""),
    serves("mkdir \"$FOLDER/d\" && cd \"$FOLDER/d\" && rmdir \"$FOLDER/d\" && exec \"$@\""),
    serves("cd / && PWD=/nowhere exec \"$@\""),
];

fn limits_and_signals(language: Language, edge: Edge) {
    let wrong: Vec<String> = ROWS.iter().filter_map(|row| start(language, edge, row)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tests all signals that have names, except those that cannot be ignored.
fn each_signal(language: Language, edge: Edge) {
    let mut wrong = Vec::new();
    for number in (1..=31).filter(|number| ![9, 19].contains(number)) {
        for how in ["ignore", "block"] {
            let script = format!("exec env --{how}-signal={number} -- \"$@\"");
            wrong.extend(start(language, edge, &Row { script: script.leak(), cause: &[] }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a `bash` that runs `script`, which executes the server, and a folder for the test.
fn shell(script: &str) -> (Command, Folder) {
    let folder = Folder::new();
    let mut command = Command::new("/bin/bash");
    command.args(["-c", script, "bash"]).arg(program()).env("FOLDER", &folder.0);
    (command, folder)
}

/// Starts the server, waits for an answer and stops the server. Returns the fault, if there is one.
fn start(language: Language, edge: Edge, row: &Row) -> Option<String> {
    let (command, folder) = shell(row.script);
    let path = folder.file("socket");
    let listen = format!("unix:{}?mode=666", path.display());
    let (_own, mut server) = Plan::below(command, language, edge, &["--listen", &listen]).run();
    let target = Target::Unix(path);
    let is_served = wait_for(row.script, || {
        let answer = get_from(&target, "/fast?1").is_ok_and(|answer| answer.text.ends_with("fast 1\n"));
        if answer { Some(true) } else { server.exit_status().map(|_| false) }
    });
    let wrong = |server: &Server, why: &str| Some(format!("{}: {why}:\n{}", row.script, server.log()));
    if is_served {
        server.signal(Signal::TERM);
        return match server.wait() {
            0 => None,
            status => wrong(&server, &format!("it stopped with status {status}")),
        };
    }
    // Its log may pass through another program.
    let says = || row.cause.iter().any(|cause| server.log().contains(cause));
    let end = Instant::now() + Duration::from_secs(5);
    while !says() && !row.cause.is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    if says() { None } else { wrong(&server, "it ended") }
}

fn a_request_is_interrupted_whatever_was_blocked(language: Language, edge: Edge) {
    let (command, _folder) = shell("exec env --block-signal -- \"$@\"");
    let site = Plan::below(command, language, edge, &["--request-timeout", "200ms"]).start();
    let answer = get_from(&site.target(), "/nap?100").expect("an answer");
    assert!(answer.text.starts_with("HTTP/1.1 5"), "{}", answer.text);
    site.stop();
}

/// Returns an app whose response has 300,000 bytes. A worker can keep only as many of these as the pool has room for.
fn large(language: Language) -> &'static str {
    match language {
        Language::Perl => "sub { [200, ['Content-Type' => 'text/plain'], ['x' x 300_000]] };\n",
        Language::Ruby => "run ->(_env) { [200, { 'content-type' => 'text/plain' }, ['x' * 300_000]] }\n",
        Language::Lua => "return function() return 200, { ['Content-Type'] = 'text/plain' }, string.rep('x', 300000) end\n",
    }
}

fn files_at_their_limit_end_no_process(language: Language, edge: Edge) {
    let folder = Folder::new();
    let file = folder.file(language.file());
    std::fs::write(&file, large(language)).expect("the folder is ours");
    let log = folder.file("access");
    let arguments = ["--access-log", log.to_str().expect("it is plain"), "--max-body-size", "10m"];
    let site = Plan::of_app(Command::new(program()), language, folder, &file, edge, &arguments).start_and_look("/");
    let processes = site.processes();
    let limit = Rlimit { current: Some(64 << 10), maximum: None };
    for process in processes.iter().chain([&site.server.pid()]) {
        let pid = i32::try_from(*process).ok().and_then(Pid::from_raw);
        prlimit(pid, Resource::Fsize, limit).expect("it is a process of ours");
    }
    for _ in 0..30 {
        // Either outcome is an answer; the test checks the processes that exist after it.
        let answer = get_from(&site.target(), &format!("/{}", "a".repeat(5000)));
        assert!(answer.is_ok_and(|answer| answer.text.starts_with("HTTP/1.1 ")));
    }
    assert!(std::fs::metadata(&log).expect("it is there").len() <= 64 << 10);
    let mut client = TcpStream::connect(site.address).expect("it listens");
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n")
        .expect("it reads");
    // It may have refused the request by then.
    let _ = client.write_all(&[b'x'; 1_000_000]);
    let mut bytes = [0; 12];
    if client.read_exact(&mut bytes).is_ok() {
        assert!(bytes.starts_with(b"HTTP/1.1 "), "{bytes:?}");
    }
    assert!(get_from(&site.target(), "/").is_ok());
    assert_eq!(site.processes(), processes, "nobody has ended");
    site.stop();
}
