//! The variables of a request from a web server, adapted to the rules of each interface.
//!
//! Web servers split a path between SCRIPT_NAME and PATH_INFO in different ways. They also decode the path and collapse its
//! slashes, but an app that routes by the path needs the path that the client sent. So for PSGI and Rack (not for CGI's own
//! meaning, [`PathInfo::AsGiven`]):
//! * without PATH_INFO (nginx's own `fastcgi_params`, Apache's mod_proxy_fcgi) the app is at the root and gets the whole
//!   path; lighttpd sends an empty PATH_INFO and the whole path in SCRIPT_NAME instead;
//! * PATH_INFO is the part of REQUEST_URI after SCRIPT_NAME, if that part means the same as the PATH_INFO that was sent;
//!   otherwise the web server has rewritten the request, and its own PATH_INFO is used;
//! * SCRIPT_NAME is never a mere slash.

use super::{Entry, Environment, Key, PathInfo, Text, decode_percent};
use crate::{Gateway, Request};
use oribi_message::{KnownVariable, Span, TargetForm};

const SCRIPT_NAME: usize = 1;
const PATH_INFO: usize = 2;
const QUERY_STRING: usize = 4;
const SERVER_PROTOCOL: usize = 7;

/// The variable in which FastCGI's own library gives apps their role.
const ROLE: &[u8] = b"FCGI_ROLE";

impl Environment {
    /// Replaces the variables that come from the head by those of the web server.
    pub(super) fn lay_out_gateway(&mut self, request: &Request<'_>, gateway: &Gateway<'_>, path_info: PathInfo) {
        if gateway.is_own() {
            for (number, (known, _, value)) in gateway.variables().enumerate() {
                let text = Text::Variable(number as u32);
                if known == Some(KnownVariable::ScriptName) {
                    self.lay_out_mount(Split::of_mount(request, value), text, path_info);
                } else {
                    self.entries.push(Entry { key: Key::OTHER, name: Span::default(), value: text });
                }
            }
            return;
        }
        let mut script_name = None;
        let mut path = None;
        for (number, (known, name, value)) in gateway.variables().enumerate() {
            let number = number as u32;
            match known {
                Some(KnownVariable::ScriptName) => script_name = Some((number, value)),
                Some(KnownVariable::PathInfo) => path = Some((number, value)),
                Some(KnownVariable::QueryString) => self.replaced.push((QUERY_STRING, Text::Variable(number))),
                Some(KnownVariable::ServerProtocol) if !value.is_empty() => {
                    self.replaced.push((SERVER_PROTOCOL, Text::Variable(number)));
                }
                // These variables come from the request's head, its endpoints and its content.
                Some(
                    KnownVariable::RequestMethod
                    | KnownVariable::RequestUri
                    | KnownVariable::ServerName
                    | KnownVariable::ServerPort
                    | KnownVariable::ServerProtocol
                    | KnownVariable::RemoteAddr
                    | KnownVariable::RemotePort
                    | KnownVariable::ContentType
                    | KnownVariable::ContentLength,
                ) => {}
                // An app could mistake a name that is not spelled like a variable for a key of the interface itself, such as
                // `psgi.input`.
                _ if path_info != PathInfo::AsGiven && !is_variable_name(name) => {}
                _ if name == ROLE => {}
                _ => self.entries.push(Entry { key: Key::OTHER, name: Span::default(), value: Text::Variable(number) }),
            }
        }
        self.lay_out_role(gateway);
        if path_info == PathInfo::AsGiven {
            let text =
                |given: Option<(u32, &[u8])>| given.map_or(Text::Rendered(Span::default()), |given| Text::Variable(given.0));
            self.replaced.push((SCRIPT_NAME, text(script_name)));
            self.replaced.push((PATH_INFO, text(path)));
            return;
        }
        let split = Split::of_gateway(request, gateway);
        if let Some((number, _)) = script_name.filter(|_| !split.script_name.is_empty()) {
            self.replaced.push((SCRIPT_NAME, Text::Variable(number)));
        }
        match (split.path_info, path) {
            (Rest::Decoded(_), Some((number, _))) => self.replaced.push((PATH_INFO, Text::Variable(number))),
            (Rest::AsSent(rest) | Rest::Decoded(rest), _) if path_info == PathInfo::Decoded => {
                let start = self.rendered.len();
                decode_percent(rest, &mut self.rendered);
                self.replaced.push((PATH_INFO, Text::Rendered(Span::new(start, self.rendered.len()))));
            }
            (Rest::AsSent(rest) | Rest::Decoded(rest), _) => {
                let rest = self.render(rest);
                self.replaced.push((PATH_INFO, rest));
            }
        }
    }

    /// Lays out the path of a request for an app that is mounted at the value of `text`.
    fn lay_out_mount(&mut self, split: Split<'_>, text: Text, path_info: PathInfo) {
        let (false, Rest::AsSent(rest)) = (split.script_name.is_empty(), split.path_info) else { return };
        self.replaced.push((SCRIPT_NAME, text));
        let start = self.rendered.len();
        if path_info == PathInfo::AsSent {
            self.rendered.extend_from_slice(rest);
        } else {
            decode_percent(rest, &mut self.rendered);
        }
        self.replaced.push((PATH_INFO, Text::Rendered(Span::new(start, self.rendered.len()))));
    }

    /// Lays out the role of the app, which is in the protocol and not in a variable.
    fn lay_out_role(&mut self, gateway: &Gateway<'_>) {
        let start = self.rendered.len();
        self.rendered.extend_from_slice(ROLE);
        let name = Span::new(start, self.rendered.len());
        let value = self.render(gateway.role.as_str().as_bytes());
        self.entries.push(Entry { key: Key::OTHER, name, value });
    }
}

/// The split of a request's path, by the rules above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// The part that leads to the app, decoded; never a mere slash.
    pub script_name: &'a [u8],
    /// The part for the app.
    pub path_info: Rest<'a>,
}

/// The part of a path that is for the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest<'a> {
    /// As the client sent it, percent-encoded.
    AsSent(&'a [u8]),
    /// As the web server rewrote it, decoded.
    Decoded(&'a [u8]),
}

impl<'a> Split<'a> {
    /// Splits the path of a request. Without a web server in front, all of it is for the app, unless the app is mounted at a
    /// part of it.
    #[must_use]
    pub fn of(request: &Request<'a>) -> Self {
        match &request.gateway {
            Some(gateway) if !gateway.is_own() => Self::of_gateway(request, gateway),
            Some(gateway) => Self::of_mount(request, gateway.get(KnownVariable::ScriptName).unwrap_or_default()),
            None => Self::whole(request),
        }
    }

    /// Splits the path of a request for an app that is mounted at `prefix`, if the path begins with it. A path that begins with it
    /// only after normalization, such as `//prefix/`, stays whole.
    fn of_mount(request: &Request<'a>, prefix: &'a [u8]) -> Self {
        let rest = behind(request.head.path(), prefix).filter(|rest| rest.is_empty() || rest.starts_with(b"/"));
        match rest {
            Some(rest) if !prefix.is_empty() => Self { script_name: prefix, path_info: Rest::AsSent(rest) },
            _ => Self::whole(request),
        }
    }

    fn whole(request: &Request<'a>) -> Self {
        let path: &[u8] = match request.head.form() {
            TargetForm::Origin => request.head.path(),
            // "http://host" means the same as "http://host/" (RFC 9110, section 4.2.3).
            TargetForm::Absolute if request.head.path().is_empty() => b"/",
            TargetForm::Absolute => request.head.path(),
            TargetForm::Asterisk | TargetForm::Authority => b"",
        };
        Self { script_name: b"", path_info: Rest::AsSent(path) }
    }

    fn of_gateway(request: &Request<'a>, gateway: &Gateway<'a>) -> Self {
        let script = gateway.get(KnownVariable::ScriptName).unwrap_or_default();
        let Some(path) = gateway.get(KnownVariable::PathInfo) else { return Self::whole(request) };
        let astray = !path.is_empty() && !path.starts_with(b"/");
        if astray || (path.is_empty() && is_whole_path(request, script) && is_lighttpd(gateway)) {
            return Self::whole(request);
        }
        let script_name = if script == b"/" { b"" } else { script };
        let sent = behind(request.head.path(), script_name).filter(|rest| means(rest, path));
        Self { script_name, path_info: sent.map_or(Rest::Decoded(path), Rest::AsSent) }
    }
}

fn is_variable_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_lighttpd(gateway: &Gateway<'_>) -> bool {
    gateway.get(KnownVariable::ServerSoftware).is_some_and(|software| software.starts_with(b"lighttpd"))
}

fn is_whole_path(request: &Request<'_>, script: &[u8]) -> bool {
    behind(request.head.path(), script) == Some(b"")
}

/// The part of `path`, which is percent-encoded, after `start`, which is decoded.
fn behind<'a>(path: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let mut rest = path;
    for &expected in start {
        let (byte, length) = next_byte(rest)?;
        if byte != expected {
            return None;
        }
        rest = &rest[length..];
    }
    Some(rest)
}

/// Whether `path`, decoded and with its slashes collapsed, equals `meaning`, whose slashes are also collapsed for the
/// comparison.
fn means(path: &[u8], meaning: &[u8]) -> bool {
    let mut rest = path;
    let decoded = std::iter::from_fn(|| {
        let (byte, length) = next_byte(rest)?;
        rest = &rest[length..];
        Some(byte)
    });
    collapsed(decoded).eq(collapsed(meaning.iter().copied()))
}

/// The same bytes, with several slashes in a row replaced by one.
fn collapsed(bytes: impl Iterator<Item = u8>) -> impl Iterator<Item = u8> {
    let mut before = 0;
    bytes.filter(move |&byte| std::mem::replace(&mut before, byte) != b'/' || byte != b'/')
}

/// The first byte of a percent-encoded text, decoded, and the number of encoded bytes that it takes.
fn next_byte(text: &[u8]) -> Option<(u8, usize)> {
    let digit = |place: usize| text.get(place).and_then(|&byte| char::from(byte).to_digit(16));
    match (*text.first()?, digit(1), digit(2)) {
        (b'%', Some(high), Some(low)) => Some(((high * 16 + low) as u8, 3)),
        (byte, _, _) => Some((byte, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, PathInfo};
    use super::means;
    use crate::{Content, Endpoint, Gateway, Request};
    use oribi_message::{HeadLayout, KnownVariable, RequestHead, Role, Span, Variable};
    use std::collections::BTreeMap;

    /// The variables of a request for `uri` that a web server has sent with `given`.
    fn variables(uri: &str, given: &[(&str, &str)], path_info: PathInfo) -> BTreeMap<String, String> {
        variables_of(uri, given, path_info, |bytes, places| Gateway::new(Role::Responder, bytes, places, Content::None))
    }

    fn variables_of(
        uri: &str,
        given: &[(&str, &str)],
        path_info: PathInfo,
        gateway: for<'a> fn(&'a [u8], &'a [Variable]) -> Gateway<'a>,
    ) -> BTreeMap<String, String> {
        let mut text = String::new();
        let mut add = |part: &str| {
            text.push_str(part);
            Span::new(text.len() - part.len(), text.len())
        };
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        let mut layout = HeadLayout { method: add("GET"), path: add(path), ..HeadLayout::default() };
        if let Some(query) = query {
            add("?");
            layout.query = Some(add(query));
        }
        let known = |name: &str| KnownVariable::lookup(name.as_bytes());
        let places: Vec<_> =
            given.iter().map(|(name, value)| Variable { name: add(name), value: add(value), known: known(name) }).collect();
        let request = Request {
            head: RequestHead::new(text.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"80" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: Some(gateway(text.as_bytes(), &places)),
        };
        let mut all = BTreeMap::new();
        Environment::new().describe(&request, path_info, |_, name, value| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(all.insert(text(name), text(value)), None, "a variable came twice");
        });
        all
    }

    /// SCRIPT_NAME and PATH_INFO.
    fn split(uri: &str, given: &[(&str, &str)], path_info: PathInfo) -> (String, String) {
        let all = variables(uri, given, path_info);
        (all["SCRIPT_NAME"].clone(), all["PATH_INFO"].clone())
    }

    #[test]
    fn a_web_server_that_knows_no_path_info_gives_the_whole_path() {
        for given in [&[][..], &[("SCRIPT_NAME", "/a b/c")], &[("SCRIPT_NAME", "")]] {
            assert_eq!(split("/a%20b//c?x", given, PathInfo::Decoded), (String::new(), "/a b//c".to_owned()));
            assert_eq!(split("/a%20b//c?x", given, PathInfo::AsSent), (String::new(), "/a%20b//c".to_owned()));
        }
        let lighttpd = [("SERVER_SOFTWARE", "lighttpd/1.4.69"), ("SCRIPT_NAME", "/a b"), ("PATH_INFO", "")];
        assert_eq!(split("/a%20b", &lighttpd, PathInfo::Decoded), (String::new(), "/a b".to_owned()));
        assert_eq!(split("/a%20b", &lighttpd[1..], PathInfo::Decoded), ("/a b".to_owned(), String::new()));
    }

    #[test]
    fn an_app_is_mounted_at_the_start_of_a_path() {
        let split = |uri: &str, path_info| {
            let all = variables_of(uri, &[("SSL_X", "y"), ("SCRIPT_NAME", "/a b")], path_info, |bytes, places| {
                Gateway::own(bytes, places)
            });
            assert_eq!(all["SSL_X"], "y");
            (all["SCRIPT_NAME"].clone(), all["PATH_INFO"].clone())
        };
        let (mounted, whole) =
            (|rest: &str| ("/a b".to_owned(), rest.to_owned()), |path: &str| (String::new(), path.to_owned()));
        for (uri, decoded, as_sent) in [
            ("/a%20b", mounted(""), mounted("")),
            ("/a%20b/", mounted("/"), mounted("/")),
            ("/%61%20b/c%2Fd?e", mounted("/c/d"), mounted("/c%2Fd")),
            ("/a%20bc", whole("/a bc"), whole("/a%20bc")),
            ("//a%20b/c", whole("//a b/c"), whole("//a%20b/c")),
            ("/", whole("/"), whole("/")),
        ] {
            assert_eq!(split(uri, PathInfo::Decoded), decoded, "{uri}");
            assert_eq!(split(uri, PathInfo::AsGiven), decoded, "{uri}");
            assert_eq!(split(uri, PathInfo::AsSent), as_sent, "{uri}");
        }
    }

    #[test]
    fn the_path_behind_the_script_is_the_one_that_the_client_sent() {
        let given = [("SCRIPT_NAME", "/my app"), ("PATH_INFO", "/x/y z")];
        assert_eq!(split("/my%20app//x/y%20z?q", &given, PathInfo::Decoded), ("/my app".to_owned(), "//x/y z".to_owned()));
        assert_eq!(split("/my%20app//x/y%20z?q", &given, PathInfo::AsSent), ("/my app".to_owned(), "//x/y%20z".to_owned()));
        assert_eq!(split("/my%20app//x/y%20z?q", &given, PathInfo::AsGiven), ("/my app".to_owned(), "/x/y z".to_owned()));
    }

    #[test]
    fn a_path_that_the_web_server_has_rewritten_is_the_web_servers() {
        let given = [("SCRIPT_NAME", ""), ("PATH_INFO", "/new/x")];
        for path_info in [PathInfo::Decoded, PathInfo::AsSent, PathInfo::AsGiven] {
            assert_eq!(split("/old/x", &given, path_info), (String::new(), "/new/x".to_owned()));
        }
    }

    #[test]
    fn what_the_server_itself_says_changes_nothing_else() {
        let text = "/a%20bSSL_PROTOCOLTLSv1.3";
        let layout = HeadLayout { path: Span::new(0, 6), target: Span::new(0, 6), ..HeadLayout::default() };
        let variables = [Variable { name: Span::new(6, 18), value: Span::new(18, 25), known: None }];
        let request = Request {
            head: RequestHead::new(text.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"443" },
            forwarded_port: false,
            chosen_name: false,
            https: true,
            underscores: false,
            gateway: Some(Gateway::own(text.as_bytes(), &variables)),
        };
        for (path_info, path) in [(PathInfo::Decoded, "/a b"), (PathInfo::AsSent, "/a%20b"), (PathInfo::AsGiven, "/a b")] {
            let mut all = BTreeMap::new();
            Environment::new().describe(&request, path_info, |_, name, value| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                all.insert(text(name), text(value));
            });
            let found = ["PATH_INFO", "HTTPS", "SSL_PROTOCOL"].map(|name| all[name].as_str());
            assert_eq!(found, [path, "on", "TLSv1.3"], "{path_info:?}");
            assert!(!all.contains_key("FCGI_ROLE"));
        }
        assert!(request.web_server().is_none());
    }

    #[test]
    fn a_mere_slash_is_no_script_name() {
        for given in [&[("SCRIPT_NAME", "/"), ("PATH_INFO", "/x")][..], &[("SCRIPT_NAME", "/"), ("PATH_INFO", "x")]] {
            assert_eq!(split("/x", given, PathInfo::Decoded), (String::new(), "/x".to_owned()));
        }
    }

    #[test]
    fn other_variables_are_passed_on_unless_they_look_like_keys_of_the_interface() {
        let given =
            [("DOCUMENT_ROOT", "/srv"), ("psgi.input", "evil"), ("QUERY_STRING", "b=2"), ("", "x"), ("SERVER_NAME", "n")];
        let all = variables("/?a=1", &given, PathInfo::Decoded);
        assert_eq!((all["DOCUMENT_ROOT"].as_str(), all["QUERY_STRING"].as_str()), ("/srv", "b=2"));
        assert!(!all.contains_key("psgi.input") && !all.contains_key(""));
        assert_eq!(all["SERVER_NAME"], "localhost", "the request says it");
        let role = variables("/", &[("FCGI_ROLE", "NONE")], PathInfo::Decoded)["FCGI_ROLE"].clone();
        assert_eq!(role, "RESPONDER", "the protocol says it");
        assert_eq!(variables("/?a=1", &given, PathInfo::AsGiven)["psgi.input"], "evil");
        assert_eq!(variables("/?a=1", &given[..1], PathInfo::Decoded)["QUERY_STRING"], "a=1");
        assert_eq!(variables("/", &[("SERVER_PROTOCOL", "HTTP/2.0")], PathInfo::Decoded)["SERVER_PROTOCOL"], "HTTP/2.0");
    }

    #[test]
    fn escapes_and_repeated_slashes_do_not_change_what_a_path_means() {
        for (path, meaning) in [("/a%2Fb", "/a/b"), ("//a///b/", "/a/b/"), ("/%25", "/%"), ("/%zz", "/%zz"), ("", "")] {
            assert!(means(path.as_bytes(), meaning.as_bytes()), "{path} {meaning}");
        }
        for (path, meaning) in [("/a", "/b"), ("/a", "/a/"), ("/a", ""), ("", "/")] {
            assert!(!means(path.as_bytes(), meaning.as_bytes()), "{path} {meaning}");
        }
    }
}
