//! Oribi's own style.

use crate::harness::{Call, Ended, Recorder, Site, logged, take_log};
use oribi_lua::script_path::ScriptSource;

/// The value of an expression of `request`, as Lua writes it.
fn seen(expression: &str, call: &Call<'_>) -> String {
    let script = format!("return function(request) return 200, nil, tostring({expression}) end");
    Site::new(&script).text_of(call)
}

#[test]
fn a_request_has_its_parts() {
    let call = Call {
        fields: &[("Host", "example.org"), ("Content-Type", "text/css"), ("X-Own", "1"), ("x-own", "2"), ("Cookie", "a=1")],
        content: Some(b"12345"),
        ..Call::new("PUT", "/a%20b/c?x=%20y")
    };
    for (expression, expected) in [
        ("request.method", "PUT"),
        ("request.target", "/a%20b/c?x=%20y"),
        ("request.path", "/a b/c"),
        ("request.query", "x=%20y"),
        ("request.protocol", "HTTP/1.1"),
        ("request.scheme", "http"),
        ("request.remote_address", "192.0.2.1"),
        ("request.remote_port + 1", "4712"),
        ("request.server_name", "example.org"),
        ("request.server_port == 80", "true"),
        ("request.script_name", ""),
        ("request.path_info", "/a b/c"),
        ("request.content_type", "text/css"),
        ("request.content_length == 5", "true"),
        ("request.headers.host", "example.org"),
        ("request.headers['HoSt']", "example.org"),
        ("request.headers['X-Own']", "1, 2"),
        ("request.headers.absent", "nil"),
        ("request.headers[1]", "nil"),
        ("request.variables.HTTP_X_OWN", "1, 2"),
        ("request.variables.REQUEST_METHOD", "PUT"),
        ("request.absent", "nil"),
        ("request[1]", "nil"),
        ("rawequal(request.headers, request.headers)", "true"),
    ] {
        assert_eq!(seen(expression, &call), expected, "{expression}");
    }
    assert_eq!(seen("request.content_length", &Call::new("GET", "/")), "nil");
    assert_eq!(seen("request.content_type", &Call::new("GET", "/")), "nil");
    assert_eq!(seen("request.scheme", &Call { https: true, ..Call::new("GET", "/") }), "https");
}

#[test]
fn one_script_gets_the_same_path_behind_every_web_server() {
    let expression = "request.script_name .. '|' .. request.path_info .. '|' .. request.variables.SCRIPT_NAME .. '|' .. \
                      request.variables.PATH_INFO";
    for (variables, expected) in [
        (&[("SCRIPT_NAME", "/a b/c")][..], "|/a b//c||/a b//c"),
        (&[("SCRIPT_NAME", "/a b"), ("PATH_INFO", "/c")], "/a b|//c|/a b|//c"),
        (&[("SCRIPT_NAME", "/"), ("PATH_INFO", "/a b/c")], "|/a b//c||/a b//c"),
    ] {
        let call = Call { variables: Some(variables), ..Call::new("GET", "/a%20b//c?x=1") };
        assert_eq!(seen(expression, &call), expected, "{variables:?}");
    }
}

#[test]
fn cookies_are_joined_as_cookies() {
    let call = Call { fields: &[("Cookie", "a=1"), ("cookie", "b=2")], ..Call::new("GET", "/") };
    assert_eq!(seen("request.headers.cookie", &call), "a=1; b=2");
}

#[test]
fn fields_can_be_gone_through() {
    let script = "return function(request)
        local names = {}
        for name, value in pairs(request.headers) do names[#names + 1] = name .. '=' .. value end
        table.sort(names)
        return table.concat(names, ' ')
    end";
    let call = Call { fields: &[("Host", "x"), ("X-Odd_Name", "y")], ..Call::new("GET", "/") };
    assert_eq!(Site::new(script).text_of(&call), "host=x x-odd_name=y");
}

#[test]
fn a_script_can_keep_values_in_a_request() {
    let script =
        "return function(request) request.user = 'me'; request.method = 'MINE'; return request.user .. request.method end";
    assert_eq!(Site::new(script).text(), "meMINE");
}

#[test]
fn a_request_that_was_kept_is_not_the_next_one() {
    let script = "local kept
        return function(request)
            local old = kept
            kept = request
            if not old then return 'first' end
            local ok, message = pcall(function() return old.method end)
            local ok_read, message_read = pcall(old.read or request.read, old)
            return tostring(ok) .. ' ' .. tostring(ok_read) .. ' ' .. message .. message_read
        end";
    let site = Site::new(script);
    assert_eq!(site.text(), "first");
    // `old.read` itself is out of reach.
    let response = site.get("/");
    assert_eq!(response.status, 500);
    assert!(logged("this request has been answered"));
}

#[test]
fn content_is_read_in_parts_by_lines_or_as_a_whole() {
    let script = "return function(request)
        local what = request.query
        if what == 'all' then return tostring(request:read()) .. tostring(request:read()) .. request:read('a') .. '.' end
        if what == 'bytes' then return request:read(3) .. '|' .. request:read(100) .. '|' .. tostring(request:read(1)) end
        if what == 'line' then return request:read('*l') .. '|' .. request:read('L') .. '|' .. request:read('a') end
        local lines = {}
        for line in request:lines() do lines[#lines + 1] = '<' .. line .. '>' end
        return table.concat(lines)
    end";
    let site = Site::new(script);
    let ask = |what: &str, content: &[u8], in_file| {
        let target = format!("/?{what}");
        site.text_of(&Call { target: &target, in_file, ..Call::post(content) })
    };
    for in_file in [false, true] {
        assert_eq!(ask("all", b"one\ntwo", in_file), "one\ntwonil.");
        assert_eq!(ask("bytes", b"one\ntwo", in_file), "one|\ntwo|nil");
        assert_eq!(ask("line", b"one\ntwo\nthree", in_file), "one|two\n|three");
        assert_eq!(ask("lines", b"one\n\nthree", in_file), "<one><><three>");
        assert_eq!(ask("lines", b"one\n", in_file), "<one>");
        let long = [vec![b'x'; 20_000], b"\nend".to_vec()].concat();
        assert_eq!(ask("lines", &long, in_file).len(), 20_000 + 7);
    }
    assert_eq!(site.text_of(&Call::new("GET", "/?all")), "nilnil.");
}

#[test]
fn the_name_of_a_script_below_a_root_is_no_part_of_its_path() {
    let script = "return function(request)
        local v = request.variables
        return request.script_name .. '|' .. request.path_info .. '|' .. request.path .. '|' .. v.SCRIPT_NAME .. '|' .. v.PATH_INFO
    end";
    let site = Site::with_files(&[("app.lua", script)], |directory| ScriptSource::document_root(directory), |_| {});
    let response = site.get("/app.lua/a%20b");
    assert_eq!(response.body, "/app.lua|/a b|/app.lua/a b|/app.lua|/a b");
    assert_eq!(site.get("/none.lua").status, 404);
}

/// The answer to an expression that follows `return`.
fn answered(expression: &str) -> (u16, String, String) {
    let site = Site::new(&format!("return function(request) return {expression} end"));
    let response = site.get("/");
    assert_eq!(response.ended, Ended::Whole, "{expression}");
    let fields: Vec<_> = response.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    (response.status, fields.join("; "), response.body)
}

#[test]
fn an_answer_has_status_fields_and_body() {
    let plain = "Content-Type: text/plain; charset=utf-8";
    for (expression, status, fields, body) in [
        ("200, { A = 'b' }, 'text'", 200, "A: b", "text"),
        ("404, {}, 'gone'", 404, "", "gone"),
        ("200, { A = 1 }, 2.5", 200, "A: 1", "2.5"),
        ("200, { ['Set-Cookie'] = { 'a=1', 'b=2', 3 } }", 200, "Set-Cookie: a=1; Set-Cookie: b=2; Set-Cookie: 3", ""),
        ("200, { { 'B', 'x' }, { 'A', 2 } }", 200, "B: x; A: 2", ""),
        ("200, {}, { 'one', ' ', 2, ' three' }", 200, "", "one 2 three"),
        ("200, {}, {}", 200, "", ""),
        ("204", 204, "", ""),
        ("'text'", 200, plain, "text"),
        ("503, 'later'", 503, plain, "later"),
        ("503, nil, 'later'", 503, plain, "later"),
        ("404, { A = 'b' }", 404, "A: b", ""),
    ] {
        assert_eq!(answered(expression), (status, fields.to_owned(), body.to_owned()), "{expression}");
    }
}

#[test]
fn an_answer_that_is_none_is_an_error_that_says_why() {
    for (expression, why) in [
        ("nil", "a nil where its status is expected"),
        ("true", "a boolean where its status is expected"),
        ("{ run = 1 }", "a table where its status is expected"),
        ("99", "99 is no status of a response"),
        ("200.5", "200.5 is no status of a response"),
        ("0/0", "is no status of a response"),
        ("200, 'a', 'b'", "a string where its fields are expected"),
        ("200, { A = true }", "the field A of the response is a boolean"),
        ("200, { A = { {} } }", "the field A of the response is a table"),
        ("200, { 'A: b' }", "contain a string without a name"),
        ("200, { { 'A' } }", "a list that is not a name and a value"),
        ("200, { [true] = 'x' }", "contain a string without a name"),
        ("200, {}, true", "a boolean where its body is expected"),
        ("200, {}, { 'a', {} }", "element 2 of the body is a table"),
    ] {
        let (status, _, body) = answered(expression);
        assert_eq!(status, 500, "{expression}");
        assert!(!body.is_empty());
        let log = take_log();
        assert!(log.iter().any(|line| line.contains(why) && line.contains("Response Error")), "{expression}: {log:?}");
    }
}

#[test]
fn many_numbers_in_an_answer_are_kept_apart() {
    let script = "return function()
        local fields, body = {}, {}
        for i = 1, 300 do fields['X-' .. i] = i; body[i] = i end
        fields.List = body
        collectgarbage()
        return 200, fields, body
    end";
    let response = Site::new(script).get("/");
    let body: String = (1..=300).map(|number| number.to_string()).collect();
    assert_eq!(response.body, body);
    let mut sum = 0;
    for (name, value) in &response.fields {
        sum += value.parse::<u32>().expect("a number");
        if name != "List" {
            assert_eq!(name.strip_prefix("X-"), Some(&**value));
        }
    }
    assert_eq!((response.fields.len(), sum), (600, 2 * 300 * 301 / 2));
}

#[test]
fn integral_floats_are_integers_in_fields() {
    let script = "return function(request)
        local half = request.content_length / 2
        return 200, { Half = half, List = { half, 2.5 }, { 'Pair', half } }, { tostring(request.content_length) }
    end";
    let response = Site::new(script).answer(&Call::post(b"four"));
    let mut values: Vec<(&str, &str)> = response.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    values.sort_unstable();
    assert_eq!(values, [("Half", "2"), ("List", "2"), ("List", "2.5"), ("Pair", "2")]);
    assert_eq!(response.body, "4");
}

#[test]
fn a_status_that_is_a_string_is_reported_and_not_sent_as_the_page() {
    for (results, message) in [
        ("'404', { A = 1 }, 'gone'", "the handler has returned its status as a string: return the number 404"),
        ("'404 Not Found', 'gone'", "the handler has returned its status as a string: return the number 404"),
        ("'gone', function() end", "the handler has returned a string where its status is expected"),
    ] {
        let response = Site::new(&format!("return function() return {results} end")).get("/");
        assert_eq!((response.status, response.ended), (500, Ended::Whole), "{results}");
        assert!(logged(message), "{results}");
    }
    for (results, text) in [("('a-b'):gsub('-', '+')", "a+b"), ("'page', 'the file of a module'", "page")] {
        let page = Site::new(&format!("return function() return {results} end")).get("/");
        assert_eq!((page.status, &*page.body), (200, text), "{results}");
    }
}

#[test]
fn an_iterator_is_sent_piece_by_piece() {
    let script = "return function()
        local left = 3
        return 200, { A = 1 }, function()
            left = left - 1
            if left >= 0 then return left == 1 and '' or 'piece ' .. left end
        end
    end";
    let response = Site::new(script).get("/");
    assert_eq!(response.pieces, ["piece 2", "piece 0"]);
    assert_eq!((response.field("A"), response.ended), (Some("1"), Ended::Whole));
    let empty = Site::new("return function() return 200, {}, function() end end").get("/");
    assert_eq!((empty.status, &*empty.body, empty.ended), (200, "", Ended::Whole));
}

#[test]
fn an_iterator_of_a_coroutine_can_be_a_body() {
    let script = "return function()
        return 200, {}, coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
    end";
    assert_eq!(Site::new(script).get("/").pieces, ["1", "2", "3"]);
}

#[test]
fn trailers_of_a_request_stand_apart() {
    let script = "return function(request)
        local trailers = request.trailers
        if not trailers then return 'none' end
        local names = {}
        for name in pairs(trailers) do names[#names + 1] = name end
        table.sort(names)
        assert(request.trailers == trailers and request.headers['x-late'] == nil and trailers.Host == nil)
        local twice, sum, empty = trailers['x-twice'], trailers['X-Sum'], trailers.empty
        return table.concat({ table.concat(names, ' '), twice, sum, empty, request.headers['X-Sum'] }, '|')
    end";
    let site = Site::new(script);
    let trailers = &[("x-sum", "1"), ("x-twice", "a"), ("empty", ""), ("x-twice", "b"), ("x-late", "1")];
    let call = Call { trailers, fields: &[("X-Sum", "head")], ..Call::post(b"text") };
    assert_eq!(site.answer(&call).body, "empty x-late x-sum x-twice|a, b|1||head");
    assert_eq!(site.answer(&Call::post(b"text")).body, "none");
}

#[test]
fn an_iterator_ends_with_trailers() {
    let script = "return function(request)
        local left = tonumber(request.query)
        return 200, { A = 1 }, function()
            left = left - 1
            if left >= 0 then return 'piece' end
            return nil, { { 'Grpc-Status', 0 }, { 'X-Sum', 'a' }, { 'X-Sum', 'b' } }
        end
    end";
    let site = Site::new(script);
    for pieces in [2, 0] {
        let response = site.get(&format!("/?{pieces}"));
        assert_eq!((response.pieces.len(), response.field("A"), response.ended), (pieces, Some("1"), Ended::Whole));
        let trailers: Vec<String> = response.trailers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut sorted = trailers.clone();
        sorted.sort();
        assert_eq!(sorted, ["Grpc-Status: 0", "X-Sum: a", "X-Sum: b"]);
    }
    // Content without trailers, and the result of a failed read, which is not a table.
    for behind in ["{}", "'Input/output error', 5", "nil"] {
        let script = format!(
            "return function()
                local i = 0
                return 200, {{}}, function() i = i + 1 if i == 1 then return 'x' end return nil, {behind} end
            end"
        );
        let response = Site::new(&script).get("/");
        assert_eq!((&*response.body, response.trailers.len(), response.ended), ("x", 0, Ended::Whole), "{behind}");
    }
    // Values that are not trailers.
    let script = "return function()
        local i = 0
        return 200, {}, function() i = i + 1 if i == 1 then return 'x' end return nil, { X = print } end
    end";
    let response = Site::new(script).get("/");
    assert_eq!((&*response.body, response.ended), ("x", Ended::GivenUp));
    assert!(logged("the field X of the response is a function"));
}

#[test]
fn an_iterator_that_fails_before_its_first_piece_gets_a_page() {
    let site = Site::new("return function() return 200, {}, function() error('no piece') end end");
    let response = site.get("/");
    assert_eq!((response.status, response.ended), (500, Ended::Whole));
    assert!(logged("no piece"));
}

#[test]
fn an_iterator_that_fails_later_cuts_the_response() {
    for failure in ["error('no more')", "return {}"] {
        let script = format!(
            "return function()
                local first = true
                return 200, {{}}, function() if first then first = false return 'begun' end {failure} end
            end"
        );
        let site = Site::new(&script);
        let response = site.get("/");
        assert_eq!((response.status, &*response.body, response.ended), (200, "begun", Ended::GivenUp));
        // The state is as good as before.
        assert_eq!(site.get("/").body, "begun");
    }
}

#[test]
fn an_iterator_is_left_alone_when_the_client_has_gone() {
    let script = "calls = 0
        return function(request)
            if request.query == 'calls' then return tostring(calls) end
            return 200, {}, function() calls = calls + 1 return 'x' end
        end";
    let site = Site::new(script);
    let outlet = Recorder::default();
    outlet.patience.set(Some(3));
    site.answer_to(&Call::new("GET", "/"), &outlet);
    assert_eq!(outlet.response().pieces.len(), 3);
    assert_eq!(site.text_of(&Call::new("GET", "/?calls")), "4");
}

#[test]
fn a_panic_in_the_server_passes_by_lua() {
    let site = Site::new(
        "return function(request)
            if request.query == 'whole' then return 'still here' end
            return 200, {}, function() return 'x' end
        end",
    );
    let outlet = Recorder::default();
    outlet.panics.set(true);
    let call = Call::new("GET", "/");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| site.answer_to(&call, &outlet)));
    let panic = result.expect_err("the panic goes on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"an outlet that panics"));
    assert_eq!(site.text_of(&Call::new("GET", "/?whole")), "still here");
}

#[test]
fn to_yield_outside_a_coroutine_is_an_error() {
    let site = Site::new("return function() coroutine.yield() return 'x' end");
    assert_eq!(site.get("/").status, 500);
    assert!(logged("attempt to yield"));
}

#[test]
fn figures_are_not_even_looked_at_where_there_are_no_metrics() {
    let script = "local oribi = require 'oribi'
        return function()
            oribi.count('-', 0 / 0)
            oribi.observe('-', -1, 'nothing')
            return 200, nil, 'fine'
        end";
    assert_eq!(Site::new(script).text_of(&Call::new("GET", "/")), "fine");
}
