//! Tests that the host uses memory of Lua only while no Lua code runs, with apps that free the values that they have returned
//! as soon as any Lua code runs.

use crate::harness::{Call, Ended, Recorder, Site, take_log};

/// Defines two Lua functions: `at_every_collection(work)` calls `work` in every garbage collection, which Lua may start
/// whenever it allocates; `churn()` makes garbage, so that collections happen.
const COLLECTOR: &str = "
    local proxy = newproxy
    function at_every_collection(work)
        local function again()
            if proxy then
                getmetatable(proxy(true)).__gc = function() again() work() end
            else
                setmetatable({}, { __gc = function() again() work() end })
            end
        end
        again()
    end
    function churn()
        for round = 1, 4 do local waste = {} for index = 1, 100 do waste[index] = ('w'):rep(100 + index) .. round end end
    end
    collectgarbage('setpause', 100) collectgarbage('setstepmul', 1000)
";

/// A text that is not a constant, so that it is freed when nothing refers to it; `letter` fills it.
const MAKE: &str = "local function make(letter, size) return (letter):rep(size) .. 'end' end ";

fn site(script: &str) -> Site {
    Site::with(&format!("{COLLECTOR}{MAKE}{script}"), |settings| settings.state_memory = Some(512 << 20))
}

fn made(letter: &str, size: usize) -> String {
    letter.repeat(size) + "end"
}

#[test]
fn a_head_outlives_what_its_streamed_body_clears() {
    for size in [100, 3 << 20] {
        let site = site(&format!(
            "return function()
                local fields = {{ ['X-Text'] = make('a', {size}), ['X-List'] = {{ make('b', {size}), make('c', 10) }}, ['X-Number'] = 7.5 }}
                fields[1] = {{ 'X-' .. 'Pair', make('d', 10) }}
                local left = 3
                return 203, fields, function()
                    for name in pairs(fields) do fields[name] = nil end
                    collectgarbage() collectgarbage()
                    local other = {{ make('y', {size}), make('z', {size}), make('y', 10) }}
                    left = left - 1
                    if left >= 0 then return left .. #other end
                end
            end"
        ));
        for _ in 0..3 {
            let response = site.get("/");
            assert_eq!((response.status, &*response.body, response.ended), (203, "231303", Ended::Whole), "{:?}", take_log());
            let mut values: Vec<(&str, &str)> = response.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            values.sort_unstable();
            let expected = [
                ("X-List", &*made("b", size)),
                ("X-List", &made("c", 10)),
                ("X-Number", "7.5"),
                ("X-Pair", &made("d", 10)),
                ("X-Text", &made("a", size)),
            ];
            assert!(
                values == expected,
                "{size}: {:?}",
                values.iter().map(|(name, value)| (name, value.len(), &value[..3])).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn the_head_of_a_body_without_pieces_is_the_one_that_was_returned() {
    let site = site(
        "return function() local fields = { ['X-Text'] = make('a', 5000) }
        return 204, fields, function() fields['X-Text'] = nil collectgarbage() local other = make('z', 5000) end end",
    );
    let response = site.get("/");
    assert_eq!((response.status, response.field("X-Text")), (204, Some(&*made("a", 5000))));
}

#[test]
fn numbers_of_an_answer_start_no_collection() {
    // The finalizers clear the collected part of the answer so far.
    let site = site(
        "return function()
            local fields, body = {}, {}
            for index = 1, 200 do
                fields['X-' .. index] = index % 2 == 0 and index + 0.5 or make('v', index)
                body[index] = index % 2 == 0 and index or make('p', index)
            end
            at_every_collection(function()
                for name in pairs(fields) do fields[name] = 'cleared' end
                for index = 1, #body do body[index] = 'cleared' end
            end)
            return 200, fields, body
        end",
    );
    for _ in 0..20 {
        let response = site.get("/");
        assert_eq!((response.status, response.ended, response.fields.len()), (200, Ended::Whole, 200));
        let whole: String = (1..=200).map(|index| if index % 2 == 0 { index.to_string() } else { made("p", index) }).collect();
        let cleared = response.body.starts_with("cleared");
        // A finalizer may come before the answer is looked at, but never in between.
        assert!(cleared || response.body == whole, "{}", response.body);
        assert!(!cleared || response.fields.iter().all(|(_, value)| value == "cleared"), "{:?}", response.fields);
    }
}

#[test]
fn a_hook_for_returns_frees_nothing_that_is_sent() {
    // The first return is that of the handler, the second that of the function which serves.
    let site = site(
        "return function()
            local fields, body, returned = { ['X-Text'] = make('a', 5000) }, { make('b', 5000), make('c', 5000) }
            debug.sethook(function()
                returned = returned and returned + 1
                if returned ~= 2 then return end
                fields['X-Text'] = nil body[1], body[2] = nil, nil
                collectgarbage() collectgarbage()
                kept = { make('z', 5000), make('y', 5000), make('x', 5000) }
            end, 'r')
            returned = 0
            return 200, fields, body
        end",
    );
    let response = site.get("/");
    assert_eq!((response.field("X-Text"), &*response.body), (Some(&*made("a", 5000)), &*(made("b", 5000) + &made("c", 5000))));
}

/// A finalizer may request a part of the request while Lua copies the bytes of the same part from memory of the host.
#[test]
fn a_finalizer_may_ask_for_what_is_being_made() {
    let path = format!("/{}", "%41b".repeat(400));
    let name = "X-".to_owned() + &"Y".repeat(600);
    let fields = [("X-Some-Name", "value"), (&*name, "long"), ("Cookie", "a=1")];
    let script = "local seen = 0
        return function(request)
            at_every_collection(function()
                local ok, variables = pcall(function() return request.variables end)
                local ok, other = pcall(function() return request.path .. request.path_info .. tostring(request.headers['X-SOME-NAME']) end)
                pcall(function() return request:read(5) end)
                pcall(function() return request:read('l') end)
                seen = seen + 1
            end)
            local wrong = 0
            for round = 1, 60 do
                rawset(request, 'variables', nil) rawset(request, 'headers', nil)
                local ok, variables = pcall(function() return request.variables end)
                if ok and (variables.HTTP_X_SOME_NAME ~= 'value' or variables.REQUEST_METHOD ~= 'POST') then wrong = wrong + 1 end
                if request.path ~= '/' .. ('Ab'):rep(400) then wrong = wrong + 1 end
                if request.headers['X-Some-NAME'] ~= 'value' or request.headers['x-' .. ('y'):rep(600)] ~= 'long' then wrong = wrong + 1 end
                if request.headers['X-' .. ('Y'):rep(600)] ~= 'long' then wrong = wrong + 1 end
                churn()
            end
            return (seen > 0 and 'seen ' or 'unseen ') .. wrong
        end";
    let site = site(script);
    let content = vec![b'x'; 100_000];
    let call = Call { target: &path, fields: &fields, content: Some(&content), in_file: true, ..Call::new("POST", &path) };
    assert_eq!(site.text_of(&call), "seen 0");
}

#[test]
fn a_con_in_a_finalizer_says_what_it_says() {
    let script = "function main(env, con)
            local said = 0
            at_every_collection(function() if said < 100 then said = said + 1 con:puts('.') con:header('X-Said', 'x' .. said) end end)
            for round = 1, 60 do con:puts(('p'):rep(1000)) con:header('X-' .. round, round) churn() end
            said = 100
        end";
    let response = site(script).get("/");
    assert_eq!((response.status, response.ended), (200, Ended::Whole));
    assert_eq!(response.body.matches('p').count(), 60_000);
    assert!(response.fields.len() > 60, "{}", response.fields.len());
}

#[test]
fn content_is_read_without_room_outside_of_the_state() {
    // Read into the frame, mapped, across pages, as lines.
    let script = "return function(request)
            local whole = {}
            for _, wanted in ipairs { 1, 8192, 8193, 70000, 'l', 'L', 'a' } do whole[#whole + 1] = #request:read(wanted) end
            return table.concat(whole, ' ')
        end";
    let mut content = vec![b'x'; 8192 + 8194 + 70_000];
    content.extend([&b"\n"[..], &[b'y'; 9000], b"\n", &[b'z'; 300_000]].concat());
    for in_file in [false, true] {
        let call = Call { in_file, ..Call::post(&content) };
        assert_eq!(site(script).text_of(&call), "1 8192 8193 70000 0 9001 300000", "{in_file}");
    }
}

#[test]
fn an_iterator_that_answers_again_does_no_harm() {
    // The debug library can reach the function that serves.
    let script = "local depth = 0
        return function()
            depth = depth + 1
            if depth > 1 then return 200, { ['X-Deep'] = make('d', 100) }, 'deep' end
            local serve
            for level = 1, 20 do
                local info = debug.getinfo(level, 'f')
                if not info then break end
                serve = info.func
            end
            return 200, { ['X-Head'] = make('h', 100) }, function()
                if depth > 2 then return end
                local ok, message = pcall(serve)
                collectgarbage()
                depth = 3
                return 'piece'
            end
        end";
    let outlet = Recorder::default();
    site(script).answer_to(&Call::new("GET", "/"), &outlet);
    assert_eq!(outlet.response().ended, Ended::Whole);
}
