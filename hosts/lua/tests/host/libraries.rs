//! Lua's libraries, as scripts see them.

use crate::harness::{Site, logged};
use oribi_lua::script_path::ScriptSource;
use std::path::Path;

#[test]
fn modules_beside_the_script_are_found_and_the_directory_stays() {
    let before = std::env::current_dir().expect("a directory");
    let files = [
        ("app.lua", "local part = require 'part' return function() return part.text .. dofile(part.file) end"),
        ("part.lua", "return { text = 'found ', file = package.searchpath('data', package.path) }"),
        ("data.lua", "return 'data'"),
    ];
    let site = Site::with_files(&files, |directory| ScriptSource::One(directory.join("app.lua")), |_| {});
    assert_eq!(site.text(), "found data");
    assert_eq!(std::env::current_dir().expect("a directory"), before);
}

#[test]
fn included_directories_come_behind_the_scripts_own() {
    let more = tempfile::tempdir().expect("a directory");
    std::fs::write(more.path().join("extra.lua"), "return 'extra'").expect("written");
    let site = Site::with("return function() return require 'extra' end", |settings| {
        settings.include.push(more.path().to_owned());
        settings.package_path = Some("/nowhere/?.lua".to_owned());
    });
    assert_eq!(site.text(), "extra");
}

#[test]
fn a_broken_module_says_where() {
    let files = [("app.lua", "require 'part'"), ("part.lua", "return return")];
    let source = |directory: &Path| ScriptSource::DocumentRoot { root: directory.to_owned(), index: "app.lua".to_owned() };
    let site = Site::with_files(&files, source, |_| {});
    assert_eq!(site.get("/").status, 500);
    assert!(logged("part.lua:1:"));
    let absent = Site::on_demand("require 'no_such_module'", |_| {});
    assert_eq!(absent.get("/").status, 500);
    assert!(logged("no_such_module.lua"));
}

#[test]
fn print_speaks_to_the_log() {
    let site = Site::new(
        "print() print('one', 2, nil, setmetatable({}, { __tostring = function() return 'three' end })) return function() print('now') return '' end",
    );
    site.text();
    let log = crate::harness::take_log();
    assert!(log.iter().any(|line| line.ends_with("app.lua: one\t2\tnil\tthree")), "{log:?}");
    assert!(log.iter().any(|line| line.ends_with("app.lua: now")), "{log:?}");
}

#[test]
fn globals_last_from_request_to_request() {
    let site = Site::new("count = 0 return function() count = count + 1 return tostring(count) end");
    assert_eq!((site.text(), site.text(), site.text()), ("1".to_owned(), "2".to_owned(), "3".to_owned()));
}

#[test]
fn the_modules_of_the_server_are_there() {
    let script =
        "local luafcgid, oribi = require 'luafcgid', require 'oribi' return function() return luafcgid.urlencode('a b') end";
    assert!(!Site::new(script).text().is_empty());
}

#[test]
fn coroutines_keep_their_manners() {
    let script = "return function()
        local out = {}
        local function put(...) for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end end
        local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) error({ c }) end)
        put(coroutine.resume(co, 1, 2))
        local ok, object = coroutine.resume(co, 'c')
        put(ok, object[1], coroutine.status(co), (coroutine.resume(co)))
        local wrapped = coroutine.wrap(function(...) put(...) put(coroutine.yield(1, nil, 3)) return 'end' end)
        put(wrapped('x', nil))
        put(wrapped('y'))
        put(pcall(wrapped))
        put(pcall(coroutine.resume, 'none'))
        put(pcall(coroutine.wrap(function() error('inside', 0) end)))
        return table.concat(out, ' ')
    end";
    let text = Site::new(script).text();
    assert!(text.starts_with("true 3 false c dead false x nil 1 nil 3 y end false "), "{text}");
    assert!(text.contains("dead coroutine") && text.contains("bad argument #1") && text.ends_with("false inside"), "{text}");
}

#[test]
fn a_script_knows_the_directory_it_is_in() {
    let files = [
        ("app.lua", "return function() return io.open(require('oribi').directory .. '/data.txt'):read('*a') end"),
        ("data.txt", "beside"),
    ];
    let site = Site::with_files(&files, |directory| ScriptSource::One(directory.join("app.lua")), |_| {});
    assert_eq!(site.text(), "beside");
}
