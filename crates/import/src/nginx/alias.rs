//! `alias`: files whose paths begin otherwise than those of their requests.

use super::syntax::Directive;
use crate::redirect::{groups, with_variables};

/// The expression for the path in place of the prefix of the location, if it has one, and the new path below the directory.
pub(super) type Rewrite = (Option<String>, String);

/// The files of a location with `alias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    /// The directory.
    pub root: String,
    pub rewrite: Option<Rewrite>,
    /// The prefix of the location, and the text that replaces it below the directory; none without a prefix.
    replaced: Option<(String, String)>,
}

/// The path of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of<'p> {
    Exact(&'p str),
    Prefix(&'p str),
    Expression(&'p str),
}

impl Alias {
    /// Reads the directive.
    ///
    /// # Errors
    /// The reason why no route has these files.
    pub fn of(directive: &Directive, of: Of<'_>) -> Result<Self, &'static str> {
        let text = directive.word(0);
        let dots = |name: &str| matches!(name, "." | "..");
        if !text.starts_with('/') || text.contains(['?', '#', '%']) || text.split('/').any(dots) {
            return Err("files of a route have a root, an absolute path in its normal form");
        }
        let groups = if let Of::Expression(expression) = of { groups(&[format!("~{expression}")]) } else { 0 };
        if let Of::Exact(path) | Of::Prefix(path) = of
            && let Some(root) = text.strip_suffix(path).filter(|root| !root.contains('$'))
        {
            let root = if root.is_empty() { "/" } else { root }.to_owned();
            let replaced = Some((path.to_owned(), path.to_owned()));
            return Ok(Self { root, rewrite: None, replaced });
        }
        // The directories before the first variable.
        let fixed = text.split('$').next().unwrap_or_default();
        let (root, _) = fixed.split_at(fixed.rfind('/').map_or(0, |slash| slash + 1));
        let below = &text[root.len()..];
        let Ok(base) = with_variables(below, groups) else {
            return Err("root of files has no variables: write a route for each value");
        };
        let root = if root == "/" { root } else { root.trim_end_matches('/') }.to_owned();
        let base = format!("/{base}");
        Ok(match of {
            Of::Expression(_) | Of::Exact(_) => Self { root, rewrite: Some((None, base)), replaced: None },
            Of::Prefix(path) => {
                let replaced = Some((path.to_owned(), base.clone()));
                Self { root, rewrite: Some((Some(format!("~^{}(.*)$", literal(path))), format!("{base}$1"))), replaced }
            }
        })
    }

    /// Whether a new path may be that of a directory.
    pub fn is_directory(&self) -> bool {
        self.rewrite.as_ref().is_some_and(|(_, path)| path.contains('$'))
    }

    /// A word of `try_files`, with the path that its file has below the directory. `None`: it is elsewhere.
    pub fn tried(&self, word: &str) -> Option<String> {
        if self.rewrite.is_none() || word.starts_with('$') {
            return Some(word.to_owned());
        }
        let (prefix, replacement) = self.replaced.as_ref()?;
        word.strip_prefix(prefix.as_str()).map(|rest| format!("{replacement}{rest}"))
    }
}

/// The expression that a text fits.
pub(super) fn literal(text: &str) -> String {
    let mut expression = String::new();
    for letter in text.chars() {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && !"/-_".contains(letter) {
            expression.push('\\');
        }
        expression.push(letter);
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_is_that_of_nginx() {
        let rewritten = |root: &str, expression: Option<&str>, path: &str| {
            Ok((root.to_owned(), Some((expression.map(str::to_owned), path.to_owned()))))
        };
        let plain = |root: &str| Ok((root.to_owned(), None));
        for (alias, of, expected) in [
            ("/srv/static/", Of::Prefix("/static/"), plain("/srv")),
            ("/robots.txt", Of::Exact("/robots.txt"), plain("/")),
            ("/srv/files/", Of::Prefix("/"), plain("/srv/files")),
            // A path such as /img-private/x is another file.
            ("/srv/img/", Of::Prefix("/img"), rewritten("/srv/img", Some("~^/img(.*)$"), "/$1")),
            ("/data/files", Of::Prefix("/media"), rewritten("/data", Some("~^/media(.*)$"), "/files$1")),
            ("/data/files/", Of::Prefix("/a.b/"), rewritten("/data/files", Some("~^/a\\.b/(.*)$"), "/$1")),
            ("/data", Of::Prefix("/a/"), rewritten("/", Some("~^/a/(.*)$"), "/data$1")),
            ("/srv/icon.ico", Of::Exact("/favicon.ico"), rewritten("/srv", None, "/icon.ico")),
            ("/srv/u/$1/x$2", Of::Expression("^/(a)/(.*)$"), rewritten("/srv/u", None, "/$1/x$2")),
            ("/srv/u/all", Of::Expression("^/b"), rewritten("/srv/u", None, "/all")),
            ("/srv/$zork/", Of::Prefix("/a/"), Err(())),
            ("/srv/$1/", Of::Prefix("/a/"), Err(())),
            ("/srv/../etc/", Of::Prefix("/a/"), Err(())),
            ("files/", Of::Prefix("/a/"), Err(())),
        ] {
            let directive = Directive { name: "alias".to_owned(), words: vec![alias.to_owned()], line: 1, block: None };
            let read = Alias::of(&directive, of).map(|alias| (alias.root, alias.rewrite)).map_err(|_| ());
            assert_eq!(read, expected, "{alias} of {of:?}");
        }
    }
}
