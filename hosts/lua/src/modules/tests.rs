use super::install;
use mlua::Lua;

/// Runs a script that asserts, in a state with the modules.
fn run(script: &str) {
    let lua = Lua::new();
    install(&lua, "test").expect("installed");
    lua.load(script).exec().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn modules_are_made_once_and_only_when_asked_for() {
    run(r#"
        assert(package.loaded.oribi == nil and package.loaded.luafcgid == nil)
        local oribi = require "oribi"
        assert(oribi == require "oribi" and oribi.version:match("^%d+%.%d+"))
        assert(oribi.environment == "test")
        assert(package.loaded.luafcgid == nil)
        assert(require("luafcgid").serialize)
    "#);
}

#[test]
fn what_is_serialized_can_be_loaded() {
    run(r#"
        local serialize = require("luafcgid").serialize
        local load = loadstring or load
        local function copy(value) return assert(load("return " .. serialize(value)))() end
        local function same(left, right)
            if type(left) ~= "table" or type(right) ~= "table" then
                return left == right or (left ~= left and right ~= right)
            end
            for key, value in pairs(left) do if not same(value, right[key]) then return false end end
            for key in pairs(right) do if left[key] == nil then return false end end
            return true
        end
        local all = {}
        for byte = 0, 255 do all[#all + 1] = string.char(byte) end
        local deep = {}
        for _ = 1, 90 do deep = { deep } end
        for _, value in ipairs {
            true, false, 0, 1, -1, 0.1, -2.5e300, 1e-7, 2^53, 1/0, -1/0, 0/0, "", "a", table.concat(all), "\0009", "a\r\nb\\\"",
            {}, { 1, 2, 3 }, { 1, 2, nil, 4 }, { [0] = "zero", [-1] = 1, [1.5] = 2, [true] = 3, [false] = 4 },
            { ["end"] = 1, ["a b"] = 2, ["\n"] = { { "x" }, y = {} } }, deep,
        } do
            assert(same(value, copy(value)), serialize(value))
        end
        assert(serialize(nil) == "nil" and copy(nil) == nil)
        assert(serialize { 1, 2, b = 1, a = 2, [10] = 3, [true] = 4 } == '{1,2,[10]=3,["a"]=2,["b"]=1,[true]=4}')
        local twice = { 1 }
        assert(serialize { twice, twice } == "{{1},{1}}")
    "#);
}

#[test]
fn what_cannot_be_serialized_is_an_error() {
    run(r#"
        local serialize = require("luafcgid").serialize
        local function refused(value, part)
            local ok, why = pcall(serialize, value)
            assert(not ok and tostring(why):find(part, 1, true), tostring(why))
        end
        local circle = {}
        circle[1] = { circle }
        refused(circle, "contains itself")
        refused(print, "function")
        refused({ a = { coroutine.create(print) } }, "thread")
        refused({ [print] = 1 }, "function")
        local deep = {}
        for _ = 1, 200 do deep = { deep } end
        refused(deep, "within more than")
        local large = { ("x"):rep(1024) }
        for _ = 1, 40 do large = { large, large } end
        refused(large, "MiB")
    "#);
}

#[cfg(feature = "lua54")]
#[test]
fn integers_and_floats_stay_what_they_are() {
    run(r#"
        local serialize = require("luafcgid").serialize
        for _, value in ipairs { 1, 1.0, math.maxinteger, math.mininteger, -0.0 } do
            local copy = assert(load("return " .. serialize(value)))()
            assert(copy == value and math.type(copy) == math.type(value), serialize(value))
        end
        local json = require("oribi").json
        assert(json.encode { 1, 1.0, math.maxinteger } == "[1,1.0,9223372036854775807]")
        assert(math.type(json.decode("3")) == "integer" and math.type(json.decode("3.0")) == "float")
        assert(json.decode("18446744073709551615") == 18446744073709551615.0)
    "#);
}

#[test]
fn forms_in_the_way_of_luafcgid() {
    run(r#"
        local luafcgid = require "luafcgid"
        local values = luafcgid.parse("a=1&b=x%20y+z&a=2&a=3&c=d=e&f&g=%zz")
        assert(values.a[1] == "1" and values.a[2] == "2" and values.a[3] == "3" and #values.a == 3)
        assert(values.b == "x y z" and values.c == "d=e" and values.f == "" and values.g == "%zz")
        assert(next(luafcgid.parse("")) == nil and next(luafcgid.parse(nil)) == nil)
        assert(luafcgid.urlencode("a b&c/\255") == "a+b%26c%2F%FF")
        assert(luafcgid.urlencode(12) == "12")
        assert(luafcgid.urldecode("a+b%26%c3%A9%") == "a b&\195\169%")
        assert(not pcall(luafcgid.urlencode, nil) and not pcall(luafcgid.urldecode, {}))
    "#);
}

#[test]
fn forms() {
    run(r#"
        local oribi = require "oribi"
        local values, all = oribi.parse_form("a=1&a=2&b=")
        assert(values.a == "1" and values.b == "" and #all.a == 2 and all.a[2] == "2" and #all.b == 1)
        assert(values.c == nil and all.c == nil)
        assert(next((oribi.parse_form(nil))) == nil)
        -- Whatever a client sends, a value is a text.
        assert(oribi.parse_form("a=1&a=2&a[]=3").a == "1")
    "#);
}

#[test]
fn uploads() {
    run(r#"
        local oribi = require "oribi"
        local content = table.concat({
            "--B", 'Content-Disposition: form-data; name="title"', "", "Hello",
            "--B", 'Content-Disposition: form-data; name="title"', "", "again",
            "--B", 'Content-Disposition: form-data; name="file"; filename="x.bin"', "Content-Type: image/png", "", "\0\255\r\n--",
            "--B--", "",
        }, "\r\n")
        local parts, values = oribi.parse_multipart(content, "multipart/form-data; boundary=B")
        assert(#parts == 3 and values.title == "Hello" and values.file == nil)
        assert(parts[2].content == "again" and parts[2].filename == nil and parts[2].content_type == nil)
        local file = parts[3]
        assert(file.name == "file" and file.filename == "x.bin" and file.content_type == "image/png")
        assert(file.content == "\0\255\r\n--" and file.fields["content-type"] == "image/png")
        for _, wrong in ipairs { "text/plain", "multipart/form-data; boundary=C" } do
            local nothing, why = oribi.parse_multipart(content, wrong)
            assert(nothing == nil and type(why) == "string")
        end
        local nothing, why = oribi.parse_multipart("", nil)
        assert(nothing == nil and why:find("multipart"))
    "#);
}

#[test]
fn cookies() {
    run(r#"
        local oribi = require "oribi"
        local cookies = oribi.parse_cookies('a=1; b="2"; a=3')
        assert(cookies.a == "1" and cookies.b == "2")
        assert(next(oribi.parse_cookies(nil)) == nil)
        assert(oribi.set_cookie("a", "1") == "a=1")
        local field = oribi.set_cookie("sid", "x", {
            path = "/", max_age = 60, expires = 784111777, secure = true, http_only = true, same_site = "Lax",
        })
        assert(field == "sid=x; Path=/; Max-Age=60; Expires=Sun, 06 Nov 1994 08:49:37 GMT; Secure; HttpOnly; SameSite=Lax", field)
        for _, arguments in ipairs {
            { "a", "1\r\nSet-Cookie: b=2" }, { "a", "1;2" }, { "a b", "1" }, { "a", "1", { pat = "/" } }, { "a" },
            { "a", "1", { path = "/;x" } }, { "a", "1", { same_site = "Sometimes" } }, { "a", "1", { same_site = "None" } },
            { "a", "1", { max_age = "soon" } },
        } do
            assert(not pcall(oribi.set_cookie, arguments[1], arguments[2], arguments[3]), arguments[2])
        end
    "#);
}

#[test]
fn texts_in_html() {
    run(r#"
        local oribi = require "oribi"
        assert(oribi.escape_html([[<a href="x" title='&'>]] .. "\195\169\255") ==
            "&lt;a href=&quot;x&quot; title=&#39;&amp;&#39;&gt;\195\169\255")
    "#);
}

#[test]
fn redirections() {
    run(r#"
        local oribi = require "oribi"
        local status, fields, body = oribi.redirect("/next?a=1")
        assert(status == 303 and fields.Location == "/next?a=1" and body == "")
        assert(oribi.redirect("/", 301) == 301)
        for _, location in ipairs { "", "/\r\nX: y", "/a b", "/\0" } do assert(not pcall(oribi.redirect, location)) end
        assert(not pcall(oribi.redirect, "/", 200))
    "#);
}

#[test]
fn json_both_ways() {
    run(r#"
        local json = require("oribi").json
        for _, text in ipairs {
            "null", "true", "false", "0", "-1", "0.5", "1e+300", '""', '"a"', "[]", "{}", "[1,2,3]", "[[],{},[[]]]", '{"a":[1,null]}',
            [["\"\\/\b\f\n\r\t\u00e9\ud83d\ude00"]], "[0.1,9007199254740992]",
        } do
            local value, why = json.decode(text)
            assert(why == nil, why)
            local again = json.encode(value)
            assert(json.encode(json.decode(again)) == again, again)
        end
        assert(json.encode { a = { 1, "x", true } } == '{"a":[1,"x",true]}')
        assert(json.encode("a\"\n\0/") == [["a\"\n\u0000/"]])
        assert(json.encode(nil) == "null" and json.encode(json.null) == "null" and json.decode("null") == json.null)
        assert(json.encode {} == "{}" and json.encode(json.array {}) == "[]" and json.encode(json.array()) == "[]")
        assert(json.encode(json.decode("[]")) == "[]" and json.encode(json.decode('{"a":[]}')) == '{"a":[]}')
        local value = json.decode('{"a":{"b":[1,null,"c"]},"a2":0.5}')
        assert(value.a.b[1] == 1 and value.a.b[2] == json.null and value.a.b[3] == "c" and #value.a.b == 3 and value.a2 == 0.5)
        assert(json.decode('"\\u0000"') == "\0")
    "#);
}

#[test]
fn json_that_is_none() {
    run(r#"
        local json = require("oribi").json
        for _, text in ipairs {
            "", " ", "nul", "[1,]", "{a:1}", '{"a":1,}', "[1] 2", "'a'", "01", "+1", ".5", "NaN", "1e999", '"\n"', '"\\x"', '"\255"',
            '"\\ud800"', ("["):rep(1000), ("["):rep(200) .. ("]"):rep(200),
        } do
            local value, why = json.decode(text)
            assert(value == nil and type(why) == "string", text)
        end
        local circle = {}
        circle.circle = circle
        for _, value in ipairs {
            print, 1/0, -1/0, 0/0, "\255", { 1, nil, 3, x = 1 }, { [10] = 1 }, { [1] = 1, a = 2 }, circle, { [true] = 1 },
        } do
            assert(not pcall(json.encode, value), tostring(value))
        end
        assert(not pcall(json.decode, nil))
        assert(not pcall(json.encode, json.array { a = 1 }))
    "#);
}

#[test]
fn the_memory_of_the_state_bounds_what_is_decoded() {
    let lua = Lua::new();
    install(&lua, "test").expect("installed");
    lua.set_memory_limit(4 << 20).expect("a limit");
    let script = r#"require("oribi").json.decode("[" .. ("[],"):rep(200000) .. "[]]")"#;
    let error = lua.load(script).exec().expect_err("too much");
    assert!(error.to_string().contains("not enough memory"), "{error}");
}
