//! Properties of all form data that a client can send to a Lua script.

use oribi_lua::modules::{cookie, form};

/// Checks that a form that was read can be written, and is then read as the same form.
pub fn check(data: &[u8]) {
    assert_eq!(form::decode(form::encode(data).as_bytes()), data);
    let pairs: Vec<_> = form::pairs(data).collect();
    let written: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", form::encode(name), form::encode(value))).collect();
    let again = written.join("&");
    assert_eq!(form::pairs(again.as_bytes()).collect::<Vec<_>>(), pairs, "{again}");

    for (name, value) in cookie::parse(data) {
        assert!(!name.is_empty() && !name.contains(&b'=') && !value.contains(&b';'));
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if let Ok(field) = cookie::set(name, value, &cookie::Attributes::default()) {
            assert!(cookie::parse(field.as_bytes()).eq([(name.as_bytes(), value)]), "{field}");
        }
    }
}
