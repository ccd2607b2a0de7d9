//! The conditions of a route, and the conjunction of two of them.

use oribi_route::fits_wildcard;
use std::net::{IpAddr, SocketAddr};

/// Patterns for the values of fields or parameters, by their names.
pub(crate) type Named = Vec<(String, Vec<String>)>;

/// The conditions of a route. An empty list is met by every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    pub host: Vec<String>,
    pub path: Vec<String>,
    pub method: Vec<String>,
    pub source: Vec<String>,
    pub destination: Vec<String>,
    pub scheme: Vec<String>,
    pub field: Named,
    pub query: Named,
}

impl Match {
    /// Whether every request meets the conditions.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// The lists of patterns.
    pub fn lists(&self) -> impl Iterator<Item = &Vec<String>> {
        let named = self.field.iter().chain(&self.query).map(|(_, patterns)| patterns);
        [&self.host, &self.path, &self.method, &self.source, &self.destination, &self.scheme].into_iter().chain(named)
    }

    /// The conditions of requests that meet both. `Ok(None)`: there is no such request. `Err`: a route cannot say it.
    pub fn and(&self, other: &Self) -> Result<Option<Self>, ()> {
        let mut both = Self::default();
        for (own, others, result) in [
            (&self.host, &other.host, &mut both.host),
            (&self.path, &other.path, &mut both.path),
            (&self.method, &other.method, &mut both.method),
            (&self.scheme, &other.scheme, &mut both.scheme),
        ] {
            match joined(own, others)? {
                Some(list) => *result = list,
                None => return Ok(None),
            }
        }
        for (own, others, result) in
            [(&self.source, &other.source, &mut both.source), (&self.destination, &other.destination, &mut both.destination)]
        {
            match joined_by(own, others, addresses)? {
                Some(list) => *result = list,
                None => return Ok(None),
            }
        }
        for (own, others, result) in
            [(&self.field, &other.field, &mut both.field), (&self.query, &other.query, &mut both.query)]
        {
            result.clone_from(own);
            for (name, patterns) in others {
                match result.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                    None => result.push((name.clone(), patterns.clone())),
                    Some((_, known)) if known == patterns => {}
                    Some(_) => return Err(()),
                }
            }
        }
        Ok(Some(both))
    }
}

/// The patterns that a text meets which meets both lists.
fn joined(one: &[String], other: &[String]) -> Result<Option<Vec<String>>, ()> {
    joined_by(one, other, |one, other| relation(one, other).map(|narrow| narrow.map(str::to_owned)))
}

/// The pattern that a value meets which meets two, `None` if none does.
type Relation = fn(&str, &str) -> Result<Option<String>, ()>;

/// The patterns that a value meets which meets both lists.
fn joined_by(one: &[String], other: &[String], relation: Relation) -> Result<Option<Vec<String>>, ()> {
    if one.is_empty() || one == other {
        return Ok(Some(other.to_vec()));
    }
    if other.is_empty() {
        return Ok(Some(one.to_vec()));
    }
    let negative = |list: &[String]| -> Vec<String> { list.iter().filter(|text| text.starts_with('!')).cloned().collect() };
    let positive = |list: &[String]| -> Vec<String> { list.iter().filter(|text| !text.starts_with('!')).cloned().collect() };
    let (left, right) = (positive(one), positive(other));
    let mut list = if left.is_empty() || right.is_empty() {
        [left, right].concat()
    } else {
        let common = common(&left, &right, relation)?;
        if common.is_empty() {
            return Ok(None);
        }
        common
    };
    for pattern in [negative(one), negative(other)].concat() {
        if !list.contains(&pattern) {
            list.push(pattern);
        }
    }
    Ok(Some(list))
}

/// The patterns that a value meets which meets one of each list.
fn common(left: &[String], right: &[String], relation: Relation) -> Result<Vec<String>, ()> {
    let mut list: Vec<String> = Vec::new();
    for one in left {
        for other in right {
            let narrow = match relation(one, other)? {
                None => continue,
                Some(pattern) => pattern,
            };
            if !list.contains(&narrow) {
                list.push(narrow);
            }
        }
    }
    Ok(list)
}

/// The narrower of two patterns, `None` if no value meets both.
fn relation<'p>(one: &'p str, other: &'p str) -> Result<Option<&'p str>, ()> {
    if one == other {
        return Ok(Some(one));
    }
    if one.starts_with('~') || other.starts_with('~') {
        return Err(());
    }
    let prefix = |text: &'p str| text.strip_suffix('*').filter(|rest| !rest.contains('*'));
    let literal = |text: &str| !text.contains('*');
    match (literal(one), literal(other)) {
        (true, true) => Ok(None),
        (true, false) => Ok(fits_wildcard(other, one.as_bytes()).then_some(one)),
        (false, true) => Ok(fits_wildcard(one, other.as_bytes()).then_some(other)),
        (false, false) => match (prefix(one), prefix(other)) {
            (Some(first), Some(second)) if first.starts_with(second) => Ok(Some(one)),
            (Some(first), Some(second)) if second.starts_with(first) => Ok(Some(other)),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(()),
        },
    }
}

/// The relation of two patterns of addresses, perhaps with ports.
fn addresses(one: &str, other: &str) -> Result<Option<String>, ()> {
    if one == other {
        return Ok(Some(one.to_owned()));
    }
    let path = |pattern: &'_ str| pattern.strip_prefix("unix").map(|rest| rest.strip_prefix(':').unwrap_or("*").to_owned());
    match (path(one), path(other)) {
        (None, None) => {}
        (Some(one), Some(other)) => return Ok(relation(&one, &other)?.map(|path| format!("unix:{path}"))),
        _ => return Ok(None),
    }
    let ((host, port), (other_host, other_port)) = (parts(one)?, parts(other)?);
    if port.zip(other_port).is_some_and(|(port, other)| port != other) {
        return Ok(None);
    }
    let host = match (host, other_host) {
        (None, host) | (host, None) => host,
        (Some(host), Some(other)) if host == other => Some(host),
        (Some(_), Some(_)) => return Ok(None),
    };
    let host = host.map_or_else(|| "*".to_owned(), |host| if host.is_ipv6() { format!("[{host}]") } else { host.to_string() });
    Ok(Some(match port.or(other_port) {
        Some(port) => format!("{host}:{port}"),
        None => host.trim_matches(['[', ']']).to_owned(),
    }))
}

/// The address and the port of a pattern, `None` for any. Networks and ranges are errors: whether two of them have something in
/// common is not known here.
fn parts(pattern: &str) -> Result<(Option<IpAddr>, Option<u16>), ()> {
    if let Some(port) = pattern.strip_prefix("*:").or_else(|| pattern.strip_prefix(':').filter(|rest| !rest.contains(':'))) {
        return Ok((None, Some(port.parse().map_err(drop)?)));
    }
    if let Ok(address) = pattern.trim_matches(['[', ']']).parse() {
        return Ok((Some(address), None));
    }
    let whole: SocketAddr = pattern.parse().map_err(drop)?;
    Ok((Some(whole.ip()), Some(whole.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_conjunction_is_exact_or_refused() {
        for (one, other, expected) in [
            ("", "/a", Ok(Some("/a"))),
            ("/a /b", "/b /c", Ok(Some("/b"))),
            ("/a/*", "/a/b /c", Ok(Some("/a/b"))),
            ("/a/*", "/a/b/*", Ok(Some("/a/b/*"))),
            ("/a/*", "/b/*", Ok(None)),
            ("/a/*", "!/a/b", Ok(Some("/a/* !/a/b"))),
            ("!/a", "!/b", Ok(Some("!/a !/b"))),
            ("/a", "/b !/c", Ok(None)),
            ("~a", "~a", Ok(Some("~a"))),
            ("~a", "~b", Err(())),
            ("*.php", "/a/*", Err(())),
            ("*.php", "/a.php /b", Ok(Some("/a.php"))),
        ] {
            let expected = expected.map(|text| text.map(list));
            assert_eq!(joined(&list(one), &list(other)), expected, "{one} and {other}");
        }
    }

    #[test]
    fn networks_are_not_taken_for_disjoint() {
        for (one, other, expected) in [
            ("10.0.0.0/8", "10.1.1.1", Err(())),
            ("10.0.0.0/8", "10.0.0.0/8", Ok(Some("10.0.0.0/8"))),
            ("10.0.0.1", "10.0.0.2", Ok(None)),
            ("10.0.0.0/8", "!10.1.1.1", Ok(Some("10.0.0.0/8 !10.1.1.1"))),
            ("*:80", "10.0.0.1", Ok(Some("10.0.0.1:80"))),
            ("*:80", "*:81 10.0.0.1:80", Ok(Some("10.0.0.1:80"))),
            ("*:80 unix", "unix", Ok(Some("unix"))),
            ("*:80 unix", "unix:/a.sock", Ok(Some("unix:/a.sock"))),
            ("unix:/a.sock", "unix:/b.sock", Ok(None)),
            ("unix:/a.sock", "10.0.0.1", Ok(None)),
            ("unix:/run/*", "unix:/run/a.sock !unix:/b.sock", Ok(Some("unix:/run/a.sock !unix:/b.sock"))),
            ("*:80", "10.0.0.1:81", Ok(None)),
            ("*:80", "*:80-90", Err(())),
            ("[::1]:80", "0::1", Ok(Some("[::1]:80"))),
            ("::1", "::2", Ok(None)),
        ] {
            let expected = expected.map(|text| text.map(list));
            assert_eq!(joined_by(&list(one), &list(other), addresses), expected, "{one} and {other}");
        }
    }
}
