//! A choice of stored responses by their URIs, for an operator who removes them.

use crate::key::END;

/// Stored responses of one URI, or of those that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// `s` or `p` in the key; `None`: both.
    scheme: Option<u8>,
    /// The host in lower case; `None`: all.
    host: Option<Vec<u8>>,
    /// Whether the host has a port. Without one, all ports are meant.
    has_port: bool,
    target: Vec<u8>,
    extent: Extent,
}

/// The targets that a selection includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The target, with its query.
    Target,
    /// The path, with any query.
    Path,
    /// All targets that begin so.
    Prefix,
}

const EXPECTED: &str = "expected HOST/PATH, or /PATH for all hosts; with * at the end for all that begin so";

impl Selection {
    /// Parses `HOST/PATH`, `https://HOST:PORT/PATH?QUERY`, or `/PATH`. A path without a query includes all queries, a host without
    /// a port all ports. With `*` at the end, all targets that begin so are included.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let schemes = [("https://", b's'), ("http://", b'p')];
        let known = schemes.iter().find_map(|(name, scheme)| Some((*scheme, text.strip_prefix(name)?)));
        let (scheme, rest) = known.map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let start = rest.find('/').ok_or(EXPECTED)?;
        let (host, target) = rest.split_at(start);
        if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) || host.is_empty() && scheme.is_some() {
            return Err(EXPECTED.to_owned());
        }
        let (target, extent) = match target.strip_suffix('*') {
            Some(prefix) => (prefix, Extent::Prefix),
            None if target.contains('?') => (target, Extent::Target),
            None => (target, Extent::Path),
        };
        let host = host.to_ascii_lowercase();
        // The address of IPv6 has brackets.
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let host = (!host.is_empty()).then(|| host.into_bytes());
        Ok(Self { scheme, host, has_port, target: target.as_bytes().to_vec(), extent })
    }

    /// Whether a stored response with this key is one of the selection.
    #[must_use]
    pub fn includes(&self, key: &[u8]) -> bool {
        let mut parts = key.split(|byte| *byte == END);
        let (Some((scheme, host)), Some(target)) = (parts.next().and_then(<[u8]>::split_first), parts.next()) else {
            return false;
        };
        let of_host = |wanted: &Vec<u8>| match host.strip_prefix(wanted.as_slice()) {
            Some([]) => true,
            Some([b':', rest @ ..]) => !self.has_port && rest.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        let of_target = || match (self.extent, target.strip_prefix(self.target.as_slice())) {
            (Extent::Prefix, Some(_)) | (_, Some([])) | (Extent::Path, Some([b'?', ..])) => true,
            (Extent::Path | Extent::Target, Some(_)) | (_, None) => false,
        };
        self.scheme.is_none_or(|wanted| wanted == *scheme) && self.host.as_ref().is_none_or(of_host) && of_target()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_includes_a_path_a_target_or_a_prefix() {
        for (text, included, others) in [
            ("a.example/news", &["pa.example\0/news\0", "sa.example:8443\0/news?x\0"][..], &["pa.example\0/news/1\0"][..]),
            ("A.example/news?x", &["pa.example\0/news?x\0"], &["pa.example\0/news\0", "pa.example\0/news?xy\0"]),
            ("a.example/news*", &["pa.example\0/news\0", "pa.example\0/news/1?x\0x-host:b\0"], &["pa.example\0/new\0"]),
            ("a.example:80/*", &["pa.example:80\0/\0"], &["pa.example\0/\0", "pa.example:8080\0/\0"]),
            ("https://a.example/", &["sa.example\0/\0"], &["pa.example\0/\0", "sa.example.org\0/\0", "sb\0/\0"]),
            ("/news", &["pa\0/news\0", "sb:1\0/news?x\0"], &["pa\0/\0"]),
            ("[::1]/", &["p[::1]\0/\0", "p[::1]:80\0/\0"], &["p[::1]:80\0/a\0"]),
            ("[::1]:80/", &["p[::1]:80\0/\0"], &["p[::1]\0/\0"]),
        ] {
            let selection = Selection::parse(text).expect("it is valid");
            assert!(included.iter().all(|key| selection.includes(key.as_bytes())), "{text}");
            assert!(!others.iter().any(|key| selection.includes(key.as_bytes())), "{text}");
        }
        assert!(!Selection::parse("/*").expect("it is valid").includes(b""));
        for text in ["", "news", "https:///a", "a.example", "a b/", "/a\n"] {
            assert!(Selection::parse(text).is_err(), "{text:?}");
        }
    }
}
