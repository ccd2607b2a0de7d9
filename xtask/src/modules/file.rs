//! Parses one file: the modules that it declares, the names that it imports, the paths that it uses.

use super::tokens::{Token, tokens};

/// A path as it is written, without type arguments.
pub type Path = Vec<String>;

/// The modules that a file declares and uses. Code that exists only for tests is left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The modules in files of their own: `mod name;`.
    pub children: Vec<String>,
    /// The names that `use` imports, and their paths.
    pub imports: Vec<(String, Path)>,
    /// The used paths, each with its line: those that start with `crate`, `self` or `super`, and those in a `use`.
    pub paths: Vec<(Path, usize)>,
}

impl File {
    pub fn read(source: &str) -> Self {
        let mut file = Self::default();
        let tokens = without_tests(&tokens(source));
        Parser { tokens: &tokens, file: &mut file, inner: Vec::new(), depth: 0 }.parse();
        file
    }
}

/// The tokens without the items marked `#[cfg(test)]` or `#[test]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let Some(token) = rest.first() {
        match attribute(rest) {
            Some(length) if is_for_tests(&rest[2..length - 1]) => rest = behind_item(&rest[length..]),
            _ => {
                kept.push(token.clone());
                rest = &rest[1..];
            }
        }
    }
    kept
}

/// The number of tokens of the attribute `#[...]` at the start of `tokens`.
fn attribute(tokens: &[Token]) -> Option<usize> {
    let starts = tokens.len() > 2 && tokens[0].text == "#" && tokens[1].text == "[";
    starts.then(|| 1 + group(&tokens[1..]))
}

fn is_for_tests(attribute: &[Token]) -> bool {
    let words: Vec<_> = attribute.iter().map(|token| token.text.as_str()).collect();
    matches!(words[..], ["test"] | ["cfg", "(", "test", ..] | ["cfg", "(", "all", "(", "test", ..])
}

/// Returns the tokens after the first item of `tokens`. An item ends with a `;` or with its closing brace.
fn behind_item(mut tokens: &[Token]) -> &[Token] {
    while let Some(token) = tokens.first() {
        match token.text.as_str() {
            "{" => {
                tokens = &tokens[group(tokens)..];
                // The braces of a `use` are followed by its `;`.
                return if tokens.first().is_some_and(|token| token.text == ";") { &tokens[1..] } else { tokens };
            }
            ";" => return &tokens[1..],
            "(" | "[" => tokens = &tokens[group(tokens)..],
            _ => tokens = &tokens[1..],
        }
    }
    tokens
}

/// The number of tokens of the group in brackets at the start of `tokens`.
fn group(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

struct Parser<'a> {
    tokens: &'a [Token],
    file: &'a mut File,
    /// For each inline module around the current token: the depth of its braces. `super` in an inline module does not leave the
    /// file.
    inner: Vec<usize>,
    depth: usize,
}

impl Parser<'_> {
    fn parse(&mut self) {
        while let Some(token) = self.tokens.first() {
            match token.text.as_str() {
                "mod" => self.module(),
                "use" => self.import(),
                "pub" => self.visibility(),
                "crate" | "self" | "super" => self.path(),
                sign => {
                    match sign {
                        "{" => self.depth += 1,
                        "}" => self.close(),
                        _ => {}
                    }
                    self.skip(1);
                }
            }
        }
    }

    fn skip(&mut self, count: usize) {
        self.tokens = &self.tokens[count.min(self.tokens.len())..];
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    fn close(&mut self) {
        if self.inner.last() == Some(&self.depth) {
            self.inner.pop();
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// `mod name;` or `mod name {`.
    fn module(&mut self) {
        match self.text(2) {
            ";" => self.file.children.push(self.text(1).to_owned()),
            "{" => {
                self.depth += 1;
                self.inner.push(self.depth);
            }
            _ => return self.skip(1),
        }
        self.skip(3);
    }

    /// Skips `pub`, `pub(super)` or `pub(in crate::engine)`: a path in these uses nothing.
    fn visibility(&mut self) {
        self.skip(1);
        if self.text(0) == "(" && matches!(self.text(1), "crate" | "super" | "self" | "in") {
            self.skip(group(self.tokens));
        }
    }

    /// A path in an expression or a type.
    fn path(&mut self) {
        let line = self.tokens[0].line;
        let mut path = vec![self.text(0).to_owned()];
        self.skip(1);
        while self.text(0) == "::" && self.tokens.get(1).is_some_and(Token::is_name) {
            path.push(self.text(1).to_owned());
            self.skip(2);
        }
        if path.len() > 1 {
            self.note(path, line);
        }
    }

    /// `use a::{b, c as d};`
    fn import(&mut self) {
        self.skip(1);
        // `use<'a>` in a type is not an import.
        if self.text(0) != "<" {
            let end = self.tokens.iter().position(|token| token.text == ";").unwrap_or(self.tokens.len());
            let (tree, rest) = self.tokens.split_at(end);
            self.tokens = rest;
            self.import_tree(tree, &Vec::new());
        }
    }

    /// The part of an import that follows `before`.
    fn import_tree(&mut self, mut tree: &[Token], before: &Path) {
        let mut path = before.clone();
        let mut line = None;
        while let Some((token, rest)) = tree.split_first() {
            line = line.or(Some(token.line));
            match token.text.as_str() {
                "::" => {}
                "{" => {
                    let length = group(tree);
                    for branch in branches(&tree[1..length - 1]) {
                        self.import_tree(branch, &path);
                    }
                    return;
                }
                "as" => {
                    let name = rest.first().map_or("_", |token| token.text.as_str()).to_owned();
                    return self.bring_in(name, path, token.line);
                }
                // All names of the module count as the module.
                "*" => return self.note(path, token.line),
                _ => path.push(token.text.clone()),
            }
            tree = rest;
        }
        if let Some(line) = line {
            // `use a::{self}` is `use a`.
            if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
                path.pop();
            }
            let name = path.last().cloned().unwrap_or_default();
            self.bring_in(name, path, line);
        }
    }

    fn bring_in(&mut self, name: String, path: Path, line: usize) {
        if self.inner.is_empty() {
            self.file.imports.push((name, path.clone()));
        }
        self.note(path, line);
    }

    /// Records a used path. In inline modules, `super` and `self` stay in the file, so such a path is not recorded. It is
    /// recorded, without the leading parts that stay in the file, if it has at least as many `super` as there are inline
    /// modules around it.
    fn note(&mut self, path: Path, line: usize) {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let inside = self.inner.len();
        if inside == 0 || path[0] == "crate" {
            self.file.paths.push((path, line));
        } else if supers > inside {
            self.file.paths.push((path[inside..].to_vec(), line));
        } else if supers == inside && path.len() > supers {
            let here = std::iter::once("self".to_owned()).chain(path[supers..].iter().cloned());
            self.file.paths.push((here.collect(), line));
        }
    }
}

/// The parts between braces that commas separate.
fn branches(mut inside: &[Token]) -> Vec<&[Token]> {
    let mut branches = Vec::new();
    while !inside.is_empty() {
        let mut end = 0;
        while end < inside.len() && inside[end].text != "," {
            end += if inside[end].text == "{" { group(&inside[end..]) } else { 1 };
        }
        branches.push(&inside[..end]);
        inside = &inside[(end + 1).min(inside.len())..];
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of `source`, as they would be written.
    fn paths(source: &str) -> Vec<String> {
        File::read(source).paths.into_iter().map(|(path, line)| format!("{line} {}", path.join("::"))).collect()
    }

    #[test]
    fn the_paths_of_an_import_are_those_of_its_leaves() {
        let source = "use crate::{a::{B, c::D},\n e, f::*};\npub use super::g as h;\nuse std::io;";
        assert_eq!(paths(source), ["1 crate::a::B", "1 crate::a::c::D", "2 crate::e", "2 crate::f", "3 super::g", "4 std::io"]);
        let imports: Vec<_> = File::read(source).imports.into_iter().map(|(name, _)| name).collect();
        assert_eq!(imports, ["B", "D", "e", "h", "io"]);
    }

    #[test]
    fn a_module_that_is_imported_with_its_own_items_is_named_once() {
        assert_eq!(paths("use crate::a::{self, B};"), ["1 crate::a", "1 crate::a::B"]);
    }

    #[test]
    fn paths_in_expressions_and_types_count() {
        let source = "fn f(door: &crate::a::Door<'_>) -> super::B {\n self.go(); crate::c::d::<u8>(self::e::F)\n}";
        assert_eq!(paths(source), ["1 crate::a::Door", "1 super::B", "2 crate::c::d", "2 self::e::F"]);
    }

    #[test]
    fn a_path_in_a_macro_counts() {
        assert_eq!(
            paths("macro_rules! m { () => { $crate::a::b() } }\nassert!(crate::c::D > 0);"),
            ["1 crate::a::b", "2 crate::c::D"]
        );
    }

    #[test]
    fn the_captures_of_a_type_are_no_import() {
        assert_eq!(paths("fn a() -> impl B + use<'_> { crate::c(); }"), ["1 crate::c"]);
    }

    #[test]
    fn the_path_of_a_visibility_uses_nothing() {
        assert_eq!(paths("pub(in crate::a) struct B(pub(super) u8);\npub fn c() {}"), Vec::<String>::new());
    }

    #[test]
    fn what_is_only_for_tests_is_left_out() {
        let source = "#[cfg(test)]\nmod tests { use crate::a::B; fn c() { crate::d::e() } }\n#[cfg(test)] use crate::{f, g};\n\
            #[cfg(all(test, unix))] mod h;\n#[test] fn i() { crate::j() }\nuse crate::k;\n#[cfg(unix)] use crate::l;";
        assert_eq!(paths(source), ["6 crate::k", "7 crate::l"]);
        assert_eq!(File::read(source).children, Vec::<String>::new());
    }

    #[test]
    fn a_file_declares_its_children() {
        assert_eq!(File::read("mod a;\npub mod b;\n/// mod c;\nmod d { mod e {} }").children, ["a", "b"]);
    }

    #[test]
    fn a_module_that_is_written_out_is_a_part_of_its_file() {
        let source = "mod a { use super::B; use super::super::C; use crate::d::E; fn f() { self::g() } }\nuse super::H;";
        assert_eq!(paths(source), ["1 self::B", "1 super::C", "1 crate::d::E", "2 super::H"]);
        assert_eq!(File::read(source).imports.len(), 1);
    }
}
