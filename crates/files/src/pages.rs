//! Short pages for clients that get no file.

use oribi_message::reason;

/// The media type of these pages.
pub const MEDIA_TYPE: &[u8] = b"text/html; charset=utf-8";

/// A page that explains a status.
#[must_use]
pub fn of_status(status: u16) -> String {
    with_text(status, "")
}

/// A page with the new location.
pub(crate) fn moved(location: &[u8]) -> String {
    let address = escape(&String::from_utf8_lossy(location));
    with_text(301, &format!("<p><a href=\"{address}\">{address}</a></p>\n"))
}

fn with_text(status: u16, text: &str) -> String {
    let title = format!("{status} {}", reason(status));
    format!("<!DOCTYPE html>\n<html lang=\"en\">\n<title>{title}</title>\n<h1>{title}</h1>\n{text}</html>\n")
}

/// Escapes a text for a place between HTML tags or within the quotes of an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_has_sent_is_escaped() {
        let page = moved(b"/\"><script>alert('1')</script>&/\xff");
        assert!(!page.contains("<script") && !page.contains("\"><s"), "{page}");
        assert!(page.contains("&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;/\u{fffd}\">"), "{page}");
        assert!(of_status(404).contains("<title>404 Not Found</title>"));
    }
}
