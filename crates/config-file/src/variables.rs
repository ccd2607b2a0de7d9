//! Variables of the environment in texts: `${NAME}`, `${NAME:-DEFAULT}`, and `$${` for `${` itself.

/// Looks up a variable of the environment.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub text: String,
    /// Whether a part of the text is from the environment.
    pub from_environment: bool,
    /// The mistakes: the number of the `${` in the text, from 0 on, and the message.
    pub mistakes: Vec<(usize, String)>,
}

/// Replaces the variables in a text. An empty variable counts as missing if there is a default, as in a shell.
pub(crate) fn expand(text: &str, environment: Environment<'_>) -> Expanded {
    let mut expanded = Expanded::default();
    let mut rest = text;
    let mut number = 0;
    while let Some(start) = rest.find("${") {
        let (before, behind) = (&rest[..start], &rest[start + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = behind;
        } else {
            expanded.text.push_str(before);
            rest = expanded.variable(behind, number, environment);
        }
        number += 1;
    }
    expanded.text.push_str(rest);
    expanded
}

impl Expanded {
    /// Replaces the variable at the start of a text, which follows `${`. Returns the rest.
    fn variable<'t>(&mut self, text: &'t str, number: usize, environment: Environment<'_>) -> &'t str {
        let Some((inside, rest)) = text.split_once('}') else {
            self.mistakes.push((number, "expected } after ${NAME; write $${ for the characters ${ themselves".to_owned()));
            return "";
        };
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        if !is_name(name) {
            let message =
                "expected the name of an environment variable: ${NAME}, ${NAME:-DEFAULT}, or $${ for the characters ${";
            self.mistakes.push((number, message.to_owned()));
            return rest;
        }
        match (environment(name), default) {
            (Some(value), default) if !value.is_empty() || default.is_none() => {
                self.from_environment = true;
                self.text.push_str(&value);
            }
            (_, Some(default)) => self.text.push_str(default),
            _ => self.mistakes.push((number, format!("the environment variable {name} is not set"))),
        }
        rest
    }
}

/// Whether a text is the name of a variable.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 256 && text.bytes().all(fits) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".to_owned()),
            "_B2" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once() {
        for (text, expected, from_environment) in [
            ("", "", false),
            ("a$b $ {A} }", "a$b $ {A} }", false),
            ("${A}", "one", true),
            ("<${A}${_B2}>", "<one${A}>", true),
            ("$${A}", "${A}", false),
            ("$$${A}", "$${A}", false),
            ("$${A} ${A}", "${A} one", true),
            ("${EMPTY}", "", true),
            ("${EMPTY:-x}", "x", false),
            ("${NONE:-}", "", false),
            ("${NONE:-a:-b $ c}", "a:-b $ c", false),
            ("${A:-x}", "one", true),
        ] {
            let wanted = Expanded { text: expected.to_owned(), from_environment, mistakes: Vec::new() };
            assert_eq!(expand(text, &environment), wanted, "{text}");
        }
    }

    #[test]
    fn mistakes_have_the_number_of_their_variable() {
        let mistakes = |text: &str| -> Vec<(usize, String)> { expand(text, &environment).mistakes };
        assert_eq!(mistakes("$${ ${A} ${NONE}"), [(2, "the environment variable NONE is not set".to_owned())]);
        for text in ["${", "${A", "${}", "${1A}", "${A-x}", "${A B}", "${\u{e9}}", "${:-x}"] {
            let found = mistakes(text);
            assert!(found.len() == 1 && found[0].1.starts_with("expected "), "{text}: {found:?}");
        }
        assert_eq!(mistakes("${NONE} ${NO}").len(), 2);
    }
}
