//! Expressions of locations that are inside of others: one expression for both.

use super::alias::literal;
use super::letters::meaningful;

/// The expression for paths that begin with a prefix and fit an expression. `Ok(None)`: there is no such path.
///
/// # Errors
/// No such expression is found.
pub(super) fn combined(prefix: &str, expression: &str) -> Result<Option<String>, ()> {
    let (expression, any_case) = match expression.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (expression, false),
    };
    if has_alternatives(expression) {
        return Err(());
    }
    let Some(rest) = expression.strip_prefix('^') else { return behind(prefix, 0, expression, any_case).map(Some) };
    let (text, ends) = letters(rest);
    let (text, own) = (folded(&text, any_case), folded(prefix, any_case));
    if text.starts_with(&own) {
        let end = own.chars().count().checked_sub(1).map_or(0, |last| ends[last]);
        return Ok(Some(if any_case { format!("^{}(?i:{})", literal(prefix), &rest[end..]) } else { format!("^{rest}") }));
    }
    if !own.starts_with(&text) {
        return Ok(None);
    }
    match &rest[ends.last().copied().unwrap_or_default()..] {
        "" => Ok(Some(format!("^{}", literal(prefix)))),
        rest => match rest.strip_prefix(".*") {
            Some(rest) => behind(prefix, text.len(), rest, any_case).map(Some),
            None => Err(()),
        },
    }
}

/// The prefix that an expression says, if it says nothing else.
pub(super) fn prefix_of(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix('^')?;
    let (text, ends) = letters(rest);
    (ends.last() == Some(&rest.len())).then_some(text)
}

/// The directory in which all paths are that fit an expression, if it says one.
pub(super) fn directory_of(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix("(?i)").unwrap_or(expression).strip_prefix('^')?;
    let (text, _) = letters(rest);
    text.rfind('/').map(|slash| text[..=slash].to_owned())
}

/// The expression for paths that begin with a prefix and have a part that fits an expression, from a place of the prefix on.
fn behind(prefix: &str, from: usize, expression: &str, any_case: bool) -> Result<String, ()> {
    let expression = expression.strip_prefix(".*").unwrap_or(expression);
    let own = folded(prefix, any_case);
    let mut heads = vec![format!("{}.*", literal(prefix))];
    match expression {
        "" => return Ok(format!("^{}", literal(prefix))),
        _ if expression.starts_with(['?', '*', '+', '{']) => return Err(()),
        _ => {}
    }
    let (first, single) = beginnings(expression).ok_or(())?;
    for (at, _) in own.char_indices().filter(|(at, _)| *at >= from) {
        let rest = &own[at..];
        for text in first.iter().map(|text| folded(text, any_case)) {
            if text.starts_with(rest) && single {
                // The part begins inside of the prefix, and says all of its rest.
                heads.push(literal(&prefix[..at]));
            } else if text.starts_with(rest) || rest.starts_with(&text) {
                return Err(());
            }
        }
    }
    let head = if heads.len() == 1 { heads.remove(0) } else { format!("(?:{})", heads.join("|")) };
    Ok(if any_case { format!("^{head}(?i:{expression})") } else { format!("^{head}{expression}") })
}

/// Texts with one of which all texts begin that fit an expression, and whether it is one without a group.
fn beginnings(expression: &str) -> Option<(Vec<String>, bool)> {
    let (list, single) = match expression.strip_prefix('(') {
        None => (vec![letters(expression).0], true),
        Some(rest) => {
            let (group, after) = rest.split_once(')')?;
            let group = group.strip_prefix("?:").unwrap_or(group);
            if group.contains(['(', '[']) || group.ends_with('\\') || after.starts_with(['?', '*', '{']) {
                return None;
            }
            (group.split('|').map(|one| letters(one).0).collect(), false)
        }
    };
    list.iter().all(|text| !text.is_empty()).then_some((list, single))
}

/// The letters with which all texts begin that fit an expression without alternatives, and the place behind each of them.
fn letters(expression: &str) -> (String, Vec<usize>) {
    let (mut text, mut ends) = (String::new(), Vec::new());
    let mut rest = expression.char_indices().peekable();
    while let Some((_, letter)) = rest.next() {
        let letter = match letter {
            '\\' => match rest.next() {
                Some((_, escaped)) if escaped.is_ascii_punctuation() => escaped,
                _ => break,
            },
            '.' | '[' | '(' | ')' | '|' | '^' | '$' | '*' | '+' | '?' | '{' => break,
            letter => letter,
        };
        let next = rest.peek().copied();
        if next.is_some_and(|(_, next)| "*+?{".contains(next)) {
            break;
        }
        text.push(letter);
        ends.push(next.map_or(expression.len(), |(at, _)| at));
    }
    (text, ends)
}

fn folded(text: &str, any_case: bool) -> String {
    if any_case { text.to_ascii_lowercase() } else { text.to_owned() }
}

/// Whether an expression has alternatives outside of its groups.
fn has_alternatives(expression: &str) -> bool {
    meaningful(expression).any(|(_, letter, depth)| letter == '|' && depth == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_holds_below_its_prefix_only() {
        for (prefix, expression, expected) in [
            ("/pub/", r"\.png$", Ok(Some(r"^/pub/.*\.png$"))),
            ("/pub/", r"(?i)\.png$", Ok(Some(r"^/pub/.*(?i:\.png$)"))),
            ("/pub/", r"\.(png|jpg)$", Ok(Some(r"^/pub/.*\.(png|jpg)$"))),
            ("/pub/", r"(\.php|\.inc)$", Ok(Some(r"^/pub/.*(\.php|\.inc)$"))),
            ("/pub/", r"/\.", Ok(Some(r"^(?:/pub/.*|/pub)/\."))),
            ("/pub/", "^/pub/[a-z]+$", Ok(Some("^/pub/[a-z]+$"))),
            ("/pub/", "(?i)^/PUB/x", Ok(Some("^/pub/(?i:x)"))),
            ("/pub/", r"^/.*\.php$", Ok(Some(r"^/pub/.*\.php$"))),
            ("/pub/", r"^(.*)\.php$", Err(())),
            ("/pub/", "^/other/", Ok(None)),
            ("/pub/", "^/", Ok(Some("^/pub/"))),
            ("/pub/", "^/[a-z]+/x", Err(())),
            ("/pub/", "/[a-z]+$", Err(())),
            ("/pub/", r"\.a|^/b", Err(())),
            ("/a.b/", r"\.", Err(())),
            ("/a.b/", r"\.php", Ok(Some(r"^/a\.b/.*\.php"))),
            ("/", r"\.php$", Ok(Some(r"^/.*\.php$"))),
        ] {
            let made = combined(prefix, expression);
            assert_eq!(made, expected.map(|text| text.map(str::to_owned)), "{prefix} {expression}");
        }
        assert_eq!(prefix_of("^/a\\.b/").as_deref(), Some("/a.b/"));
        assert_eq!((prefix_of("^/a.b"), prefix_of("/a")), (None, None));
    }
}
