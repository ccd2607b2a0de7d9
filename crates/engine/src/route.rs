//! The routes by which requests are counted ([`oribi_stats::totals`]).

use oribi_config::{Route, Settings, number_of_name};

/// The routes by their prefixes. A request counts for one route only, so the longest prefix is first.
#[derive(Debug)]
pub(super) struct Routes(Vec<(Box<[u8]>, u8)>);

impl Routes {
    /// Returns `None` without names of routes, so that paths need not be compared.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let names = settings.route_names();
        let number = |route: &Route| (route.prefix().as_bytes().into(), number_of_name(route, &names));
        let mut routes: Vec<(Box<[u8]>, u8)> = settings.metrics_routes.iter().map(number).collect();
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        (!names.is_empty()).then_some(Self(routes))
    }

    /// The number of the route of this path, which is as the client sent it; 0 if the path is on no route.
    #[inline]
    pub(super) fn of(&self, path: &[u8]) -> u8 {
        let on = |prefix: &[u8]| path.strip_prefix(prefix).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        self.0.iter().find(|(prefix, _)| on(prefix)).map_or(0, |(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::{Config, Origin};

    #[test]
    fn a_request_is_on_the_route_with_the_longest_prefix_of_whole_segments() {
        let of = |routes: &[&str], path: &str| {
            let mut config = Config::with(|_| None, 1);
            config.set("metrics", "9090", Origin::CommandLine).expect("fits");
            for route in routes {
                config.set("metrics-route", route, Origin::CommandLine).expect("fits");
            }
            let settings = config.finish().expect("fits");
            let number = Routes::new(&settings).map(|routes| routes.of(path.as_bytes()));
            number.map(|number| settings.route_names()[usize::from(number)].to_owned())
        };
        let routes = ["/api", "items=/shop/items/*", "/shop/*", "shop=/store"];
        for (path, name) in [
            ("/api", "/api"),
            ("/api/", "/api"),
            ("/api/v1/users", "/api"),
            ("/apis", "other"),
            ("/API", "other"),
            ("/%61pi", "other"),
            ("/", "other"),
            ("*", "other"),
            ("", "other"),
            ("/shop", "/shop"),
            ("/shop/item", "/shop"),
            ("/shop/items", "items"),
            ("/shop/items/7", "items"),
            ("/store/x", "shop"),
            ("//api", "other"),
        ] {
            assert_eq!(of(&routes, path).as_deref(), Some(name), "{path}");
        }
        for (path, name) in [("/", "all"), ("/x/y", "all"), ("/api/x", "/api"), ("*", "other"), ("", "all")] {
            assert_eq!(of(&["/api", "all=/"], path).as_deref(), Some(name), "{path}");
        }
        assert_eq!(of(&[], "/api"), None);
    }
}
