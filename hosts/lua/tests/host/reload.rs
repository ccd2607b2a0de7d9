//! Scripts that change while they are served.

use crate::harness::{Site, logged, take_log};
use oribi_lua::LuaSettings;
use oribi_lua::script_path::ScriptSource;
use std::time::Duration;

/// Sweeps happen only when a test starts them.
fn still(settings: &mut LuaSettings) {
    settings.sweep = Duration::ZERO;
}

#[test]
fn a_changed_script_is_noticed_within_the_second() {
    let site = Site::with("return function() return 'one' end", still);
    assert_eq!(site.text(), "one");
    std::fs::write(site.path("app.lua"), "return function() return 'two' end").expect("written");
    site.runtime.sweep();
    assert_eq!(site.text(), "two");
    assert!(logged("is reloaded"));
}

#[test]
fn a_changed_module_counts_whenever_it_was_loaded() {
    let files = [
        (
            "app.lua",
            "local early = require 'early' return function() return early .. require 'late' .. dofile(directory .. 'data.lua') end",
        ),
        ("early.lua", "directory = package.searchpath('early', package.path):match('.*/') return 'a'"),
        ("late.lua", "return 'b'"),
        ("data.lua", "return 'c'"),
    ];
    let site = Site::with_files(&files, |directory| ScriptSource::One(directory.join("app.lua")), still);
    assert_eq!(site.text(), "abc");
    for (file, text, expected) in [
        ("late.lua", "return 'B'", "aBc"),
        ("data.lua", "return 'C'", "aBC"),
        ("early.lua", "directory = package.searchpath('early', package.path):match('.*/') return 'A'", "ABC"),
    ] {
        std::fs::write(site.path(file), text).expect("written");
        site.runtime.sweep();
        assert_eq!(site.text(), expected);
    }
}

#[test]
fn a_change_that_cannot_be_loaded_leaves_the_last_good_state_serving() {
    let site = Site::with("return function() return 'good' end", still);
    assert_eq!(site.text(), "good");
    std::fs::write(site.path("app.lua"), "return function( end").expect("written");
    site.runtime.sweep();
    assert!(logged("cannot be loaded, so the old version stays in use: Syntax Error"));
    assert_eq!(site.text(), "good");
    site.runtime.sweep();
    assert!(take_log().is_empty());
    std::fs::write(site.path("app.lua"), "return function() return 'better' end").expect("written");
    site.runtime.sweep();
    assert_eq!(site.text(), "better");
}

#[test]
fn a_script_that_could_not_be_loaded_is_tried_again() {
    let site = Site::on_demand("return function( end", still);
    assert_eq!(site.get("/").status, 500);
    std::fs::write(site.path("app.lua"), "return function() return 'mended' end").expect("written");
    assert_eq!(site.text(), "mended");
}

#[test]
fn a_state_answers_no_more_requests_than_it_may() {
    let site = Site::with("count = 0 return function() count = count + 1 return tostring(count) end", |settings| {
        settings.state_requests = Some(2);
    });
    let texts: Vec<_> = (0..5).map(|_| site.text()).collect();
    assert_eq!(texts, ["1", "2", "1", "2", "1"]);
    let counters = &site.runtime.counters()[0];
    assert_eq!((counters.requests, counters.loads, counters.states), (5, 3, 1));
}
