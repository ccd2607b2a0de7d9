//! Parses paths that clients request.

use super::value::is_off;

/// Parses a path of clients' requests that the server answers instead of the app; `None` for `off` and for an empty text.
pub(super) fn path_of_clients(text: &str) -> Result<Option<String>, String> {
    let path = text.trim();
    if path.is_empty() || is_off(path) {
        return Ok(None);
    }
    let sent_as_it_is = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if !path.starts_with('/') || !path.bytes().all(sent_as_it_is) {
        return Err("expected a path such as /healthz, or off".to_owned());
    }
    Ok(Some(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_sent_as_they_are() {
        assert_eq!(path_of_clients(" /healthz "), Ok(Some("/healthz".to_owned())));
        for text in ["", "off", "none"] {
            assert_eq!(path_of_clients(text), Ok(None), "{text:?}");
        }
        for text in ["healthz", "/a b", "/a?b", "/a#b", "/\u{e9}"] {
            assert!(path_of_clients(text).is_err(), "{text:?}");
        }
    }
}
