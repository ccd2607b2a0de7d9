//! The output of `nginx -T`: several files, each of which stands where another one includes it.

use super::syntax::{self, Directive};
use crate::unreadable::Unreadable;

/// The most bytes of the words of all directives, with those of included files.
const MOST: usize = 4 << 20;

/// The most files inside of files.
const DEPTH: usize = 16;

/// A file of the output.
struct Source<'t> {
    path: &'t str,
    directives: Vec<Directive>,
}

/// The path of the first file, if the text is the output of `nginx -T`.
pub(super) fn first(text: &str) -> Option<&str> {
    text.lines().find_map(header)
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix("# configuration file ")?.strip_suffix(':')
}

/// Reads the directives of a file, or of the first file of several with those that it includes.
///
/// # Errors
/// The text does not have the syntax of nginx, or includes too much.
pub(super) fn read(text: &str) -> Result<Vec<Directive>, Unreadable> {
    let mut parts: Vec<(&str, usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(path) = header(line) {
            parts.push((path, number + 1, String::new()));
        } else if let Some((_, _, part)) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    if parts.is_empty() {
        return syntax::read(text);
    }
    let mut files = Vec::new();
    for (path, before, part) in &parts {
        let mut directives = syntax::read(part).map_err(|error| error.moved(*before))?;
        directives.iter_mut().for_each(|directive| move_down(directive, *before));
        files.push(Source { path, directives });
    }
    let (directory, _) = files[0].path.rsplit_once('/').unwrap_or_default();
    let mut left = MOST;
    included(&files[0].directives, &files[1..], directory, 0, &mut left)
        .ok_or_else(|| Unreadable::new(format!("included files have more than {MOST} bytes together, or include each other")))
}

/// The directives with those of included files; `None` if they are too many. `left`: the bytes that may follow.
fn included(
    directives: &[Directive],
    files: &[Source<'_>],
    directory: &str,
    depth: usize,
    left: &mut usize,
) -> Option<Vec<Directive>> {
    let mut all = Vec::new();
    for directive in directives {
        let bytes = directive.words.iter().map(|word| word.len() + 1).sum::<usize>();
        *left = left.checked_sub(directive.name.len() + 1 + bytes)?;
        if directive.name == "include" {
            let pattern = directive.word(0);
            let pattern = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{directory}/{pattern}") };
            let mut found = files.iter().filter(|file| fits(pattern.as_bytes(), file.path.as_bytes())).peekable();
            if found.peek().is_some() {
                if depth == DEPTH {
                    return None;
                }
                for file in found {
                    all.extend(included(&file.directives, files, directory, depth + 1, left)?);
                }
                continue;
            }
        }
        let block = match &directive.block {
            Some(block) => Some(included(block, files, directory, depth, left)?),
            None => None,
        };
        let Directive { name, words, line, .. } = directive;
        all.push(Directive { name: name.clone(), words: words.clone(), line: *line, block });
    }
    Some(all)
}

/// Adds so many lines to the places of a directive.
fn move_down(directive: &mut Directive, lines: usize) {
    directive.line += lines;
    directive.block.iter_mut().flatten().for_each(|inside| move_down(inside, lines));
}

/// Whether a path fits a pattern, in which `*` is any part of a name and `?` one letter.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    // The places behind the last star, from which a longer text for it is tried.
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < path.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
            }
            Some(byte) if *byte == path[place] || *byte == b'?' && path[place] != b'/' => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((behind, tried)) if path[tried] != b'/' => {
                    star = Some((behind, tried + 1));
                    (at, place) = (behind, tried + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<String, String> {
        fn written(directives: &[Directive]) -> String {
            let one = |directive: &Directive| match &directive.block {
                Some(block) => format!("{}:{}{{{}}}", directive.name, directive.line, written(block)),
                None => format!("{}:{}", directive.name, directive.line),
            };
            directives.iter().map(one).collect::<Vec<_>>().join(" ")
        }
        read(text).map(|directives| written(&directives)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_stands_where_it_is_included() {
        let text = "nginx: ok\n# configuration file /e/nginx.conf:\na;\nb {\n  include s/*.conf;\n  include none;\n}\ninclude /e/c;\n\
                    # configuration file /e/s/1.conf:\nc { include c; }\n# configuration file /e/s/2.conf:\nd;\n\
                    # configuration file /e/s/deep/3.conf:\nx;\n# configuration file /e/c:\ne;\n";
        assert_eq!(names(text).as_deref(), Ok("a:3 b:4{c:10{e:16} d:12 include:6} e:16"));
        assert_eq!(names("a;\ninclude b;").as_deref(), Ok("a:1 include:2"));
        let broken = "# configuration file /a:\ninclude b;\n# configuration file /b:\nx {\n";
        assert_eq!(names(broken), Err("5:1: a block without `}`".to_owned()));
        let again = "# configuration file /a:\ninclude b;\n# configuration file /b:\ninclude b;\n";
        assert!(names(again).is_err());
        let twice = "include b; ".repeat(9);
        let many = format!("# configuration file /a:\n{twice}\n# configuration file /b:\n{}", twice.replace('b', "c"))
            + &format!("\n# configuration file /c:\n{}\n# configuration file /d:\n", twice.replace('b', "d"))
            + &"word word; ".repeat(1000);
        assert!(names(&many).is_err());
    }

    #[test]
    fn a_star_is_a_part_of_a_name() {
        for (pattern, path, expected) in [
            ("/a/*.conf", "/a/b.conf", true),
            ("/a/*.conf", "/a/b/c.conf", false),
            ("/a/*.conf", "/a/b.conf.old", false),
            ("/a/*", "/a/", true),
            ("/*/x*y*z", "/a/xbyyyz", true),
            ("/a?c", "/abc", true),
            ("/a?c", "/a/c", false),
            ("/a", "/ab", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }
}
