//! The settings of WebSockets that edges own.

use std::time::Duration;

/// The settings of WebSockets, and of event streams where that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSockets {
    /// The most bytes of a message of a client.
    pub message_bytes: usize,
    /// The most bytes that may wait for a client that takes its messages slowly; also of an event stream.
    pub buffer_bytes: usize,
    /// The time of silence after which a client is pinged, and cut off after as long again; also the interval of comments in event
    /// streams.
    pub ping: Duration,
    /// Whether messages are compressed if the client agrees (permessage-deflate).
    pub compression: bool,
    /// Whether clients of HTTP/2 may open WebSockets on its streams.
    pub http2: bool,
    /// The sites whose pages may open WebSockets.
    pub origins: Origins,
}

/// The sites whose pages may open WebSockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// The site of the request's Host.
    #[default]
    Same,
    /// Any site.
    Any,
    /// These, each a scheme and a host, perhaps with a port.
    These(Vec<String>),
}

impl Default for WebSockets {
    fn default() -> Self {
        Self {
            message_bytes: 1 << 20,
            buffer_bytes: 1 << 20,
            ping: Duration::from_secs(30),
            compression: true,
            http2: false,
            origins: Origins::default(),
        }
    }
}

impl Origins {
    /// Reads `same`, `any`, or origins with commas between them.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "same" => return Ok(Self::Same),
            "any" => return Ok(Self::Any),
            _ => {}
        }
        let origins = text.split(',').map(|origin| origin.trim().trim_end_matches('/').to_ascii_lowercase());
        let is_origin = |origin: &String| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ' ', '?', '#', '*']))
        };
        let origins: Vec<String> = origins.collect();
        if origins.iter().all(is_origin) {
            Ok(Self::These(origins))
        } else {
            Err("same, any, or origins such as https://example.org, with commas between them".to_owned())
        }
    }

    pub(crate) fn show(&self) -> String {
        match self {
            Self::Same => "same".to_owned(),
            Self::Any => "any".to_owned(),
            Self::These(origins) => origins.join(","),
        }
    }

    /// Whether a page of `origin` may open a WebSocket to a server that the request calls `host`. Programs that are no browsers send no
    /// origin, and may.
    #[must_use]
    pub fn allow(&self, origin: Option<&[u8]>, host: Option<&[u8]>) -> bool {
        let Some(origin) = origin else { return true };
        match self {
            Self::Any => true,
            Self::Same => {
                let of_origin = origin.windows(3).position(|bytes| bytes == b"://").map(|at| &origin[at + 3..]);
                of_origin.zip(host).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
            }
            Self::These(origins) => origins.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(origin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Origins;

    #[test]
    fn origins_are_those_that_are_named() {
        for (text, origin, is_allowed) in [
            ("same", "https://example.org", true),
            ("same", "http://EXAMPLE.org", true),
            ("same", "https://example.org:8443", false),
            ("same", "https://evil.example", false),
            ("same", "null", false),
            ("any", "null", true),
            ("https://shop.example, http://localhost:3000/", "https://shop.example", true),
            ("https://shop.example, http://localhost:3000/", "http://localhost:3000", true),
            ("https://shop.example", "http://shop.example", false),
            ("https://shop.example", "https://example.org", false),
        ] {
            let origins = Origins::parse(text).expect("they are origins");
            assert_eq!(origins.allow(Some(origin.as_bytes()), Some(b"example.org")), is_allowed, "{text}: {origin}");
            assert!(origins.allow(None, None), "a program that is no browser");
            assert_eq!(Origins::parse(&origins.show()), Ok(origins));
        }
        for text in ["", "example.org", "https://", "https://a/b", "*", "https://a,"] {
            assert!(Origins::parse(text).is_err(), "{text:?}");
        }
    }
}
