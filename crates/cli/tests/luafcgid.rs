//! Behaviour of luafcgid that its users rely on, and bugs of luafcgid that Oribi does not have: `oribi luafcgid config.lua`
//! over FastCGI.

mod fastcgi;

use fastcgi::{Answer, Connection};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time after which a test gives up, far longer than needed on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a configuration file and scripts, and a server for them.
struct Site {
    place: PathBuf,
    server: Option<Child>,
}

impl Site {
    /// A server with two threads; `configuration` is appended to its configuration file.
    fn new(configuration: &str) -> Self {
        let mut site = Self::prepare(configuration);
        site.start();
        site
    }

    fn prepare(configuration: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("oribi-luafcgid-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir_all(&place).expect("a directory");
        let site = Self { place, server: None };
        site.write("config.lua", &format!("listen = 'lua.sock'; workers = 2; states = 4\n{configuration}"));
        site
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.args(["luafcgid", "config.lua"]).current_dir(&self.place).stdin(Stdio::null()).stdout(Stdio::null());
        for variable in ["PORT", "HOST", "WEB_CONCURRENCY", "FCGI_WEB_SERVER_ADDRS"] {
            command.env_remove(variable);
        }
        command
    }

    fn start(&mut self) {
        self.server = Some(self.command().stderr(Stdio::null()).spawn().expect("oribi runs"));
        wait_for("the start", || UnixStream::connect(self.place.join("lua.sock")).ok());
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.place.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.place.join("lua.sock"))
    }

    /// Requests a script on a separate connection.
    fn get(&self, script: &str) -> Answer {
        self.connect().ask(&[("SCRIPT_FILENAME", script)], b"", false)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.join("luafcgid.log")).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        let id = self.server.as_ref().expect("a server").id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().expect("kill runs").success());
    }

    fn wait(&mut self) -> ExitStatus {
        let server = self.server.as_mut().expect("a server");
        wait_for("the end", || server.try_wait().expect("a child"))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn both_generations_of_scripts_run_unchanged() {
    let site = Site::new("");
    let first = site.write("first.lua", "s = \"Hello Word\"\n\nfunction handler()\n\treturn s\nend\n");
    let answer = site.get(&first);
    assert_eq!((answer.status(), answer.body()), ("200 OK", "Hello Word"));
    assert_eq!((answer.field("Content-Type"), answer.field("X-Powered-By")), (vec!["text/html"], vec!["Lua"]));
    let second = site.write(
        "second.lua",
        r#"
        local hits = 0
        function main(env, con)
            hits = hits + 1
            con:header("X-Hits", tostring(hits))
            con:header("X-Raw: yes")
            con:puts(env.SCRIPT_FILENAME)
            con:puts(" ")
            con:puts(env.QUERY_STRING .. " " .. env.LUAFCGID_VERSION .. " " .. env.FCGI_ROLE .. " " .. (con:gets() or "nothing"))
            con:puts(con:gets() == nil and " end" or " more")
        end
        "#,
    );
    let parameters =
        [("SCRIPT_FILENAME", &*second), ("QUERY_STRING", "a=1"), ("REQUEST_METHOD", "POST"), ("CONTENT_LENGTH", "5")];
    let hits = || {
        let answer = site.connect().ask(&parameters, b"posts", false);
        assert_eq!(answer.body(), format!("{second} a=1 1 RESPONDER posts end"), "{answer:?}");
        assert_eq!(answer.field("X-Raw"), ["yes"]);
        let [hits] = answer.field("X-Hits")[..] else { panic!("one field: {answer:?}") };
        hits.to_owned()
    };
    assert_eq!(hits(), "1");
    // The next client may connect before the state of the first one is free again; then a second state is created.
    wait_for("a state that is used again", || {
        let again = hits();
        assert!(again == "1" || again == "2", "{again}");
        (again == "2").then_some(())
    });
}

#[test]
fn a_request_without_a_script_is_answered() {
    let site = Site::new("");
    for parameters in [&[][..], &[("SCRIPT_FILENAME", "")], &[("SCRIPT_FILENAME", "relative\n")]] {
        let answer = site.connect().ask(parameters, b"", false);
        assert_eq!(answer.status(), "404 Not Found");
        assert!(!answer.body().is_empty());
    }
    let script = site.write("ok.lua", "function handler() return 'ok' end");
    assert_eq!(site.get(&script).body(), "ok");
}

#[test]
fn scripts_of_several_directories_do_not_meet() {
    let site = Site::new("");
    let app = "function handler() return require('name') .. '!' end";
    let scripts = ["a", "b"].map(|directory| {
        site.write(&format!("{directory}/name.lua"), &format!("return '{directory}'"));
        (directory, site.write(&format!("{directory}/app.lua"), app))
    });
    std::thread::scope(|scope| {
        for (directory, script) in scripts.iter().chain(&scripts) {
            let site = &site;
            scope.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(site.get(script).body(), format!("{directory}!"));
                }
            });
        }
    });
}

#[test]
fn idle_connections_that_are_kept_stop_nobody() {
    let site = Site::new("");
    let script = site.write("ok.lua", "function handler() return 'ok' end");
    let parameters = [("SCRIPT_FILENAME", &*script)];
    let mut kept: Vec<Connection> = (0..16).map(|_| site.connect()).collect();
    for connection in &mut kept {
        assert_eq!(connection.ask(&parameters, b"", true).body(), "ok");
    }
    assert_eq!(site.get(&script).body(), "ok");
    for connection in &mut kept {
        assert_eq!(connection.ask(&parameters, b"", true).body(), "ok");
    }
}

#[test]
fn term_ends_the_server() {
    let mut site = Site::new("");
    let script = site.write("ok.lua", "function handler() return 'ok' end");
    let mut kept = site.connect();
    assert_eq!(kept.ask(&[("SCRIPT_FILENAME", &*script)], b"", true).body(), "ok");
    site.signal("TERM");
    assert_eq!(site.wait().code(), Some(0));
}

#[test]
fn status_and_content_type_can_be_said() {
    let site = Site::new("httpstatus = '202 Accepted'; contenttype = 'text/plain'");
    let plain = site.write("plain.lua", "function main(env, con) con:puts('x') end");
    let answer = site.get(&plain);
    assert_eq!((answer.status(), answer.field("Content-Type")), ("202 Accepted", vec!["text/plain"]));
    let own = "function main(env, con) con:status(404); con:content_type('image/png'); con:puts('x') end";
    let answer = site.get(&site.write("own.lua", own));
    assert!(answer.status().starts_with("404"), "{answer:?}");
    assert_eq!((answer.field("Content-Type"), answer.field("Status").len()), (vec!["image/png"], 1));
}

#[test]
fn no_reply_is_empty_when_errors_are_hidden() {
    let site = Site::new("showerrors = false");
    for (name, text) in [
        ("runtime.lua", "function main() error('secret') end"),
        ("syntax.lua", "function main( secret"),
        ("top.lua", "error('secret')"),
        ("none.lua", "secret = 1"),
    ] {
        let answer = site.get(&site.write(name, text));
        assert!(answer.status().starts_with("500") && !answer.body().is_empty(), "{name}: {answer:?}");
        assert!(!answer.body().contains("secret") && !answer.body().contains(name), "{name}: {answer:?}");
    }
    assert!(site.log().contains("secret"));
}

#[test]
fn an_error_after_the_beginning_puts_nothing_into_the_body() {
    let site = Site::new("");
    let answer = site.get(&site.write("late.lua", "function main(_, con) con:puts('begun'); con:flush(); error('late') end"));
    assert_eq!((answer.status(), answer.body()), ("200 OK", "begun"));
    assert!(wait_for("the log", || site.log().contains("late").then_some(true)));
}

#[test]
fn what_is_logged_is_no_format() {
    let site = Site::new("");
    let answer = site.get(&site.write("log.lua", "function main(_, con) con:log('100%s %n %d%%') end"));
    // The text goes to the web server's log.
    assert!(answer.errors.contains("100%s %n %d%%"), "{answer:?}");
}

#[test]
fn pages_escape_what_comes_from_outside() {
    let site = Site::new("");
    let ask = |script: &str| {
        let answer = site.connect().ask(&[("SCRIPT_FILENAME", script), ("HTTP_ACCEPT", "text/html")], b"", false);
        assert!(answer.body().contains("</html>") && !answer.body().contains("<script"), "{answer:?}");
        answer
    };
    let missing = ask("/srv/<script>alert(1)</script>.lua");
    assert!(!missing.body().contains("/srv"), "{missing:?}");
    let broken = ask(&site.write("broken.lua", "function main() error('<script>alert(1)</script>') end"));
    assert!(broken.body().contains("Runtime Error") && broken.body().contains("&lt;script&gt;"), "{broken:?}");
}

#[test]
fn what_is_flushed_arrives_at_once() {
    let site = Site::new("");
    let script = r"function main(_, con)
        con:puts('first')
        con:flush()
        repeat local file = io.open(DIRECTORY .. '/go') until file
        con:puts('second')
    end";
    let script = format!("DIRECTORY = {:?}\n{script}", site.place.to_str().expect("UTF-8"));
    let script = site.write("stream.lua", &script);
    let mut connection = site.connect();
    connection.begin(&[("SCRIPT_FILENAME", &*script)], b"", false);
    let first = connection.read_until("first");
    assert!(!first.contains("second"));
    site.write("go", "");
    assert_eq!(connection.finish().body(), "firstsecond");
}

#[test]
fn a_script_cannot_end_the_server_or_keep_it() {
    let site = Site::new("watchdog = 1");
    let id = site.server.as_ref().expect("a server").id();
    for (name, text, statuses) in [
        ("exit.lua", "function main() os.exit(7) end", &[""][..]),
        ("caught.lua", "function main() pcall(os.exit, 7) end", &[""]),
        ("loop.lua", "function main() while true do end end", &["504"]),
        ("held.lua", "function main() while true do pcall(function() while true do end end) end end", &["504"]),
        // On a busy machine these scripts may reach the limit of time before that of memory.
        ("hog.lua", "function main() local text = 'x' while true do text = text .. text end end", &["500", "504"]),
        ("deep.lua", "function main() local function f() return 1 + f() end f() end", &["500", "504"]),
    ] {
        let answer = site.get(&site.write(name, text));
        assert!(statuses.iter().any(|status| answer.status().starts_with(status)), "{name}: {answer:?}");
        assert_eq!(site.get(&site.write("ok.lua", "function handler() return 'ok' end")).body(), "ok", "after {name}");
    }
    let log = site.log();
    assert!(!log.contains("ended with") && !log.contains("was killed"), "{log}");
    assert!(fs::metadata(format!("/proc/{id}")).is_ok());
}

#[test]
fn what_a_script_keeps_of_a_request_is_not_another_one() {
    let site = Site::new("states = 1; clones = 1; workers = 1");
    let script = "function main(_, con)
        if kept then con:puts(tostring(pcall(kept.puts, kept, 'from before'))) else con:puts('first') end
        kept = kept or con
    end";
    let script = site.write("keep.lua", script);
    assert_eq!(site.get(&script).body(), "first");
    assert_eq!(site.get(&script).body(), "false");
}

#[test]
fn errors_of_any_kind_leave_nothing_behind() {
    let site = Site::new("states = 1; clones = 1; workers = 1");
    let script = "count = (count or 0) + 1
        function handler(env) count = count + 1
            local kind = count % 5
            if kind == 0 then error() elseif kind == 1 then error({}) elseif kind == 2 then error(true)
            elseif kind == 3 then error(setmetatable({}, { __tostring = function() error('again') end })) end
            return tostring(count)
        end";
    let script = site.write("errors.lua", script);
    let missing = site.write("missing.lua", "x = 1");
    for _ in 0..40 {
        let answer = site.get(&script);
        assert!(answer.status().starts_with("500") || answer.status().starts_with("200"), "{answer:?}");
        let answer = site.get(&missing);
        assert!(answer.status().starts_with("500") && answer.body().contains("main"), "{answer:?}");
    }
}

#[test]
fn sizes_of_buffers_mean_nothing() {
    let site = Site::new("headersize = 0; bodysize = 0");
    let script = site.write("large.lua", "function main(_, con) for _ = 1, 100 do con:puts(('x'):rep(10000)) end end");
    assert_eq!(site.get(&script).body().len(), 1_000_000);
}

#[test]
fn a_server_that_cannot_listen_says_so_and_ends() {
    let site = Site::prepare("listen = '/nowhere/lua.sock'");
    let output = site.command().output().expect("oribi runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(site.log().contains("/nowhere/lua.sock"), "{}", site.log());
    let running = Site::new("");
    let second = running.command().output().expect("oribi runs");
    assert_eq!(second.status.code(), Some(1), "{}", running.log());
    assert_eq!(running.get(&running.write("ok.lua", "function handler() return 'ok' end")).body(), "ok");
}

#[test]
fn content_that_is_too_large_is_refused_and_not_cut() {
    let site = Site::new("maxpost = 1000");
    let script = site.write("post.lua", "function main(_, con) con:puts(tostring(#con:gets())) end");
    for (size, status) in [(1000, "200"), (1001, "413")] {
        let length = size.to_string();
        let parameters = [("SCRIPT_FILENAME", &*script), ("REQUEST_METHOD", "POST"), ("CONTENT_LENGTH", &*length)];
        let answer = site.connect().ask(&parameters, &vec![b'x'; size], false);
        assert!(answer.status().starts_with(status), "{answer:?}");
        assert!(status != "200" || answer.body() == "1000", "{answer:?}");
    }
}

#[test]
fn the_log_is_appended_to_and_opened_again() {
    let mut site = Site::prepare("");
    site.write("luafcgid.log", "from before\n");
    site.start();
    let script = site.write("log.lua", "function main() error('now') end");
    site.get(&script);
    wait_for("the log", || site.log().contains("now").then_some(()));
    assert!(site.log().starts_with("from before\n"));
    fs::rename(site.place.join("luafcgid.log"), site.place.join("old.log")).expect("renamed");
    site.signal("USR1");
    wait_for("the new log", || {
        site.get(&script);
        site.log().contains("now").then_some(())
    });
}

#[test]
fn a_script_can_ask_for_the_configuration() {
    let site = Site::new("maxcount = 100; my_database = 'shop'");
    let script = "function main(_, con)
        local function show(name) con:puts(tostring(con:config(name)) .. ' ') end
        show('my_database') show('workers') show('maxcount') show('buffering') show('nothing')
    end";
    assert_eq!(site.get(&site.write("config-app.lua", script)).body(), "shop 2 100 true nil ");
}

#[test]
fn a_script_that_many_ask_for_at_once_is_loaded_once() {
    let site = Site::new("workers = 8; states = 8; clones = 1");
    let script = "local start = os.clock() repeat until os.clock() > start + 0.05
        local file = assert(io.open(PLACE .. '/loads', 'a')) file:write('x') file:close()
        function handler() return 'ok' end";
    let place = site.place.to_str().expect("UTF-8");
    let script = site.write("slow.lua", &format!("PLACE = {place:?}\n{script}"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(site.get(&script).body(), "ok"));
        }
    });
    assert_eq!(fs::read_to_string(site.place.join("loads")).expect("loaded"), "x");
}

#[test]
fn a_change_is_noticed_within_the_second_and_a_broken_one_does_no_harm() {
    let site = Site::new("sweep = 10");
    let script = site.write("app.lua", "local word = require('word') function handler() return 'a' .. word end");
    site.write("word.lua", "return '1'");
    assert_eq!(site.get(&script).body(), "a1");
    site.write("word.lua", "return '2'");
    wait_for("the module", || (site.get(&script).body() == "a2").then_some(()));
    site.write("app.lua", "local word = require('word') function handler() return 'b' .. word end");
    wait_for("the script", || (site.get(&script).body() == "b2").then_some(()));
    site.write("app.lua", "function handler(");
    wait_for("the log", || site.log().contains("cannot be loaded").then_some(()));
    assert_eq!(site.get(&script).body(), "b2");
    site.write("app.lua", "function handler() return 'c' end");
    wait_for("the repair", || (site.get(&script).body() == "c").then_some(()));
}

#[test]
fn hooks_are_called_when_their_time_has_come() {
    let mut site = Site::prepare(
        r#"hooks = {
            load = function(script) loaded = script:match("[^/]+$") end,
            request = function(env, con)
                if env.QUERY_STRING == "closed" then con:status(403) return "no" end
                con:header("X-Request", loaded)
            end,
            response = function(env, con) if con then con:puts("!") end end,
            flush = function(con) con:puts("[flush]") end,
            startup = function() note("startup") end,
            shutdown = function() note("shutdown") end,
            housekeeping = function() swept = (swept or 0) + 1 if swept == 2 then note("swept twice") end end,
        }
        sweep = 20
        local directory = "DIRECTORY"
        function note(word)
            local file = assert(io.open(directory .. "/noted", "a"))
            file:write(word, "\n")
            file:close()
        end"#,
    );
    let configuration = fs::read_to_string(site.place.join("config.lua")).expect("read");
    site.write("config.lua", &configuration.replace("DIRECTORY", site.place.to_str().expect("UTF-8")));
    site.start();
    let script = site.write("app.lua", "function main(_, con) con:puts('body') con:flush() end");
    let answer = site.get(&script);
    assert_eq!((answer.body(), answer.field("X-Request")), ("body[flush]!", vec!["app.lua"]));
    let closed = site.connect().ask(&[("SCRIPT_FILENAME", &*script), ("QUERY_STRING", "closed")], b"", false);
    assert!(closed.status().starts_with("403"), "{closed:?}");
    let noted = || fs::read_to_string(site.place.join("noted")).unwrap_or_default();
    assert!(noted().starts_with("startup\n"));
    wait_for("housekeeping", || (noted() == "startup\nswept twice\n").then_some(()));
    site.signal("TERM");
    wait_for("the shutdown hook", || (noted() == "startup\nswept twice\nshutdown\n").then_some(()));
    assert_eq!(site.wait().code(), Some(0));
}

#[test]
fn a_hook_that_cannot_be_used_ends_the_start() {
    let site = Site::prepare("local key = 1; hooks = { request = function() return key end }");
    let output = site.command().output().expect("oribi runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("config.lua: the hook request uses the local variable key"), "{said}");
}

#[test]
fn the_server_goes_to_the_background_and_can_be_told_to_end() {
    let mut site = Site::prepare("daemonize = true");
    let here = site.place.to_str().expect("UTF-8").to_owned();
    let mut command = site.command();
    command.args(["--pid-file", "server.pid"]).stderr(Stdio::null());
    assert_eq!(command.status().expect("oribi runs").code(), Some(0));
    let id = wait_for("the start", || {
        let text = fs::read_to_string(site.place.join("server.pid")).ok()?;
        UnixStream::connect(site.place.join("lua.sock")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    assert_eq!(fs::read_link(format!("/proc/{id}/cwd")).expect("a process"), PathBuf::from("/"));
    for stream in [0, 1] {
        assert_eq!(fs::read_link(format!("/proc/{id}/fd/{stream}")).expect("a stream"), PathBuf::from("/dev/null"));
    }
    let script = site.write("ok.lua", "function handler() return 'ok' end");
    assert_eq!(site.get(&script).body(), "ok");
    assert!(Command::new("kill").arg(id.to_string()).status().expect("kill runs").success());
    wait_for("the end", || (!PathBuf::from(&here).join("lua.sock").exists()).then_some(()));
    site.server = None;
}
