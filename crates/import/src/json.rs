//! JSON, also with comments, as a tree.

use crate::tree::Node;
use crate::unreadable::Unreadable;

/// Reads JSON.
///
/// # Errors
/// The text is no JSON, with the place.
pub(crate) fn read(text: &str) -> Result<Node, Unreadable> {
    serde_json::from_str(&without_comments(text)).map_err(|error| {
        let message = error.to_string();
        let reason = message.split(" at line ").next().unwrap_or(&message);
        Unreadable::at(error.line(), error.column(), format!("it is no JSON: {reason}"))
    })
}

/// Replaces comments (`//`, `/* */` and `#`) and commas behind last values by spaces, so that places stay. Files that are
/// written by hand have them.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // The place of a comma behind which no value has come yet.
    let mut comma = None;
    let mut letters = text.trim_start_matches('\u{FEFF}').chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_whitespace() && !['/', '#'].contains(&letter) {
            match comma.take() {
                Some(place) if [']', '}'].contains(&letter) => plain.replace_range(place..=place, " "),
                _ => {}
            }
        }
        match letter {
            ',' => {
                comma = Some(plain.len());
                plain.push(',');
            }
            '"' => {
                plain.push('"');
                while let Some(inside) = letters.next() {
                    plain.push(inside);
                    match inside {
                        '\\' => plain.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if letters.peek() == Some(&'/') => blank(&mut letters, &mut plain),
            '#' => blank(&mut letters, &mut plain),
            '/' if letters.peek() == Some(&'*') => {
                plain.push(' ');
                let mut before = ' ';
                // The star of the beginning is not that of the end.
                letters.next();
                plain.push(' ');
                for inside in letters.by_ref() {
                    plain.push(if inside == '\n' { '\n' } else { ' ' });
                    if before == '*' && inside == '/' {
                        break;
                    }
                    before = inside;
                }
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Replaces the rest of a line.
fn blank(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, plain: &mut String) {
    plain.push(' ');
    while letters.next_if(|letter| *letter != '\n').is_some() {
        plain.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_part_of_texts() {
        let text = "{ \"a\": \"http://x/*y*/\\\"#\", // b\n# c\n/* d \n **/ \"e\": [1, // f\n ], }";
        let node = read(text).expect("it is JSON");
        assert_eq!(node.get("a").and_then(Node::text), Some("http://x/*y*/\"#"));
        assert_eq!(node.get("e").map(Node::values).and_then(|list| list[0].number()), Some(1));
        let error = read("{\n  \"a\": /* b */ x }").expect_err("x is no value");
        assert_eq!((error.line, error.column), (Some(2), Some(16)));
    }
}
