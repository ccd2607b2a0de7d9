//! `rewrite` and `return`: other paths, redirects and fixed responses.

use super::Nginx;
use super::context::Context;
use super::expressions::Expression;
use super::location::{Location, RULES};
use super::syntax::Directive;
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::note::Key;
use crate::redirect::{REDIRECTS, groups, target, with_variables};

impl Nginx<'_> {
    /// Writes the routes for `return`, `rewrite` and `if` of a block: of a location, or of the server. Returns whether they
    /// answer all requests.
    pub(super) fn rewrites(
        &mut self,
        block: &Directive,
        location: Option<&Location<'_>>,
        conditions: &Match,
        context: &Context,
        routes: &mut Vec<Route>,
    ) -> bool {
        let mut done = false;
        let mut rest = block.inside();
        while let Some((directive, behind)) = rest.split_first() {
            rest = behind;
            let key = super::key(directive);
            match directive.name.as_str() {
                "break" => {
                    let others = rest.iter().filter(|other| RULES.contains(&&*other.name));
                    others.for_each(|other| self.draft.same(&super::key(other), "break comes before it"));
                    break;
                }
                "return" if !done => {
                    let action = self.answer(directive, conditions, context, &key);
                    self.push(routes, conditions.clone(), action, key, context, false);
                    done = true;
                }
                "rewrite" => match redirect_of(directive) {
                    Some(Ok((path, action))) => match with_expression(conditions, path) {
                        Ok(Some(both)) => {
                            done |= both == *conditions;
                            self.push(routes, both, action, key, context, false);
                        }
                        _ => self.draft.lost(&key, "left out: a route cannot say its conditions"),
                    },
                    Some(Err(reason)) => self.draft.lost(&key, format!("left out: {reason}")),
                    None => self.rewritten(directive, rest, (location, conditions, context), routes),
                },
                "if" => done |= self.condition(directive, conditions, context, routes) && location.is_some(),
                _ => {}
            }
        }
        done
    }

    /// `rewrite` to another path, for which nginx looks for a location again, or with `break` stays in this one. `rest` are the
    /// directives behind it.
    fn rewritten(
        &mut self,
        directive: &Directive,
        rest: &[Directive],
        (location, conditions, context): (Option<&Location<'_>>, &Match, &Context),
        routes: &mut Vec<Route>,
    ) {
        let key = super::key(directive);
        let (expression, replacement, flag) = (directive.word(0), directive.word(1), directive.word(2));
        // nginx adds the query of the request, unless the new path ends with a question mark.
        let text = match replacement.strip_suffix('?') {
            None if replacement.contains('?') => format!("{replacement}&$args"),
            Some(path) if path.contains('?') => path.to_owned(),
            _ => replacement.to_owned(),
        };
        let path = match with_variables(&text, groups(&[format!("~{expression}")])) {
            Ok(path) if path.starts_with(['/', '$']) => path,
            Ok(_) => return self.draft.lost(&key, "rewrite of a route leads to a path"),
            Err(reason) => return self.draft.lost(&key, reason),
        };
        let Ok(Some(mut both)) = with_expression(conditions, vec![format!("~{expression}")]) else {
            return self.draft.lost(&key, "left out: a route cannot say its conditions");
        };
        let rules: Vec<&Directive> = rest.iter().filter(|other| RULES.contains(&&*other.name)).collect();
        let before = |name: &str| rules.iter().position(|other| other.name == name).map(|place| &rules[..place]);
        // Whether a rule in between may end the rules of this block, or depends on the path.
        let passes = |other: &&&Directive| match other.name.as_str() {
            "if" => other.words.iter().any(|word| word.contains("uri") || word.contains("filename")),
            "rewrite" => !(other.word(2).is_empty() && other.word(1).starts_with('/')) && fits_again(other.word(0), &path),
            _ => true,
        };
        if flag.is_empty() && before("return").is_some_and(|between| !between.iter().any(|other| passes(&other))) {
            return self.draft.same(&key, "return, which comes behind it, answers these requests");
        }
        let stays = flag == "break" || flag.is_empty() && before("break").is_some_and(<[_]>::is_empty);
        let decides = |other: &Directive| match other.name.as_str() {
            "if" | "return" => true,
            "rewrite" => fits_again(other.word(0), &path),
            _ => false,
        };
        let mut refusal = None;
        if flag.is_empty() && !stays && rest.iter().any(decides) {
            refusal =
                Some("routes decide at once about a new path, not after the other rules of this block: write last or break");
        }
        match location.filter(|_| stays) {
            Some(location) if refusal.is_none() && location.find("alias").is_none() => {
                return self.guarded(&both, context, routes, &|nginx, conditions, context| {
                    let (action, passed, _) = nginx.action(location, &key);
                    let filters = nginx.filters(context, passed.as_ref(), true);
                    Route { rewrite: Some(path.clone()), filters, ..Route::new(conditions.clone(), action, key.clone()) }
                });
            }
            Some(_) => refusal = Some("alias replaces the path once more: write rewrite and files into one route"),
            None => {}
        }
        // nginx follows the rules of a server once for each request, but routes begin again.
        if location.is_none() && refusal.is_none() && fits_again(expression, &path) {
            match except(&path) {
                Some(pattern) => {
                    let text = format!("paths like {pattern} are not rewritten once more: routes would do so again and again");
                    self.draft.lost(&key, text);
                    both.path.push(format!("!{pattern}"));
                }
                None => {
                    refusal =
                        Some("routes would change the path again and again: write a rewrite that its result does not fit");
                }
            }
        }
        match refusal {
            Some(reason) => {
                self.draft.lost(&key, format!("{reason}; until then, these requests get a 404"));
                self.push(routes, both, Action::status(404), key, context, false);
            }
            None => routes.push(Route { rewrite: Some(path), ..Route::new(both, Action::Again, key) }),
        }
    }

    /// `return` for requests that meet the conditions.
    pub(super) fn answer(&mut self, directive: &Directive, conditions: &Match, context: &Context, key: &Key) -> Action {
        let (first, second) = (directive.word(0), directive.word(1));
        let (status, text) = match first.parse::<u16>() {
            Ok(status) => (status, second),
            Err(_) => (302, first),
        };
        if REDIRECTS.contains(&status) && !text.is_empty() {
            return match target(text, groups(&conditions.path)) {
                Ok(to) => Action::Redirect { to, status },
                Err(reason) => {
                    self.draft.lost(key, format!("{reason}: these requests get a 404"));
                    Action::status(404)
                }
            };
        }
        if status == 444 {
            self.draft.lost(key, "Oribi answers each request: with a 403 here");
            return Action::status(403);
        }
        if text.contains('$') {
            self.draft.lost(key, "content has no variables");
        }
        let content = (!text.is_empty()).then(|| text.to_owned());
        let content_type = content.as_ref().and_then(|_| self.type_of_text(conditions, context));
        Action::Respond { status, content, content_type }
    }
}

/// Whether a path that was rewritten may fit an expression.
fn fits_again(expression: &str, path: &str) -> bool {
    let compiled = Expression::new(expression);
    // The values of groups are not known: those that are tried are short, or the letters of a group.
    let letter = |letter: &char| letter.is_alphanumeric() || "/_-".contains(*letter);
    let letters = expression.split(['(', ')']).map(|group| group.chars().filter(letter).collect());
    letters.chain(["a", "a/b", "1", ""].map(str::to_owned)).any(|value: String| compiled.fits(&example(path, &value)))
}

/// A path with a value in place of its variables.
fn example(path: &str, value: &str) -> String {
    let mut made = String::new();
    let mut rest = path.split('?').next().unwrap_or_default();
    while let Some((before, after)) = rest.split_once('$') {
        made.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(parts) => parts,
            None => after
                .split_at(after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len())),
        };
        if name.ends_with("uri") {
            made.push('/');
        }
        made.push_str(value);
        rest = behind;
    }
    made + rest
}

/// The pattern for all paths that a rewrite leads to; `None` if it is not known.
fn except(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    match path.find('$') {
        None => Some(path.to_owned()),
        Some(0 | 1) => None,
        Some(end) => Some(format!("{}*", &path[..end])),
    }
}

/// The conditions together with patterns of a path, of which an expression keeps its groups.
fn with_expression(conditions: &Match, path: Vec<String>) -> Result<Option<Match>, ()> {
    let both = match (conditions.path.as_slice(), path.as_slice()) {
        // An expression that begins with the path of its location says that path, too.
        ([prefix], [expression]) if is_below(prefix, expression) => Match { path, ..conditions.clone() },
        _ => return conditions.and(&Match { path, ..Match::default() }),
    };
    Ok(Some(both))
}

/// Whether all paths that fit an expression fit a pattern that is a prefix.
fn is_below(pattern: &str, expression: &str) -> bool {
    let literal = |letter: char| letter.is_ascii_alphanumeric() || "/-_".contains(letter);
    let (Some(prefix), Some(rest)) = (pattern.strip_suffix('*'), expression.strip_prefix("~^")) else { return false };
    let Some(rest) = rest.strip_prefix(prefix).filter(|_| prefix.chars().all(literal)) else { return false };
    // A repetition is about the last letter, and an alternative has no prefix.
    !rest.starts_with(['?', '*', '+', '{']) && !rest.contains('|')
}

/// The text of a redirect with the query of the request, which nginx adds unless the text ends with a question mark.
fn with_query(text: &str) -> String {
    match text.strip_suffix('?') {
        Some(whole) => whole.to_owned(),
        None if text.contains("$request_uri") || text.contains("${request_uri}") => text.to_owned(),
        None if text.contains('?') => format!("{text}&$args"),
        None => format!("{text}?$args"),
    }
}

/// A `rewrite` that is a redirect: its patterns for paths, and its action.
fn redirect_of(directive: &Directive) -> Option<Result<(Vec<String>, Action), String>> {
    let (expression, replacement, flag) = (directive.word(0), directive.word(1), directive.word(2));
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        _ if ["http://", "https://", "$scheme"].iter().any(|scheme| replacement.starts_with(scheme)) => 302,
        _ => return None,
    };
    let plain = expression.trim_start_matches('^').trim_end_matches('$');
    let (path, to) = match expression {
        "^" | "^/" | "^(.*)" | "^(.*)$" | "^/(.*)" | "^/(.*)$" => {
            let group = if expression.starts_with("^/(") { "/$1" } else { "$1" };
            let whole = if replacement.ends_with('?') { "$uri" } else { "$request_uri" };
            let is_last = replacement.trim_end_matches('?').ends_with(group) && !replacement.contains("/$1$1");
            (Vec::new(), if is_last { replacement.replace(group, whole) } else { replacement.to_owned() })
        }
        _ if expression.starts_with("^/")
            && expression.ends_with('$')
            && !plain.contains(['(', '[', '*', '+', '?', '\\', '|', '.', '{']) =>
        {
            (vec![plain.to_owned()], replacement.to_owned())
        }
        _ => (vec![format!("~{expression}")], replacement.to_owned()),
    };
    // A group of an expression that all paths fit needs the expression.
    let path = if path.is_empty() && to.contains("$1") { vec![format!("~{expression}")] } else { path };
    let to = target(&with_query(&to), groups(&path));
    Some(to.map(|to| (path, Action::Redirect { to, status })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_has_groups_and_the_query() {
        for (text, path, to) in [
            ("^/perm$ /moved permanent", "/perm", "/moved?$args"),
            ("^/perm$ /moved? permanent", "/perm", "/moved"),
            ("^/perm$ /moved?a=b permanent", "/perm", "/moved?a=b&$args"),
            ("^/perm/(.*)$ /moved/$1 permanent", "~^/perm/(.*)$", "/moved/$1?$args"),
            ("^/y/(.*)$ https://$host/m/$1 permanent", "~^/y/(.*)$", "https://$host/m/$1?$args"),
            ("^(.*)$ https://old.example.com$1 permanent", "", "https://old.example.com$request_uri"),
            ("^(.*)$ https://old.example.com$1? permanent", "", "https://old.example.com$uri"),
            ("^/(.*)$ /a/$1/b redirect", "~^/(.*)$", "/a/$1/b?$args"),
            ("^ https://$host$request_uri? permanent", "", "https://$host$request_uri"),
        ] {
            let words = text.split(' ').map(str::to_owned).collect();
            let directive = Directive { name: "rewrite".to_owned(), words, line: 1, block: None };
            let (patterns, action) = redirect_of(&directive).expect(text).expect(text);
            let Action::Redirect { to: written, .. } = action else { panic!("{text}: {action:?}") };
            assert_eq!((patterns.concat().as_str(), written.as_str()), (path, to), "{text}");
        }
    }

    #[test]
    fn a_rewrite_may_fit_its_own_result() {
        for (expression, path, fits, pattern) in [
            ("^/(.*)$", "/index.php?q=$1", true, Some("/index.php")),
            ("^/(.*)$", "/app/$1", true, Some("/app/*")),
            ("^/(.*)$", "/$1/b", true, None),
            ("^/old/(.*)$", "/new/$1", false, Some("/new/*")),
            ("^/([0-9]+)$", "/${1}", true, None),
            ("^/a$", "/b", false, Some("/b")),
            ("^/.+/x$", "$uri/x", true, None),
            ("^/(x.*)$", "/$1/y", true, None),
        ] {
            assert_eq!((fits_again(expression, path), except(path).as_deref()), (fits, pattern), "{expression} {path}");
        }
    }

    #[test]
    fn an_expression_may_say_its_prefix() {
        for (pattern, expression, expected) in [
            ("/a/*", "~^/a/(.*)$", true),
            ("/a*", "~^/a$", true),
            ("/a*", "~^/a?b", false),
            ("/a*", "~^/a|/b", false),
            ("/a*", "~/a", false),
            ("/a", "~^/a", false),
        ] {
            assert_eq!(is_below(pattern, expression), expected, "{pattern} {expression}");
        }
    }
}
