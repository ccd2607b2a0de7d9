//! The data of FastCGI's filters, in each style.

use crate::harness::{Call, Site};
use oribi_lua::ConfigValue;

#[test]
fn a_filter_reads_its_data_beside_its_content() {
    let site = Site::new(
        "local kept
        return function(request)
            local data = request.data
            if request.path == '/kept' then return 200, {}, tostring(pcall(kept.read, kept)) end
            kept = data
            local first = data:read('l') .. data:read(3) .. request:read(2)
            local lines = {}
            for line in data:lines() do lines[#lines + 1] = line end
            return 200, {}, first .. '|' .. table.concat(lines, ',') .. '|' .. tostring(data:read()) .. data:read('a') .. request:read()
        end",
    );
    let call = Call::filter(b"content", b"one\ntwo and\nthree\nfour");
    for _ in 0..2 {
        assert_eq!(site.text_of(&call), "onetwoco| and,three,four|nilntent");
    }
    assert_eq!(site.text_of(&Call { target: "/kept", ..call }), "false", "what was kept is not the next one's");
    assert_eq!(site.text_of(&Call { target: "/kept", ..Call::post(b"x") }), "false");
}

#[test]
fn others_have_none() {
    for script in [
        "return function(request) return 200, {}, tostring(request.data) end",
        "function run(env) return 200, {}, env.data == '' and 'nil' or 'data' end",
        "function main(env, con) con:puts(tostring(con:data())) end",
        "function handler(env, con) return tostring(con:data()) end",
    ] {
        let site = Site::new(script);
        assert_eq!(site.text(), "nil", "{script}");
        assert_eq!(site.text_of(&Call { variables: Some(&[]), ..Call::post(b"x") }), "nil", "{script}");
    }
}

#[test]
fn a_wsapi_app_has_it_in_its_env() {
    let site =
        Site::new("function run(env) return 200, {}, env.data:read(3) .. env.input:read() .. tostring(env.data:read()) end");
    assert_eq!(site.text_of(&Call::filter(b"content", b"data!")), "datcontenta!");
}

#[test]
fn scripts_of_luafcgid_get_it_as_they_get_the_content() {
    for style in ["main", "handler"] {
        let script = format!(
            "function {style}(env, con)
                local parts = {{}}
                for part in function() return con:data() end do parts[#parts + 1] = part end
                return table.concat(parts, ' ') .. '|' .. con:gets() .. con:gets() .. '|' .. env.FCGI_ROLE
            end"
        );
        let site =
            Site::with(&script, |settings| settings.configuration.push(("maxpost".to_owned(), ConfigValue::Number(4.0))));
        assert_eq!(site.text_of(&Call::filter(b"content", b"0123456789")), "0123 4567 89|content|FILTER");
    }
}
