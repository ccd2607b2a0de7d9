//! `if` with an answer: routes with its condition.

use super::context::Context;
use super::expressions::{Translated, translated, with_line_feed};
use super::location::{RULES, Routes, is_refusal};
use super::nesting::combined;
use super::syntax::Directive;
use super::{Nginx, key};
use crate::conditions::Match;
use crate::draft::Action;

/// The words of a condition, without its parentheses.
fn words(directive: &Directive) -> Vec<String> {
    let mut words = directive.words.clone();
    match words.first_mut() {
        Some(first) if first == "(" => _ = words.remove(0),
        Some(first) => *first = first.strip_prefix('(').unwrap_or(first).to_owned(),
        None => {}
    }
    match words.last_mut() {
        Some(last) if last == ")" => _ = words.pop(),
        Some(last) => *last = last.strip_suffix(')').unwrap_or(last).to_owned(),
        None => {}
    }
    words
}

/// The pattern of a route for values that a sign and a value say.
fn pattern(sign: &str, value: &str, is_path: bool) -> Option<String> {
    let expression = |any_case: &str| match translated(&format!("{any_case}{value}")) {
        // In PCRE, `$` fits before a line feed at the end, too.
        Translated::Same(expression) if is_path => Some(with_line_feed(&expression)),
        Translated::Same(expression) => Some(expression),
        Translated::Wider(_) | Translated::Unknown => None,
    };
    Some(match sign {
        // A field that is not there is empty, too.
        "=" if value.is_empty() => "!~.".to_owned(),
        "!=" if value.is_empty() => "~.".to_owned(),
        "=" => value.to_owned(),
        "!=" => format!("!{value}"),
        "~" => format!("~{}", expression("")?),
        "~*" => format!("~{}", expression("(?i)")?),
        "!~" => format!("!~{}", expression("")?),
        "!~*" => format!("!~{}", expression("(?i)")?),
        _ => return None,
    })
}

/// The conditions of a block together with its own. `Ok(None)`: no request meets both.
///
/// # Errors
/// A route cannot say them.
fn joined(conditions: &Match, own: &Match) -> Result<Option<Match>, ()> {
    if let ([prefix], [expression]) = (conditions.path.as_slice(), own.path.as_slice())
        && let (Some(prefix), Some(expression)) = (prefix.strip_suffix('*'), expression.strip_prefix('~'))
        && !prefix.starts_with(['!', '~'])
    {
        let path = combined(prefix, expression)?;
        return Ok(path.map(|path| Match { path: vec![format!("~{path}")], ..conditions.clone() }));
    }
    conditions.and(own)
}

impl Nginx<'_> {
    /// `if` with an answer: of hosts, schemes and methods. Returns whether a route refuses all requests in place of it.
    pub(super) fn condition(
        &mut self,
        directive: &Directive,
        conditions: &Match,
        context: &Context,
        routes: &mut Routes,
    ) -> bool {
        let key = key(directive);
        let words = words(directive);
        let answer = directive.inside().iter().find(|inside| inside.name == "return");
        let own = || match words.as_slice() {
            [variable, sign, value] => {
                let is_path = ["$uri", "$document_uri"].contains(&variable.as_str());
                let value = pattern(sign, value, is_path)?;
                let expression = value.contains('~');
                match variable.as_str() {
                    "$host" | "$http_host" if !expression => Some(Match { host: vec![value], ..Match::default() }),
                    "$scheme" if !expression => Some(Match { scheme: vec![value], ..Match::default() }),
                    "$request_method" => Some(Match { method: vec![value], ..Match::default() }),
                    "$uri" | "$document_uri" => Some(Match { path: vec![value], ..Match::default() }),
                    "$remote_addr" if !expression => Some(Match { source: vec![value], ..Match::default() }),
                    variable => {
                        let field = variable.strip_prefix("$http_").map(|name| (name.replace('_', "-"), vec![value.clone()]));
                        let query = variable.strip_prefix("$arg_").map(|name| (name.to_owned(), vec![value.clone()]));
                        (field.is_some() || query.is_some()).then(|| Match {
                            field: field.into_iter().collect(),
                            query: query.into_iter().collect(),
                            ..Match::default()
                        })
                    }
                }
            }
            _ => None,
        };
        let refuses = answer.is_some_and(is_refusal);
        let alone = |answer: &Directive| {
            let rule = |other: &&Directive| RULES.contains(&&*other.name);
            directive.inside().len() == 1 || is_refusal(answer) && directive.inside().iter().filter(rule).count() == 1
        };
        let both = own().map_or(Err(()), |own| {
            if own.field.iter().chain(&own.query).any(|(_, patterns)| patterns[0].starts_with('!')) {
                let text = "of several values, nginx looks at the first one, of a parameter as it is written; of those of a \
                     route, decoded, none may fit";
                self.draft.lost(&key, text);
            }
            joined(conditions, &own)
        });
        let both = if answer.is_some_and(alone) { both } else { Err(()) };
        match (both, answer) {
            (Ok(Some(both)), Some(answer)) => {
                let action = self.answer(answer, &both, context, &key);
                self.push(routes, both, action, key, context, false);
            }
            (Ok(None), Some(_)) => self.draft.same(&key, "no request of this block fits it"),
            _ => {
                let text = "a route has conditions about host, path, method, field, query, source and scheme, and an answer"
                    .to_owned();
                if refuses {
                    self.draft.lost(&key, text + ": until you write it, these requests get a 403");
                    self.push(routes, conditions.clone(), Action::status(403), key, &context.without_logins(), true);
                    return true;
                }
                self.draft.lost(&key, text);
            }
        }
        false
    }
}
