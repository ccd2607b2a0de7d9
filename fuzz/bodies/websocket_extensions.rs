//! Properties of all values of `Sec-WebSocket-Extensions`, `-Protocol` and `-Key`.

use oribi_websocket::{Deflate, accept_key, chosen_protocol, is_token, offered_deflate, offered_protocols};

/// Checks `data` as a value of each of these fields. Returns the agreement on compression.
pub fn check(data: &[u8]) -> Option<Deflate> {
    let deflate = offered_deflate(data);
    if let Some(deflate) = deflate {
        assert!((9..=15).contains(&deflate.window_bits()));
        // The answer is an offer that would be accepted as it is.
        assert_eq!(offered_deflate(deflate.response().as_bytes()), Some(deflate));
        assert_eq!(offered_deflate(&[data, b", permessage-deflate"].concat()), Some(deflate), "the first one wins");
    }
    // Either the value does not parse, or an offer that stands before it wins.
    let preceded = offered_deflate(&[b"permessage-deflate; server_max_window_bits=11, ", data].concat());
    assert!(preceded.is_none_or(|deflate| deflate.window_bits() == 11));
    assert!(preceded.is_some() || deflate.is_none());

    let names: Vec<&str> = offered_protocols(data).collect();
    assert!(names.iter().all(|name| is_token(name.as_bytes())));
    assert_eq!(chosen_protocol(data, |_| true), names.first().copied());
    assert_eq!(chosen_protocol(data, |name| names.last() == Some(&name)).is_some(), !names.is_empty());
    assert_eq!(names.join(", "), offered_protocols(names.join(", ").as_bytes()).collect::<Vec<_>>().join(", "));

    let accept = accept_key(data);
    assert!(accept.is_none_or(|accept| data.len() == 24 && accept.is_ascii()));
    deflate
}
