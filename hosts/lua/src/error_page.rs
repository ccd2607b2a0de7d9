//! The pages that clients get when a script fails.
//!
//! HTML pages escape everything that is not a constant of this file, because a path or a message may come from the client.
//! Without [`ErrorPage::detail`] a page reveals nothing about the machine. No page is empty.

use std::fmt::Write as _;

/// The longest message that is shown, in bytes: a browser has no use for the traceback of a deep stack.
const MESSAGE_BYTES: usize = 16 << 10;

/// The kind of failure of a script, in luafcgid's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file cannot be read.
    File,
    /// The file is not valid Lua.
    Syntax,
    /// The script raised an error.
    Runtime,
    /// The script exceeded its memory limit.
    Memory,
    /// The script exceeded its time limit.
    Time,
    /// The script's answer is not a valid response.
    Response,
}

impl Fault {
    /// Returns the name of the fault for users and logs.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::File => "File Error",
            Self::Syntax => "Syntax Error",
            Self::Runtime => "Runtime Error",
            Self::Memory => "Memory Error",
            Self::Time => "Time Limit",
            Self::Response => "Response Error",
        }
    }

    /// The status that a client gets.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Time => 504,
            _ => 500,
        }
    }
}

/// A page for an error, in HTML.
#[derive(Clone, Copy, Debug)]
pub struct ErrorPage<'a> {
    /// 404, 500, 503 or 504; any other status has a page without an explanation.
    pub status: u16,
    /// The kind of failure, and its message; `None` for a page that shows only the status.
    pub detail: Option<(Fault, &'a str)>,
}

impl<'a> ErrorPage<'a> {
    /// The page for a request that leads to no script.
    pub const NOT_FOUND: Self = Self { status: 404, detail: None };
    /// The page for a request for which no state was free in time.
    pub const BUSY: Self = Self { status: 503, detail: None };

    /// The page for a script that failed; with `show`, it has the details.
    #[must_use]
    pub fn failure(fault: Fault, message: &'a str, show: bool) -> Self {
        Self { status: fault.status(), detail: show.then_some((fault, message)) }
    }

    /// The value of Content-Type for [`ErrorPage::html`].
    pub const HTML_TYPE: &'static str = "text/html; charset=utf-8";
    /// The value of Content-Type for [`ErrorPage::text`].
    pub const TEXT_TYPE: &'static str = "text/plain; charset=utf-8";

    /// The page for browsers.
    #[must_use]
    pub fn html(&self) -> String {
        let (reason, explanation) = (reason(self.status), explanation(self.status));
        let heading = self.detail.map_or(reason, |(fault, _)| fault.title());
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{} {reason}</title></head>\n<body>\n\
             <h1>{heading}</h1>\n",
            self.status
        );
        match self.detail {
            // Writing into a string does not fail.
            Some((_, message)) => {
                let _ = writeln!(page, "<pre>{}</pre>", escape(cut(message)));
            }
            None => {
                let _ = writeln!(page, "<p>{explanation}</p>");
            }
        }
        page.push_str("</body>\n</html>\n");
        page
    }

    /// The page for other programs.
    #[must_use]
    pub fn text(&self) -> String {
        match self.detail {
            Some((fault, message)) => format!("{} {}: {}\n", self.status, fault.title(), cut(message)),
            None => format!("{} {}\n", self.status, reason(self.status)),
        }
    }
}

/// The reason phrases of RFC 9110, section 15.
const fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}

const fn explanation(status: u16) -> &'static str {
    match status {
        404 => "There is nothing at this address.",
        413 => "This is more than the server takes.",
        500 => "Something went wrong. The server's log says what.",
        503 => "The server is busy. Please try again.",
        504 => "This took too long.",
        _ => "The request could not be answered.",
    }
}

/// Shortens a text that is too long.
fn cut(text: &str) -> &str {
    let most = text.len().min(MESSAGE_BYTES);
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// Escapes a text for a place between HTML tags or within the quotes of an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters have no meaning in HTML, but they have one for a terminal.
            control if control.is_control() && !matches!(control, '\n' | '\t' | '\r') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_escaped() {
        let page = ErrorPage::failure(Fault::Runtime, "/<script>alert('1')</script>.lua: \"a\" & b\u{1b}[2J", true).html();
        assert!(page.contains(
            "<h1>Runtime Error</h1>\n<pre>/&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;.lua: &quot;a&quot; &amp; b"
        ));
        assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    }

    #[test]
    fn nothing_is_told_unless_wanted() {
        for fault in [Fault::File, Fault::Syntax, Fault::Runtime, Fault::Memory, Fault::Time, Fault::Response] {
            let hidden = ErrorPage::failure(fault, "/srv/secret.lua:1: oh", false);
            for page in [hidden.html(), hidden.text()] {
                assert!(!page.contains("secret") && !page.contains(fault.title()), "{page}");
                assert!(page.contains(&fault.status().to_string()), "{page}");
            }
            let shown = ErrorPage::failure(fault, "/srv/secret.lua:1: oh", true);
            for page in [shown.html(), shown.text()] {
                assert!(page.contains("/srv/secret.lua:1: oh") && page.contains(fault.title()), "{page}");
            }
        }
    }

    #[test]
    fn no_page_is_empty_or_endless() {
        for status in [404, 413, 418, 500, 503, 504] {
            let page = ErrorPage { status, detail: None };
            assert!(page.html().contains("<h1>") && page.html().contains("<p>") && page.text().len() > 4, "{status}");
        }
        let long = "\u{e9}".repeat(MESSAGE_BYTES) + "x";
        let page = ErrorPage::failure(Fault::Runtime, &long, true);
        assert!(page.html().len() < MESSAGE_BYTES + 1000 && page.text().len() < MESSAGE_BYTES + 1000);
    }

    #[test]
    fn a_time_limit_is_a_504() {
        assert_eq!(ErrorPage::failure(Fault::Time, "", false).status, 504);
        assert_eq!(ErrorPage::failure(Fault::Memory, "", false).status, 500);
        assert_eq!((ErrorPage::NOT_FOUND.status, ErrorPage::BUSY.status), (404, 503));
    }
}
