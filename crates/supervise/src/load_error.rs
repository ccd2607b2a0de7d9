//! Shows the reason why an app cannot be loaded as a page in the browser of its developer.

use oribi_files::escape;
use oribi_host::{After, Host, Reply, Request};
use oribi_message::ResponseHead;

/// A host that answers every request with status 500 and the reason why the app cannot be loaded.
pub(crate) struct LoadError {
    page: String,
}

impl LoadError {
    pub(crate) fn new(reason: &str) -> Self {
        Self { page: page(reason) }
    }
}

impl Host for LoadError {
    fn answer(&mut self, _request: &Request<'_>, reply: Reply<'_>) -> After {
        let length = self.page.len().to_string();
        let fields: [(&[u8], &[u8]); 4] = [
            (b"Content-Type", b"text/html; charset=utf-8"),
            (b"Content-Length", length.as_bytes()),
            // The app may work at the next request, so no cache may store this page.
            (b"Cache-Control", b"no-store"),
            (b"X-Content-Type-Options", b"nosniff"),
        ];
        // The client may have gone.
        let _ = reply.send(ResponseHead { status: 500, fields: &fields }, &[self.page.as_bytes()]);
        After::default()
    }
}

fn page(reason: &str) -> String {
    let escaped = escape(reason);
    format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>The app cannot be loaded</title>\n<h1>The app cannot be loaded</h1>\n\
         <pre>{escaped}</pre>\n<p>It is loaded again when one of its files changes.</p>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn the_reason_is_text_and_nothing_else() {
        let page = page("<script>alert('x')</script> & \"y\"");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;"), "{page}");
        assert!(!page.contains("<script"));
    }
}
