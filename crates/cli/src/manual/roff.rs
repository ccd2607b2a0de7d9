//! Writes the language of manual pages, man(7).

/// The characters that roff would read as markup, or print as others.
const SPECIAL: [(char, &str); 5] = [('\\', "\\e"), ('-', "\\-"), ('^', "\\(ha"), ('~', "\\(ti"), ('\'', "\\(aq")];

/// A manual page.
pub struct Page(String);

impl Page {
    /// Begins a page of section 1. It has no date: the version says as much, and the same program always prints the same page.
    pub fn new(name: &str, version: &str) -> Self {
        Self(format!(".TH {} 1 \"\" \"Oribi {version}\" \"User Commands\"\n.ad l\n", name.to_uppercase().replace('-', "\\-")))
    }

    pub fn section(&mut self, title: &str) {
        self.0.push_str(&format!(".SH {}\n", escaped(&title.to_uppercase())));
    }

    pub fn subsection(&mut self, title: &str) {
        self.0.push_str(&format!(".SS {}\n", escaped(title)));
    }

    /// The first section, from which whatis(1) and apropos(1) are fed.
    pub fn name(&mut self, name: &str, about: &str) {
        self.section("NAME");
        self.0.push_str(&format!("{} \\- {}\n", escaped(name), escaped(about)));
    }

    /// A paragraph. Words between backticks are bold.
    pub fn paragraph(&mut self, text: &str) {
        self.begin_paragraph();
        self.0.push_str(&format!("{}\n", line(text)));
    }

    /// Lines that are not filled, in bold.
    pub fn literal<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.begin_paragraph();
        self.0.push_str(".nf\n");
        for text in lines {
            self.0.push_str(&format!("{}\n", bold(text)));
        }
        self.0.push_str(".fi\n");
    }

    /// A term, in bold, and its description below it.
    pub fn term(&mut self, term: &str, description: &str) {
        self.marked_term(&bold(term), &[description]);
    }

    /// A term with markup, and its description, in which each part begins a line.
    pub fn marked_term(&mut self, term: &str, description: &[&str]) {
        let parts: Vec<String> = description.iter().filter(|part| !part.is_empty()).map(|part| line(part)).collect();
        self.0.push_str(&format!(".TP\n{term}\n{}\n", parts.join("\n.br\n")));
    }

    /// Begins a paragraph. A heading does so by itself.
    fn begin_paragraph(&mut self) {
        let last = self.0.lines().last().unwrap_or_default();
        if !last.starts_with(".SH ") && !last.starts_with(".SS ") {
            self.0.push_str(".PP\n");
        }
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// A text as roff prints it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match SPECIAL.iter().find(|(special, _)| *special == letter) {
            Some((_, escape)) => out.push_str(escape),
            None => out.push(letter),
        }
    }
    out
}

pub fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

pub fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// A line of text, which must not begin with a request. Words between backticks are bold.
fn line(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let marked: String = parts.map(|(index, part)| if index % 2 == 1 { bold(part) } else { escaped(part) }).collect();
    if marked.starts_with('.') { format!("\\&{marked}") } else { marked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_read_as_markup() {
        assert_eq!(escaped("a\\b-c^~'"), "a\\eb\\-c\\(ha\\(ti\\(aq");
        assert_eq!(line(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(line("'so"), "\\(aqso");
        assert_eq!(line("see `oribi -h` now"), "see \\fBoribi \\-h\\fR now");
    }
}
