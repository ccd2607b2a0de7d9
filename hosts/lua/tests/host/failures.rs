//! The results of a script's failure for clients and in the log.

use crate::harness::{Call, Ended, Site, logged, take_log};
use oribi_host::Runtime;
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaRuntime, LuaSettings};

const FAILS: &str = "return function() error('it is <b>broken</b>') end";

#[test]
fn a_failure_is_a_plain_500_and_never_an_empty_reply() {
    let response = Site::new(FAILS).get("/");
    assert_eq!((response.status, response.ended), (500, Ended::Whole));
    assert!(!response.body.is_empty() && !response.body.contains("broken"), "{}", response.body);
    let log = take_log();
    assert!(
        log.iter().any(|line| line.contains("Runtime Error") && line.contains("app.lua:1: it is <b>broken</b>")),
        "{log:?}"
    );
    assert!(log.iter().any(|line| line.contains("stack traceback")), "{log:?}");
}

#[test]
fn who_may_see_errors_sees_them_escaped() {
    let site = Site::with(FAILS, |settings| settings.show_errors = true);
    let browser = Call { fields: &[("Accept", "text/html,*/*")], ..Call::new("GET", "/") };
    let response = site.answer(&browser);
    assert!(response.body.contains("it is &lt;b&gt;broken&lt;/b&gt;") && !response.body.contains("<b>"), "{}", response.body);
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    let plain = site.get("/");
    assert_eq!(plain.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(plain.body.contains("it is <b>broken</b>"));
}

#[test]
fn error_objects_need_not_be_strings() {
    for (object, text) in [
        ("nil", "nil"),
        ("17", "17"),
        ("true", "true"),
        ("{}", "table: "),
        ("{ 404 }", "nil"),
        ("{ 'a', 'b' }", "table: "),
        ("print", "function: "),
        ("coroutine.create(print)", "thread: "),
        ("setmetatable({}, { __tostring = function() return 'told' end })", "told"),
        ("setmetatable({}, { __tostring = function() error('again') end })", ""),
        ("setmetatable({}, { __tostring = function() return {} end })", ""),
    ] {
        let site = Site::new(&format!("return function() error({object}) end"));
        for _ in 0..2 {
            let response = site.get("/");
            assert!(matches!(response.status, 404 | 500), "{object}");
            assert!(logged(text), "{object}");
        }
    }
}

#[test]
fn a_script_that_is_no_lua_says_where() {
    let site = Site::on_demand("return function( end", |_| {});
    assert_eq!(site.get("/").status, 500);
    let log = take_log();
    assert!(log.iter().any(|line| line.contains("Syntax Error") && line.contains("app.lua:1:")), "{log:?}");
    assert!(!log.iter().any(|line| line.contains("traceback")), "{log:?}");
}

#[test]
fn a_script_that_fails_while_it_is_loaded_says_so() {
    let site = Site::on_demand("error('not today')", |_| {});
    assert_eq!(site.get("/").status, 500);
    assert!(logged("not today"));
    let exits = Site::on_demand("os.exit()", |_| {});
    assert_eq!(exits.get("/").status, 500);
    assert!(logged("called os.exit while it was loaded"));
}

#[test]
fn a_worker_whose_only_script_cannot_be_loaded_has_no_host() {
    let site = Site::on_demand("return require('no_such_module')", |_| {});
    let settings = LuaSettings::new(ScriptSource::One(site.path("app.lua")));
    let runtime = LuaRuntime::new(settings).expect("the file is there");
    let why = runtime.open(false).err().expect("it cannot be loaded");
    assert!(why.contains("app.lua cannot be loaded: Runtime Error:") && why.contains("no_such_module"), "{why}");
    std::fs::write(site.path("app.lua"), "return function() return 'x' end").expect("written");
    runtime.open(false).expect("it has been mended");
    runtime.open(true).expect("another lane finds it loaded");
    let counters = runtime.counters();
    assert_eq!((counters[0].loads, counters[0].failures, counters[0].requests), (1, 1, 0));
}

#[test]
fn a_handler_can_fail_again_and_again() {
    let site =
        Site::new("count = 0 return function() count = count + 1 if count % 2 == 1 then error('odd') end return 'even' end");
    for _ in 0..200 {
        assert_eq!(site.get("/").status, 500);
        assert_eq!(site.text(), "even");
    }
}

#[test]
fn endless_recursion_is_an_error() {
    let site = Site::new(
        "local function f() return 1 + f() end return function(request) if request.query == 'ok' then return 'ok' end return f() end",
    );
    assert_eq!(site.get("/").status, 500);
    assert!(logged("stack overflow"));
    assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "ok");
}

#[test]
fn os_exit_before_an_answer_is_a_500_and_the_server_goes_on() {
    let site = Site::new("return function(request) if request.query == 'exit' then os.exit(0) end return 'here' end");
    assert_eq!(site.get("/?exit").status, 500);
    assert!(logged("called os.exit before it had answered"));
    assert_eq!(site.text(), "here");
    let handled = Site::new("return function() xpcall(os.exit, function() while true do end end) end");
    assert_eq!(handled.get("/").status, 500, "no message handler keeps it");
}

#[test]
fn to_exit_in_a_coroutine_ends_the_request_and_spoils_nothing() {
    for leave in [
        "coroutine.wrap(function() os.exit() end)()",
        "coroutine.resume(coroutine.create(function() os.exit() end))",
        "pcall(coroutine.wrap(function() pcall(os.exit) end))",
        "coroutine.wrap(function() coroutine.resume(coroutine.create(function() os.exit() end)) went_on = true end)()",
        "pcall(function() coroutine.resume(coroutine.create(function() pcall(os.exit) end)) end)",
    ] {
        let script = format!(
            "return function(request)
                if request.query == 'fail' then error('the real one', 0) end
                if request.query == 'went' then return tostring(went_on) end
                {leave}
                return 'went on'
            end"
        );
        let site = Site::new(&script);
        let response = site.get("/");
        assert_eq!((response.status, response.ended), (500, Ended::Whole), "{leave}");
        assert!(logged("called os.exit before it had answered"), "{leave}");
        assert_eq!(site.text_of(&Call::new("GET", "/?went")), "nil", "{leave}");
        assert_eq!(site.get("/?fail").status, 500);
        assert!(logged("the real one"), "{leave}");
    }
}
