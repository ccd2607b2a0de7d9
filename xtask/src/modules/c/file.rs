//! Parses one C file: the functions and variables that it defines for others, and the names that it uses.

use crate::modules::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// The definitions and uses of names in a file. Both branches of an `#if` count. Types are left out.
#[derive(Debug, Default)]
pub struct File {
    /// The functions and variables that other files can use.
    pub shared: BTreeSet<String>,
    /// The functions and variables that only this file can use, and its macros.
    pub private: BTreeSet<String>,
    /// The names in the bodies of functions and in initial values, each with its line.
    pub names: Vec<(String, usize)>,
    /// The names in the body of each private function and of each macro. If this file is a header, the files that include it
    /// use these names.
    pub bodies: BTreeMap<String, BTreeSet<String>>,
    /// The headers that it includes by `#include "name.h"`, each with its line.
    pub includes: Vec<(String, usize)>,
}

impl File {
    /// Parses a file of C.
    ///
    /// # Errors
    /// The braces do not match, so the end of a function is unknown.
    pub fn read(source: &str) -> Result<Self, String> {
        let mut file = Self { includes: includes(source), ..Self::default() };
        let (directives, code) = split(&tokens(source));
        for directive in &directives {
            file.directive(directive);
        }
        let mut rest = &code[..];
        while !rest.is_empty() {
            rest = file.item(rest)?;
        }
        Ok(file)
    }

    /// Parses a file of XS, which defines nothing for other files.
    pub fn read_xs(source: &str) -> Self {
        let mut file = Self { includes: includes(source), ..Self::default() };
        file.names = names(&split(&tokens(source)).1);
        file
    }

    /// `#define NAME ...`
    fn directive(&mut self, tokens: &[Token]) {
        let [_, define, name, body @ ..] = tokens else { return };
        if define.text == "define" {
            self.define(name, true, names(body));
        }
    }

    /// Reads the declaration or definition at the start of `tokens`; returns the rest.
    fn item<'a>(&mut self, tokens: &'a [Token]) -> Result<&'a [Token], String> {
        let mut at = 0;
        let mut name = None;
        while let Some(token) = tokens.get(at) {
            match token.text.as_str() {
                "__attribute__" => at += 1 + group(&tokens[at + 1..])?,
                "(" => {
                    let length = group(&tokens[at..])?;
                    name = name.or_else(|| function_name(&tokens[..at + length], at));
                    at += length;
                }
                "{" | "=" | ";" => break,
                _ => at += 1,
            }
        }
        let head = &tokens[..at];
        let private = head.iter().any(|token| token.text == "static");
        match (name, tokens.get(at).map(|token| token.text.as_str())) {
            (Some(name), Some("{")) => {
                let length = group(&tokens[at..])?;
                self.define(name, private, names(&tokens[at..at + length]));
                Ok(&tokens[at + length..])
            }
            (Some(_), Some(";")) => Ok(&tokens[at + 1..]),
            _ => self.variables(tokens, private),
        }
    }

    /// Reads variables, such as `int a, b = 3;`, or a type.
    fn variables<'a>(&mut self, tokens: &'a [Token], private: bool) -> Result<&'a [Token], String> {
        let only_declared = matches!(tokens[0].text.as_str(), "extern" | "typedef");
        let mut name: Option<&Token> = None;
        let mut value: Option<usize> = None;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token.text.as_str() {
                "," | ";" => {
                    // `struct Name;` and `enum { A };` define no variable, and `} name;` has a type before the name.
                    if let Some(name) = name.filter(|_| !only_declared && !is_type(&tokens[..at])) {
                        self.define(name, private, value.map_or_else(Vec::new, |start| names(&tokens[start..at])));
                    }
                    if token.text == ";" {
                        return Ok(&tokens[at + 1..]);
                    }
                    value = None;
                    at += 1;
                }
                "=" => {
                    value = value.or(Some(at));
                    at += 1;
                }
                "(" | "{" | "[" => at += group(&tokens[at..])?,
                _ => {
                    if value.is_none() && token.is_name() {
                        name = Some(token);
                    }
                    at += 1;
                }
            }
        }
        Ok(&[])
    }

    fn define(&mut self, name: &Token, private: bool, used: Vec<(String, usize)>) {
        if private {
            self.private.insert(name.text.clone());
            self.bodies.entry(name.text.clone()).or_default().extend(used.iter().map(|(used, _)| used.clone()));
        } else {
            self.shared.insert(name.text.clone());
        }
        self.names.extend(used);
    }
}

/// `#include "name.h"`, by line.
fn includes(source: &str) -> Vec<(String, usize)> {
    let lines = source.lines().zip(1..);
    let included = lines.filter_map(|(text, line)| {
        let rest = text.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        Some((rest.trim_start().strip_prefix('"')?.split('"').next()?.to_owned(), line))
    });
    included.collect()
}

/// Separates the lines of the preprocessor from the code. A backslash continues such a line.
fn split(tokens: &[Token]) -> (Vec<Vec<Token>>, Vec<Token>) {
    let (mut directives, mut code) = (Vec::<Vec<Token>>::new(), Vec::new());
    let mut directive_line = 0;
    let mut line = 0;
    for token in tokens {
        let starts = token.line != line && token.text == "#" && token.line != directive_line;
        line = token.line;
        if starts {
            directives.push(Vec::new());
            directive_line = line;
        }
        match directives.last_mut() {
            Some(_) if line == directive_line && token.text == "\\" => directive_line += 1,
            Some(directive) if line == directive_line => directive.push(token.clone()),
            _ => code.push(token.clone()),
        }
    }
    (directives, code)
}

/// The name before the parenthesis at `at`. In `XS(name)` a macro in capitals makes the head of the function.
fn function_name(head: &[Token], at: usize) -> Option<&Token> {
    let name = head[..at].last().filter(|token| token.is_name())?;
    match &head[at..] {
        [_, inside, _] if name.text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') => Some(inside),
        _ => Some(name),
    }
}

/// Whether these tokens before a `;` are a type without a variable: `struct Name`, `enum { A }`.
fn is_type(tokens: &[Token]) -> bool {
    let named = tokens.len() == 2;
    let ends = tokens.last().is_some_and(|token| token.text == "}");
    matches!(tokens[0].text.as_str(), "struct" | "union" | "enum") && (named || ends)
}

/// The names among `tokens`, without those of members.
fn names(tokens: &[Token]) -> Vec<(String, usize)> {
    let text = |at: usize| tokens.get(at).map(|token| token.text.as_str());
    let is_member =
        |at: usize| at > 0 && (text(at - 1) == Some(".") || at > 1 && text(at - 1) == Some(">") && text(at - 2) == Some("-"));
    let found = tokens.iter().enumerate().filter(|(at, token)| token.is_name() && !is_member(*at));
    found.map(|(_, token)| (token.text.clone(), token.line)).collect()
}

/// The number of tokens of the group in brackets at the start of `tokens`.
fn group(tokens: &[Token]) -> Result<usize, String> {
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => open.push("}"),
            "(" => open.push(")"),
            "[" => open.push("]"),
            sign @ ("}" | ")" | "]") if open.pop() != Some(sign) => {
                return Err(format!("{}: a `{sign}` closes nothing", token.line));
            }
            _ => {}
        }
        if open.is_empty() {
            return Ok(at + 1);
        }
    }
    Err(format!("{}: a bracket is not closed", tokens.first().map_or(0, |token| token.line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> File {
        File::read(source).expect("the braces match")
    }

    fn shared(source: &str) -> Vec<String> {
        read(source).shared.into_iter().collect()
    }

    fn used(source: &str) -> Vec<String> {
        read(source).names.into_iter().map(|(name, line)| format!("{line} {name}")).collect()
    }

    #[test]
    fn functions_and_variables_are_shared_unless_they_are_static() {
        assert_eq!(shared("int a(void) { return 1; }\nstatic int b(void) { return 2; }"), ["a"]);
        assert_eq!(shared("unsigned a;\nconst T b = {.c = d}, e[2] = {1, 2};\nstatic T f, *g = &a;"), ["a", "b", "e"]);
        assert_eq!(shared("__attribute__((visibility(\"default\"))) void a(void) {}\nstruct B *c(T (*d)(T)) {}"), ["a", "c"]);
        assert_eq!(shared("XS(a) { b(); }\nstatic XS(c) {}\nstatic D(e) = {f};"), ["a"]);
    }

    #[test]
    fn declarations_and_types_define_nothing() {
        assert_eq!(
            shared("int a(void);\nvoid b(int) __attribute__((noreturn));\nextern int c;\nstruct D;"),
            Vec::<String>::new()
        );
        assert_eq!(shared("typedef struct E { int f; } G;\nenum { H, I };\nstruct J { int k; };"), Vec::<String>::new());
        assert_eq!(shared("static struct { int a; } b[2];\nSTATIC_ASSERT(a == b);"), Vec::<String>::new());
        assert_eq!(used("struct A { int b; };\nint c(D d);"), Vec::<String>::new());
    }

    #[test]
    fn names_in_bodies_and_values_are_used() {
        assert_eq!(used("int a(B b) {\n return c(b)\n + D; }"), ["2 return", "2 c", "2 b", "3 D"]);
        assert_eq!(used("static F e = {.g = h,\n .i = j};"), ["1 h", "2 j"]);
    }

    #[test]
    fn members_comments_and_strings_are_not_used() {
        assert_eq!(used("int a(void) { b.c; b->d; /* e(); */ f(\"g()\", 'h'); }"), ["1 b", "1 b", "1 f"]);
    }

    #[test]
    fn lines_of_the_preprocessor_are_no_code() {
        let file = read("#include <a.h>\n#include \"b.h\"\n#if C(\n#define D(e) \\\n    f(e)\n#endif\nint g;\n");
        assert_eq!(file.includes, [("b.h".to_owned(), 2)]);
        assert_eq!(file.shared.into_iter().collect::<Vec<_>>(), ["g"]);
        assert!(file.bodies["D"].contains("f"), "{:?}", file.bodies);
    }

    #[test]
    fn a_function_in_a_header_has_a_body_of_its_own() {
        let file = read("static inline int a(void) { return b() + c; }\nint d(void);");
        assert!(file.bodies["a"].contains("b") && file.bodies["a"].contains("c"), "{:?}", file.bodies);
    }

    #[test]
    fn a_brace_that_is_not_closed_is_an_error() {
        assert_eq!(File::read("int a;\nint b(void) { if (c) { }").err().as_deref(), Some("2: a bracket is not closed"));
        assert_eq!(File::read("int b(void) { (c] }").err().as_deref(), Some("1: a `]` closes nothing"));
    }

    #[test]
    fn xs_uses_all_its_names() {
        let file = File::read_xs("#include \"src/a.h\"\nMODULE = B\n# don't\nint\nc(d)\n  CODE:\n    RETVAL = e(d->f);\n");
        assert_eq!(file.includes, [("src/a.h".to_owned(), 1)]);
        assert!(file.names.contains(&("e".to_owned(), 7)) && !file.names.iter().any(|(name, _)| name == "f"));
    }
}
