//! `index`: nginx looks for the location of the file that it finds, but a route sends it itself.

use super::Nginx;
use super::alias::Of;
use super::context::Context;
use super::expressions::Expression;
use super::location::{Kind, Location};
use super::nesting::{combined, directory_of};
use crate::note::Key;

/// The name that nginx looks for without the directive.
const DEFAULT: &str = "index.html";

/// Endings of files that are programs.
const PROGRAMS: &[&str] = &["cgi", "fcgi", "lua", "phar", "phtml", "pl", "psgi", "py", "rb", "ru", "sh"];

/// Directives of a location that do something else than to send files.
const ACTIONS: &[&str] = &["alias", "if", "internal", "limit_except", "return", "rewrite"];

/// A location that could be that of an index.
pub(super) struct Place {
    kind: Kind,
    /// The path, or the expression.
    path: String,
    expression: Option<Expression>,
    acts: bool,
    context: Context,
    name: String,
}

impl Place {
    fn of(location: &Location<'_>) -> Self {
        let acts = |name: &str| name.ends_with("_pass") || name == "passenger_enabled" || ACTIONS.contains(&name);
        Self {
            kind: location.kind,
            path: location.path.clone(),
            expression: location.kind.is_expression().then(|| Expression::new(&location.path)),
            acts: location.closed.is_some() || location.directive.inside().iter().any(|inside| acts(&inside.name)),
            context: location.context.clone(),
            name: location.directive.words.join(" "),
        }
    }

    /// Whether a file of a route with a context could be sent although this location answers otherwise.
    fn differs(&self, context: &Context) -> bool {
        let own = &self.context;
        let refuses = !own.access.is_empty() || own.logins.iter().flatten().next().is_some();
        self.acts || refuses && (&own.access, &own.logins, &own.users) != (&context.access, &context.logins, &context.users)
    }

    fn fits(&self, path: &str) -> bool {
        self.expression.as_ref().is_some_and(|expression| expression.fits(path))
    }

    fn takes(&self, path: &str) -> bool {
        match self.kind {
            Kind::Exact => self.path == path,
            Kind::Inside | Kind::Expression => self.fits(path),
            Kind::Final | Kind::Prefix => path.starts_with(&self.path),
        }
    }

    /// Whether it may take the file with a name of a directory below a prefix, but not the directory.
    fn may_take(&self, prefix: &str, name: &str) -> bool {
        match self.kind {
            Kind::Exact => {
                self.path.starts_with(prefix) && self.path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'))
            }
            Kind::Final | Kind::Prefix => {
                let part = self.path.rsplit('/').next().unwrap_or_default();
                self.path.starts_with(prefix) && !part.is_empty() && name.starts_with(part)
            }
            Kind::Inside | Kind::Expression => {
                if !prefix.is_empty() && combined(prefix, &self.path) == Ok(None) {
                    return false;
                }
                let says = |part: &str| !part.is_empty() && self.path.to_ascii_lowercase().contains(part);
                let lower = name.to_ascii_lowercase();
                let (stem, ending) = lower.rsplit_once('.').unwrap_or((&lower, ""));
                let below = format!("{}/", prefix.trim_end_matches('/'));
                let own = directory_of(&self.path).filter(|own| own.starts_with(prefix));
                let directories = [format!("{below}a/"), format!("{below}a/b/"), below].into_iter().chain(own);
                let by_name = |directory: String| !self.fits(&directory) && self.fits(&format!("{directory}{name}"));
                says(stem) || says(ending) || directories.into_iter().any(by_name)
            }
        }
    }
}

/// Whether no path that fits an expression ends with a slash.
fn is_of_files(expression: &str) -> bool {
    let whole = expression.strip_suffix(')').filter(|rest| rest.ends_with('$')).unwrap_or(expression);
    let Some(rest) = whole.strip_suffix('$') else { return false };
    let rest = rest.strip_suffix("\\n?").unwrap_or(rest);
    let endings = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((head, _)) if head.contains('|') => return false,
        Some((_, group)) => group,
        None if rest.contains('|') => return false,
        None => rest,
    };
    endings.split('|').all(|ending| {
        let mut letters = ending.chars().rev();
        letters.next().is_some_and(|last| last.is_ascii_alphanumeric()) && letters.next() != Some('\\')
    })
}

impl Nginx<'_> {
    /// Remembers all locations of a server, one of which decides about the file for a directory.
    pub(super) fn note_places(&mut self, locations: &[Location<'_>]) {
        self.places = locations.iter().map(Place::of).collect();
    }

    /// The names of the files for directories of a location; none for the default.
    pub(super) fn indexes(&mut self, of: Of<'_>, context: &Context, key: &Key) -> Vec<String> {
        let key = Key { line: key.line, name: "index".to_owned() };
        let default = [DEFAULT.to_owned()];
        let all: &[String] = context.index.as_deref().unwrap_or(&default);
        let mut names = Vec::new();
        for name in all {
            let ending = name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_ascii_lowercase());
            let reason = if name.contains(['/', '$', ',']) {
                Some("index of files has names only".to_owned())
            } else if ending.starts_with("php") || PROGRAMS.contains(&&*ending) {
                Some("no file with code is sent; write a route to an app for it".to_owned())
            } else {
                let other = self.places.iter().find(|place| place.differs(context) && self.decides(place, of, name));
                other.map(|place| format!("location {} decides about it, so write a route for it", place.name))
            };
            match reason {
                Some(reason) => self.draft.lost(&key, format!("{name} is left out: {reason}")),
                None => names.push(name.clone()),
            }
        }
        match (names.is_empty(), &context.index) {
            (true, _) => vec!["off".to_owned()],
            (false, None) => Vec::new(),
            (false, Some(_)) => names,
        }
    }

    /// Whether a location may be that of the file with a name in a directory of another one.
    fn decides(&self, place: &Place, of: Of<'_>, name: &str) -> bool {
        match of {
            Of::Exact(path) => {
                let path = format!("{path}{name}");
                let first = self.places.iter().find(|place| place.takes(&path));
                first.is_some_and(|first| std::ptr::eq(first, place))
            }
            Of::Prefix(path) => {
                let own =
                    self.places.iter().find(|own| !own.kind.is_expression() && own.path == path && own.kind != Kind::Exact);
                let is_final = own.is_some_and(|own| own.kind == Kind::Final);
                let is_own = own.is_some_and(|own| std::ptr::eq(own, place));
                let is_elsewhere = is_own || is_final && place.kind == Kind::Expression;
                !is_elsewhere && place.may_take(path, name)
            }
            Of::Expression(expression) => {
                let ends = expression.trim_end_matches('$').trim_end_matches("\\n?").trim_end_matches(')');
                let is_own = place.kind.is_expression() && place.path == expression;
                // The file of a directory need not fit the end of the expression.
                let may = expression.ends_with('$') && !ends.ends_with(".*") || place.may_take("", name);
                !is_own && !is_of_files(expression) && may
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_that_of_files() {
        for (expression, expected) in [
            (r"\.php$", true),
            (r"\.php\n?$", true),
            (r"(?i)\.(?:png|jpg)$", true),
            (r"^/a/.*(?i:\.(png|jpg)$)", true),
            (r"\.php", false),
            (r"(/|\.php)$", false),
            (r"/|\.php$", false),
            (r"\w$", false),
            (r"a*$", false),
        ] {
            assert_eq!(is_of_files(expression), expected, "{expression}");
        }
    }
}
