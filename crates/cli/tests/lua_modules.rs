//! Lua modules written in C from the system's packages, in the Lua that is built into `oribi`.

#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;

use lua_directory::TestDirectory;
use std::collections::HashSet;
use std::fs;
use std::process::Command;

/// The headers that modules for this Lua are compiled against.
const HEADERS: (&str, &[&str]) = if cfg!(feature = "luajit") {
    ("/usr/include/luajit-2.1", &["lua.h", "lauxlib.h", "lualib.h", "luajit.h"])
} else {
    ("/usr/include/lua5.4", &["lua.h", "lauxlib.h", "lualib.h"])
};

/// The names of the functions that a header declares: `LUA_API int (lua_gettop) (lua_State *L);`.
fn declared(header: &str) -> Vec<String> {
    let mut names = Vec::new();
    for declaration in header.split(';') {
        // The macro may be preceded by another one.
        let Some(at) = ["LUA_API", "LUALIB_API", "LUAMOD_API"].iter().filter_map(|mark| declaration.rfind(mark)).max() else {
            continue;
        };
        if declaration[at..].contains('\\') || !declaration.contains('(') {
            continue;
        }
        let words = declaration[at..].split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let types =
            ["lua_State", "lua_Number", "lua_Integer", "lua_Unsigned", "lua_CFunction", "lua_Alloc", "lua_Hook", "lua_Reader"];
        names.extend(words.filter(|word| word.starts_with("lua") && !types.contains(word)).take(1).map(str::to_owned));
    }
    names
}

#[test]
fn every_function_of_luas_headers_is_exported() {
    let program = env!("CARGO_BIN_EXE_oribi");
    let output = Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix", program]).output().expect("nm runs");
    let symbols = String::from_utf8(output.stdout).expect("names");
    let exported: HashSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let (directory, headers) = HEADERS;
    let mut count = 0;
    for header in headers {
        let text = fs::read_to_string(format!("{directory}/{header}")).expect("the header");
        for name in declared(&text) {
            // LuaJIT declares this function but has never defined it.
            let missing = cfg!(feature = "luajit") && name == "lua_setlevel";
            assert!(exported.contains(&*name) != missing, "{header}: {name} is not exported");
            count += 1;
        }
    }
    // Lua 5.1 has 116 functions in these headers, without those of LuaJIT.
    assert!(count >= 110, "{count}");
}

/// The answer of a script in Oribi's own style.
fn answer(script: &str) -> String {
    let place = TestDirectory::new();
    place.file("app.lua", script);
    let _server = place.serve(&["app.lua", "-E", "development"]);
    place.get("/")
}

#[track_caller]
fn answers(script: &str, expected: &str) {
    let answer = answer(script);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
}

#[test]
fn cjson_reads_and_writes() {
    answers(
        "local json = require 'cjson'
        return function()
            local value = json.decode('{\"a\":[1,2,{\"b\":null}]}')
            local ok, message = pcall(json.decode, '{')
            return json.encode({ value.a[2], value.a[3].b == json.null, ok, message:match('^Expected') })
        end",
        "[2,true,false,\"Expected\"]",
    );
}

#[test]
fn lpeg_matches_and_calls_back() {
    answers(
        "local lpeg = require 'lpeg'
        local number = lpeg.R('09')^1 / tonumber
        local sum = lpeg.Cf(number * (lpeg.P('+') * number)^0, function(a, b) return a + b end)
        return function()
            local ok, message = pcall(lpeg.match, lpeg.P(1) / function() error('inside', 0) end, 'x')
            return ('%d %s %s'):format(sum:match('1+20+300'), ok, message)
        end",
        "321 false inside",
    );
}

#[test]
fn luasql_keeps_a_database() {
    answers(
        "local database = require('luasql.sqlite3').sqlite3():connect(':memory:')
        assert(database:execute('create table visit (name text)'))
        return function()
            for _, name in ipairs { 'Ada', 'Grace' } do
                assert(database:execute((\"insert into visit values ('%s')\"):format(database:escape(name))))
            end
            local cursor, names = database:execute('select name from visit order by name desc'), {}
            for row in function() return cursor:fetch({}, 'a') end do names[#names + 1] = row.name end
            return table.concat(names, ' ')
        end",
        "Grace Ada",
    );
}

#[test]
fn lfs_looks_at_files() {
    answers(
        "local lfs = require 'lfs'
        return function()
            local here = require('oribi').directory
            local names = {}
            for name in lfs.dir(here) do if name:match('%.lua$') then names[#names + 1] = name end end
            return lfs.attributes(here .. '/app.lua', 'mode') .. ' ' .. table.concat(names, ' ')
        end",
        "file app.lua",
    );
}

#[test]
fn sockets_ask_another_server() {
    answers(
        "local socket, mime = require 'socket', require 'mime'
        return function()
            local server = assert(socket.bind('127.0.0.1', 0))
            local host, port = server:getsockname()
            local client = assert(socket.connect(host, port))
            local other = server:accept()
            client:send('ping\\n')
            local line = other:receive()
            client:close() other:close() server:close()
            return line .. ' ' .. mime.b64('abc')
        end",
        "ping YWJj",
    );
}

#[test]
fn modules_in_lua_are_found_where_packages_put_them() {
    // `socket.url` is a file of the package lua-socket.
    answers("local url = require 'socket.url' return function() return url.parse('http://a.example/b').host end", "a.example");
}

#[test]
fn the_environment_says_where_modules_are() {
    let place = TestDirectory::new();
    place.file("app.lua", "return function() return package.path .. '\\n' .. package.cpath end");
    let paths = |path: &str, cpath: &str| {
        let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
        command.env("LUA_PATH", path).env("LUA_CPATH", cpath);
        let _server = place.serve_as(command, &["app.lua"]);
        let answer = place.get("/");
        fs::remove_file(place.0.join("x.sock")).expect("the socket");
        answer.split("\r\n\r\n").nth(1).expect("a body").to_owned()
    };
    let bounded = paths("/first/?.lua", "/first/?.so");
    assert!(bounded.contains("/first/?.lua") && bounded.ends_with(";/first/?.so") && !bounded.contains("/usr/"), "{bounded}");
    let more = paths("/first/?.lua;;", ";;/last/?.so");
    assert!(more.contains(";/first/?.lua;") && more.contains(";/usr/share/lua/"), "{more}");
    assert!(more.ends_with(";/last/?.so") && more.contains("-linux-gnu/lua/"), "{more}");
}
