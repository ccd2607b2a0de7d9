//! WSAPI's own rules.

use crate::harness::{Call, Site, logged, take_log};

#[test]
fn the_env_has_what_wsapi_promises() {
    let script = "function run(env)
        local part, rest = env.input:read(3), env.input:read()
        local seen = { env.REQUEST_METHOD, env.PATH_INFO, env.SCRIPT_NAME, env.HTTP_ABSENT, env.QUERY_STRING, part, rest,
            tostring(env.input:read()), env.APP_PATH }
        env.error:write('a ', 'warning ', 5)
        return 200, { ['Content-Type'] = 'text/plain' }, coroutine.wrap(function()
            for _, text in ipairs(seen) do coroutine.yield('[' .. text .. ']') end
        end)
    end";
    let site = Site::new(script);
    let call = Call { target: "", ..Call::post(b"content") };
    let directory = site.path("");
    let directory = directory.to_str().expect("text").trim_end_matches('/');
    assert_eq!(site.text_of(&call), format!("[POST][/][][][][con][tent][nil][{directory}]"));
    assert!(logged("a warning 5"));
}

#[test]
fn the_server_has_the_name_that_all_languages_know() {
    let site = Site::new("return function(request) return 200, {}, request.variables.SERVER_SOFTWARE end");
    assert_eq!(site.text(), concat!("Oribi/", env!("CARGO_PKG_VERSION")));
    let front = Call { variables: Some(&[("SERVER_SOFTWARE", "nginx/1.28")]), ..Call::new("GET", "/") };
    assert_eq!(site.text_of(&front), "nginx/1.28");
}

#[test]
fn statuses_and_headers_come_in_all_their_forms() {
    for (values, status, fields) in [
        ("'404 Not Found', { A = { 'x', 'y' } }, 'body'", 404, vec![("A", "x"), ("A", "y")]),
        ("'200', {}, 'body'", 200, vec![]),
        ("200, nil, { 'bo', 'dy' }", 200, vec![]),
    ] {
        let response = Site::new(&format!("return {{ run = function(env) return {values} end }}")).get("/");
        assert_eq!((response.status, &*response.body), (status, "body"), "{values}");
        let found: Vec<_> = response.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, fields, "{values}");
    }
}

#[test]
fn what_is_no_answer_says_why() {
    for (values, why) in [("'OK'", "\\\"OK\\\" is no status"), ("nil", "a nil where its status"), ("'body'", "is no status")] {
        let site = Site::new(&format!("function run(env) return {values} end"));
        assert_eq!(site.get("/").status, 500);
        let log = take_log();
        assert!(log.iter().any(|line| line.contains(&why.replace('\\', ""))), "{values}: {log:?}");
    }
}

#[test]
fn an_error_object_can_say_the_status() {
    let site = Site::new("function run(env) error({ 404, 'no such <page>' }) end");
    let response = site.get("/");
    assert_eq!((response.status, &*response.body), (404, "no such <page>"));
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn an_input_that_was_kept_is_not_the_next_ones() {
    let script = "local kept
        function run(env)
            local old = kept
            kept = env.input
            if not old then return 200, {}, 'first' end
            return 200, {}, tostring(pcall(old.read, old))
        end";
    let site = Site::new(script);
    assert_eq!(site.text_of(&Call::post(b"one")), "first");
    assert_eq!(site.text_of(&Call::post(b"two")), "false");
}
