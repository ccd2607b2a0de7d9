//! The styles of luafcgid, and the errors of luafcgid itself.

use crate::harness::{Call, Ended, Recorder, Site, logged, take_log};
use oribi_lua::ConfigValue;
use oribi_lua::script_path::ScriptSource;

fn main_with(body: &str) -> Site {
    Site::new(&format!("function main(env, con) {body} end"))
}

#[test]
fn hello_word_says_hello_word() {
    let response = main_with("con:puts('Hello Word')").get("/");
    assert_eq!((response.status, &*response.body, response.ended), (200, "Hello Word", Ended::Whole));
    assert_eq!(response.field("Content-Type"), Some("text/html"));
}

#[test]
fn the_first_generation_returns_its_page() {
    assert_eq!(Site::new("function handler() return 'Hello World' end").text(), "Hello World");
    let site = Site::new("function handler() return 17 end");
    assert_eq!(site.get("/").status, 500);
    assert!(logged("has returned a number, not a string"));
}

#[test]
fn what_main_returns_means_nothing_once_something_was_put() {
    assert_eq!(main_with("con:puts('put') return 'returned'").text(), "put");
}

#[test]
fn the_env_is_a_fresh_plain_table_of_strings() {
    let script = "function main(env, con)
        con:puts(tostring(getmetatable(env)) .. ' ' .. tostring(env.mine) .. ' ' .. env.REQUEST_METHOD .. ' ' .. env.FCGI_ROLE)
        con:puts(' ' .. type(env.LUAFCGID_VERSION) .. env.LUAFCGID_VERSION .. ' ' .. tostring(env.ABSENT))
        env.mine = 'mine'
        env.REQUEST_METHOD = nil
    end";
    let site = Site::new(script);
    for _ in 0..2 {
        assert_eq!(site.text(), "nil nil GET RESPONDER number1 nil");
    }
}

#[test]
fn a_web_servers_variables_arrive_as_it_sent_them() {
    let script = "function main(env, con)
        con:puts(env.SCRIPT_NAME .. '|' .. env.PATH_INFO .. '|' .. env['odd name'] .. '|' .. env.HTTP_HOST .. '|' .. env.SCRIPT_FILENAME)
    end";
    let site = Site::with_files(&[("app.lua", script)], |_| ScriptSource::Gateway { root: None }, |_| {});
    let file = site.path("app.lua");
    let file = file.to_str().expect("text");
    for name in [file.to_owned(), format!("proxy:fcgi://127.0.0.1:9000{file}")] {
        let variables = [("SCRIPT_FILENAME", &*name), ("SCRIPT_NAME", "/a"), ("PATH_INFO", "/b"), ("odd name", "odd")];
        let call = Call { variables: Some(&variables), fields: &[("Host", "h")], ..Call::new("GET", "/a/b") };
        assert_eq!(site.text_of(&call), format!("/a|/b|odd|h|{name}"));
    }
}

#[test]
fn a_request_without_a_script_gets_a_404_and_no_crash() {
    let site = Site::with_files(&[], |_| ScriptSource::Gateway { root: None }, |_| {});
    for variables in
        [&[][..], &[("SCRIPT_FILENAME", "")], &[("SCRIPT_FILENAME", "/nowhere/<b>.lua")], &[("SCRIPT_FILENAME", "/")]]
    {
        let fields = [("Accept", "text/html")];
        let response = site.answer(&Call { variables: Some(variables), fields: &fields, ..Call::new("GET", "/<b>") });
        assert_eq!(response.status, 404);
        assert!(!response.body.is_empty() && !response.body.contains("<b>"), "{}", response.body);
    }
}

#[test]
fn status_and_content_type_can_be_set() {
    for (calls, status, content_type) in [
        ("con:status(404)", 404, "text/html"),
        ("con:status('410 Gone') con:content_type('text/plain')", 410, "text/plain"),
        ("con:header('Status', '201 Made') con:header('content-type', 'text/css')", 201, "text/css"),
        ("con:header('Status: 404 Not Found')", 404, "text/html"),
    ] {
        let response = main_with(calls).get("/");
        assert_eq!((response.status, response.field("content-type")), (status, Some(content_type)), "{calls}");
        assert_eq!(response.fields.len(), 1, "nothing stands twice: {:?}", response.fields);
    }
    let site = main_with("con:status('none')");
    assert_eq!(site.get("/").status, 500);
    assert!(logged("\"none\" is no status"));
}

#[test]
fn headers_are_given_by_name_or_as_a_line() {
    let response = main_with(
        "con:header('X-One', 1) con:header('X-Two: 2\\r\\n') con:header('Set-Cookie', 'a') con:header('Set-Cookie', 'b')",
    );
    let response = response.get("/");
    let found: Vec<_> = response.fields[1..].iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found, ["X-One=1", "X-Two=2", "Set-Cookie=a", "Set-Cookie=b"]);
}

#[test]
fn the_settings_say_what_every_reply_has() {
    let site = Site::with("function main(env, con) end", |settings| {
        settings.status = "202 Accepted".to_owned();
        settings.content_type = "text/x".to_owned();
        settings.fields.push(("X-Powered-By".to_owned(), "Lua".to_owned()));
    });
    let response = site.get("/");
    assert_eq!(
        (response.status, response.field("Content-Type"), response.field("X-Powered-By")),
        (202, Some("text/x"), Some("Lua"))
    );
}

#[test]
fn a_location_alone_redirects() {
    assert_eq!(main_with("con:header('Location', '/x')").get("/").status, 302);
}

#[test]
fn flush_really_streams() {
    let site = main_with("con:puts('a') con:puts('b') con:flush() con:flush() con:puts('c') con:flush() con:puts('d')");
    let response = site.get("/");
    assert_eq!((response.pieces.join("|"), response.ended), ("ab|c|d".to_owned(), Ended::Whole));
}

#[test]
fn without_buffering_each_piece_is_sent_at_once() {
    let site = Site::with("function main(env, con) con:puts('a') con:puts('b') end", |settings| settings.buffering = false);
    assert_eq!(site.get("/").pieces, ["a", "b"]);
    let switched = main_with("con:puts('a') con:config('buffering', false) con:puts('b') con:puts('c')").get("/");
    assert_eq!(switched.pieces, ["ab", "c"]);
}

#[test]
fn reset_forgets_the_body_and_keeps_the_headers() {
    let response = main_with("con:header('A', 'b') con:puts('wrong') con:reset() con:puts('right')").get("/");
    assert_eq!((&*response.body, response.field("A")), ("right", Some("b")));
}

#[test]
fn what_belongs_into_a_head_that_has_been_sent_is_an_error() {
    for late in ["con:header('A', 'b')", "con:status(404)", "con:content_type('x')"] {
        let site = main_with(&format!("con:flush() {late}"));
        assert_eq!(site.get("/").ended, Ended::GivenUp, "{late}");
        assert!(logged("comes too late"), "{late}");
    }
}

#[test]
fn gets_returns_as_much_as_maxpost_says_and_then_the_rest() {
    let script = "function main(env, con)
        for part in function() return con:gets() end do con:puts('[' .. part .. ']') end
        con:puts(tostring(con:gets()))
    end";
    let site = Site::with(script, |settings| settings.configuration.push(("maxpost".to_owned(), ConfigValue::Number(4.0))));
    for in_file in [false, true] {
        assert_eq!(site.text_of(&Call { in_file, ..Call::post(b"0123456789") }), "[0123][4567][89]nil");
    }
    let whole = Site::new(script);
    assert_eq!(whole.text_of(&Call::post(b"0123456789")), "[0123456789]nil");
    assert_eq!(whole.text(), "nil");
}

#[test]
fn missing_arguments_are_ignored_and_wrong_ones_are_errors() {
    assert_eq!(main_with("con:puts() con:header() con:log() con:puts(12)").text(), "12");
    for (call, why) in [
        ("con:puts({})", "bad argument #1 (string expected, got table)"),
        ("con:header('A', true)", "bad argument #2 (string expected, got boolean)"),
        ("con:header('no colon')", "\"no colon\" is no header"),
        ("con.puts('x')", "con:puts(text), not con.puts(text)"),
        ("con.puts(io.stdout, 'x')", "con:puts(text), not con.puts(text)"),
    ] {
        let site = main_with(call);
        assert_eq!(site.get("/").status, 500, "{call}");
        assert!(logged(why), "{call}");
    }
}

#[test]
fn a_message_for_the_log_is_no_format() {
    let site = main_with("con:log('100%s %n %d')");
    site.text();
    assert!(logged("100%s %n %d"));
}

#[test]
fn config_reads_the_configuration_and_remembers_changes() {
    let script = "function main(env, con)
        con:puts(tostring(con:config('mine')) .. tostring(con:config('debug')) .. tostring(con:config('absent')))
        con:config('mine', 'changed')
    end";
    let site = Site::with(script, |settings| {
        settings.configuration.push(("mine".to_owned(), ConfigValue::Text(b"value ".to_vec())));
        settings.configuration.push(("debug".to_owned(), ConfigValue::Boolean(true)));
    });
    assert_eq!(site.text(), "value truenil");
    assert_eq!(site.text(), "changedtruenil");
}

#[test]
fn a_con_that_was_kept_is_not_the_next_ones() {
    let script = "local kept
        function main(env, con)
            local old = kept
            kept = con
            if not old then return con:puts('first') end
            for _, method in ipairs { 'puts', 'gets', 'header', 'flush', 'reset', 'log', 'config', 'status', 'content_type' } do
                local ok, message = pcall(old[method], old, 'x', 'y')
                assert(not ok and message:find('has been answered', 1, true), method)
            end
            con:puts('clean')
        end";
    let site = Site::new(script);
    assert_eq!(site.text(), "first");
    let response = site.get("/");
    assert_eq!((&*response.body, response.fields.len()), ("clean", 1), "{:?}", take_log());
}

#[test]
fn an_error_after_output_began_cuts_the_response() {
    let site = main_with("con:puts('begun') con:flush() error('in the middle')");
    let response = site.get("/");
    assert_eq!((response.status, &*response.body, response.ended), (200, "begun", Ended::GivenUp));
    assert!(logged("in the middle"));
}

#[test]
fn an_error_before_that_gets_a_page_without_what_was_put() {
    let site = main_with("con:header('A', 'b') con:puts('half a page') error('too early')");
    let response = site.get("/");
    assert_eq!((response.status, response.field("A"), response.ended), (500, None, Ended::Whole));
    assert!(!response.body.contains("half") && !response.body.contains("too early") && !response.body.is_empty());
}

#[test]
fn os_exit_ends_the_request_with_what_was_put() {
    let site = main_with("con:puts('said') pcall(function() os.exit(1) end) while true do pcall(os.exit) end");
    for _ in 0..2 {
        assert_eq!(site.text(), "said");
    }
    assert_eq!(main_with("con:puts('a') con:flush() con:puts('b') os.exit()").get("/").body, "ab");
}

#[test]
fn a_script_whose_client_has_gone_is_not_disturbed() {
    let site = main_with("for i = 1, 5 do con:puts(i) con:flush() end con:puts('end')");
    let outlet = Recorder::default();
    outlet.patience.set(Some(2));
    site.answer_to(&Call::new("GET", "/"), &outlet);
    assert_eq!(outlet.response().pieces, ["1", "2"]);
}

#[test]
fn a_handler_that_has_gone_is_an_error_each_time_and_no_leak() {
    let site = Site::new("function main(env, con) main = nil con:puts('once more') end");
    // The function that was found when the script was loaded is the one that is called.
    for _ in 0..3 {
        assert_eq!(site.text(), "once more");
    }
}
