//! The conditions of a route, and the conjunction of two of them.

/// Patterns for the values of fields or parameters, by their names.
pub(crate) type Named = Vec<(String, Vec<String>)>;

/// The conditions of a route. An empty list is met by every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    pub host: Vec<String>,
    pub path: Vec<String>,
    pub method: Vec<String>,
    pub source: Vec<String>,
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
        [&self.host, &self.path, &self.method, &self.source, &self.scheme].into_iter().chain(named)
    }

    /// The conditions of requests that meet both. `Ok(None)`: there is no such request. `Err`: a route cannot say it.
    pub fn and(&self, other: &Self) -> Result<Option<Self>, ()> {
        let mut both = Self::default();
        for (own, others, result) in [
            (&self.host, &other.host, &mut both.host),
            (&self.path, &other.path, &mut both.path),
            (&self.method, &other.method, &mut both.method),
            (&self.source, &other.source, &mut both.source),
            (&self.scheme, &other.scheme, &mut both.scheme),
        ] {
            match joined(own, others)? {
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

/// The patterns that a value meets which meets both lists.
fn joined(one: &[String], other: &[String]) -> Result<Option<Vec<String>>, ()> {
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
        let common = common(&left, &right)?;
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
fn common(left: &[String], right: &[String]) -> Result<Vec<String>, ()> {
    let mut list: Vec<String> = Vec::new();
    for one in left {
        for other in right {
            let narrow = match relation(one, other)? {
                None => continue,
                Some(pattern) => pattern,
            };
            if !list.iter().any(|known| known == narrow) {
                list.push(narrow.to_owned());
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
        (true, false) => Ok(fits(other, one).then_some(one)),
        (false, true) => Ok(fits(one, other).then_some(other)),
        (false, false) => match (prefix(one), prefix(other)) {
            (Some(first), Some(second)) if first.starts_with(second) => Ok(Some(one)),
            (Some(first), Some(second)) if second.starts_with(first) => Ok(Some(other)),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(()),
        },
    }
}

/// Whether a text fits a pattern with `*`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
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
}
