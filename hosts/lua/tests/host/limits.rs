//! The limits of a script: memory and time.

use crate::harness::{Call, Ended, Recorder, Site, logged};
use std::time::Duration;

/// The time limit of scripts. On a busy machine, the loading of one that ends may take some tens of milliseconds.
const LIMIT: Duration = Duration::from_millis(250);

/// Each of these scripts runs for ever, and resists being stopped.
const ENDLESS: &[&str] = &[
    "while true do end",
    "local x = 0 while true do x = x + 1 end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, debug.traceback) end",
    "while true do xpcall(error, function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local function h() while true do xpcall(error, h) end end h()",
    "local function f() return f() end f()",
    "local t = {} for i = 1, 1e18 do t[i % 10] = i end",
    "local s = setmetatable({}, { __index = function() while true do end end }) while true do pcall(function() return s.x end) end",
    "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
    "while true do coroutine.resume(coroutine.create(function() pcall(function() while true do end end) end)) end",
    "while true do local co = coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end) pcall(co) end",
    "repeat local text = tostring({}) until false",
    "return 200, {}, function() while true do end end",
    "local pieces = 0 return 200, {}, function() pieces = pieces + 1 if pieces > 1 then while true do end end return '' end",
];

#[test]
fn a_script_that_never_ends_is_ended_and_the_next_request_answered() {
    for body in ENDLESS {
        let script = format!("return function(request) if request.query == 'ok' then return 'fine' end {body} end");
        let site = Site::with(&script, |settings| settings.time_limit = Some(LIMIT));
        let response = site.get("/");
        assert_eq!((response.status, response.ended), (504, Ended::Whole), "{body}");
        assert!(logged("has run for longer than it may"), "{body}");
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "fine", "{body}");
    }
}

/// Where hooks are each coroutine's own, the watchdog must not access one that has been collected.
#[test]
fn a_coroutine_that_was_left_by_an_error_does_no_harm() {
    let script = "return function()
        while true do
            pcall(function()
                local function deep(n) local co = coroutine.create(function() end) coroutine.resume(co) return 1 + deep(n + 1) end
                deep(1)
            end)
            collectgarbage()
        end
    end";
    let site = Site::with(script, |settings| settings.time_limit = Some(LIMIT));
    assert_eq!(site.get("/").status, 504);
}

#[test]
fn the_state_of_a_script_that_was_ended_is_thrown_away() {
    let script =
        "count = 0 return function(request) count = count + 1 while request.query == 'stay' do end return tostring(count) end";
    let site = Site::with(script, |settings| settings.time_limit = Some(LIMIT));
    assert_eq!((site.text(), site.text()), ("1".to_owned(), "2".to_owned()));
    assert_eq!(site.get("/?stay").status, 504);
    assert_eq!(site.text(), "1");
}

#[test]
fn a_script_that_never_loads_is_ended() {
    let site = Site::on_demand("while true do end", |settings| settings.time_limit = Some(LIMIT));
    assert_eq!(site.get("/").status, 504);
    assert!(logged("has run for longer than it may"));
}

#[test]
fn an_answer_that_has_begun_is_cut() {
    let script = "function main(env, con) con:puts('begun') con:flush() while true do end end";
    let site = Site::with(script, |settings| settings.time_limit = Some(LIMIT));
    let response = site.get("/");
    assert_eq!((response.status, &*response.body, response.ended), (200, "begun", Ended::GivenUp));
}

#[test]
fn to_wait_for_a_slow_client_does_not_count() {
    let script =
        "return function() local left = 5 return 200, {}, function() left = left - 1 if left >= 0 then return 'x' end end end";
    let site = Site::with(script, |settings| settings.time_limit = Some(Duration::from_millis(40)));
    let outlet = Recorder::default();
    outlet.slowness.set(Duration::from_millis(60));
    site.answer_to(&Call::new("GET", "/"), &outlet);
    assert_eq!((outlet.response().body, outlet.response().ended), ("xxxxx".to_owned(), Ended::Whole));
}

#[test]
fn a_script_that_uses_more_memory_than_it_may_gets_an_error_and_a_new_state() {
    let script = "kept = kept or {}
        return function(request)
            if request.query == 'ok' then return tostring(#kept) end
            while true do kept[#kept + 1] = ('x'):rep(1000) .. #kept end
        end";
    let site = Site::with(script, |settings| settings.state_memory = Some(4 << 20));
    for _ in 0..3 {
        let response = site.get("/");
        assert_eq!((response.status, response.ended), (500, Ended::Whole));
        assert!(logged("Memory Error: not enough memory"));
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "0");
    }
}

#[test]
fn what_is_put_counts_as_memory() {
    let script = "function main(env, con) local text = ('x'):rep(100000) while true do con:puts(text) end end";
    let site = Site::with(script, |settings| settings.state_memory = Some(4 << 20));
    assert_eq!(site.get("/").status, 500);
    assert!(logged("more is put than a state may use"));
}

#[test]
fn a_limit_that_is_too_low_for_anything_is_an_error() {
    for limit in [1, 100 << 10, 250 << 10, 300 << 10] {
        let site = Site::on_demand("return function() return 'x' end", |settings| settings.state_memory = Some(limit));
        let response = site.get("/");
        assert!(matches!(response.status, 200 | 500), "{}", response.status);
        assert_eq!(response.ended, Ended::Whole);
    }
}
