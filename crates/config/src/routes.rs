//! The routes by which requests are counted.

use std::fmt;

/// The name for requests that are on no route.
pub(crate) const OTHER: &str = "other";

/// The longest name in bytes: a name and its length together fill two lines of the memory with the counters of routes.
pub const NAME_BYTES: usize = 56;

/// The most routes: with the usual buckets, each has some 20 series in Prometheus, and takes 2 KiB in each process that counts.
const ROUTES: usize = 32;

/// The requests whose paths begin with certain segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    name: String,
    /// The prefix without a slash at its end; empty: all paths.
    prefix: String,
}

impl Route {
    /// Parses `/PREFIX` or `NAME=/PREFIX`; `/*` may follow.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected /PREFIX or NAME=/PREFIX, such as /shop, shop=/shop or '/shop/*', which is the same as /shop";
        let text = text.trim();
        let (name, path) = match text.split_once('=') {
            Some((name, path)) if !text.starts_with('/') => (Some(name.trim_end()), path.trim_start()),
            _ => (None, text),
        };
        let prefix = path.strip_suffix('*').filter(|path| path.ends_with('/')).unwrap_or(path);
        if !prefix.starts_with('/') || !prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#*".contains(&byte)) {
            return Err(EXPECTED.to_owned());
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let name = name.unwrap_or(if prefix.is_empty() { "/" } else { prefix });
        if name.is_empty() || name.contains(char::is_control) {
            return Err(EXPECTED.to_owned());
        }
        // The memory that contains the name is passed on to later programs.
        if name.len() > NAME_BYTES {
            return Err(format!("expected a name of at most {NAME_BYTES} bytes for the route, as in NAME=/PREFIX"));
        }
        if name == OTHER {
            return Err(format!("expected another name for the route: {OTHER} is the name of all requests without a route"));
        }
        Ok(Self { name: name.to_owned(), prefix: prefix.to_owned() })
    }

    /// Adds the route to `routes`.
    pub(super) fn join(self, routes: &mut Vec<Self>) -> Result<(), String> {
        if let Some(present) = routes.iter().find(|route| route.prefix == self.prefix) {
            return if *present == self { Ok(()) } else { Err(format!("{present} is a route with the same prefix")) };
        }
        if routes.len() == ROUTES {
            return Err(format!("expected at most {ROUTES} routes"));
        }
        routes.push(self);
        Ok(())
    }

    /// The prefix of the route's paths, without a slash at the end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for Route {
    /// Formats the value so that `Route::parse` can parse it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.prefix.is_empty() { "/" } else { &self.prefix };
        if self.name == path { formatter.write_str(path) } else { write!(formatter, "{}={path}", self.name) }
    }
}

/// Returns the names under which requests are counted, [`OTHER`] first; empty without routes. Several routes may share a name.
/// `labels` are the names of other routes than those by prefix.
pub(crate) fn route_names<'a>(routes: &'a [Route], labels: &'a [String]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in routes.iter().map(|route| &route.name).chain(labels) {
        if names.is_empty() {
            names.push(OTHER);
        }
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Adds the name of a route of a configuration file to `labels`, unless there are too many, or it is too long to be counted.
pub fn join_label(name: &str, labels: &mut Vec<String>) {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES && name != OTHER && !name.contains(char::is_control);
    if fits && labels.len() < ROUTES && labels.iter().all(|label| label != name) {
        labels.push(name.to_owned());
    }
}

/// The index of a route's name in `names`.
pub fn number_of_name(route: &Route, names: &[&str]) -> u8 {
    let number = names.iter().position(|name| *name == route.name).unwrap_or_default();
    // It fits, because there are few.
    number as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_prefix_and_may_have_a_name() {
        for (text, name, prefix, shown) in [
            ("/api", "/api", "/api", "/api"),
            (" /api/ ", "/api", "/api", "/api"),
            ("/shop/*", "/shop", "/shop", "/shop"),
            ("shop=/shop/*", "shop", "/shop", "shop=/shop"),
            ("the shop = /shop/items", "the shop", "/shop/items", "the shop=/shop/items"),
            ("/a=b", "/a=b", "/a=b", "/a=b"),
            ("a=/b=c", "a", "/b=c", "a=/b=c"),
            ("/", "/", "", "/"),
            ("/*", "/", "", "/"),
            ("all=/", "all", "", "all=/"),
            ("caf\u{e9}=/%C3%A9", "caf\u{e9}", "/%C3%A9", "caf\u{e9}=/%C3%A9"),
        ] {
            let route = Route::parse(text).expect(text);
            assert_eq!((route.name.as_str(), route.prefix.as_str()), (name, prefix), "{text}");
            assert_eq!(route.to_string(), shown, "{text}");
            assert_eq!(Route::parse(shown), Ok(route), "{shown}");
        }
        let long = format!("{}=/a", "x".repeat(NAME_BYTES));
        assert!(Route::parse(&long).is_ok());
        for (text, part) in [
            ("", "expected /PREFIX"),
            ("api", "expected /PREFIX"),
            ("=/api", "expected /PREFIX"),
            ("a=", "expected /PREFIX"),
            ("a=b", "expected /PREFIX"),
            ("/a?b", "expected /PREFIX"),
            ("/a*", "expected /PREFIX"),
            ("/*/b", "expected /PREFIX"),
            ("/a b", "expected /PREFIX"),
            ("/\u{e9}", "expected /PREFIX"),
            ("a\nb=/c", "expected /PREFIX"),
            ("other=/a", "expected another name"),
            (&format!("x{long}"), "at most 56 bytes"),
            (&format!("/{}", "x".repeat(NAME_BYTES)), "at most 56 bytes"),
        ] {
            let why = Route::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn routes_share_names_and_never_prefixes() {
        let (mut routes, route) = (Vec::new(), |text: &str| Route::parse(text).expect("it is a route"));
        for text in ["/api", "shop=/shop", "shop=/store", "/api"] {
            route(text).join(&mut routes).expect("it fits");
        }
        let names = route_names(&routes, &[]);
        assert_eq!(names, [OTHER, "/api", "shop"]);
        assert_eq!(routes.iter().map(|route| number_of_name(route, &names)).collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(route("x=/shop").join(&mut routes), Err("shop=/shop is a route with the same prefix".to_owned()));
        for number in routes.len()..ROUTES {
            route(&format!("/{number}")).join(&mut routes).expect("it fits");
        }
        assert!(route("/more").join(&mut routes).is_err_and(|why| why.contains("at most 32")));
        assert!(route_names(&[], &[]).is_empty());
    }
}
