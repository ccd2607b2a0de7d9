//! The page: one document with its own style and script, which loads nothing else.
//!
//! The Content Security Policy (level 3) of the page forbids a browser to run or load anything else, even if text is injected
//! into the page. A nonce, which differs for each response, identifies the page's own style and script.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write as _;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] = [include_str!("chart.js"), include_str!("show.js"), include_str!("page.js")];

/// The placeholders in the document.
const STYLE_PLACE: &str = "{{style}}";
const SCRIPT_PLACE: &str = "{{script}}";
const NONCE_PLACE: &str = "{{nonce}}";

/// A page, and the value of its Content-Security-Policy.
#[derive(Debug)]
pub(in super::super) struct Page {
    pub(in super::super) text: String,
    pub(in super::super) policy: String,
}

impl Page {
    /// Creates a page for one response; `None` if the kernel has no random numbers yet.
    pub(in super::super) fn new() -> Option<Self> {
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::NONBLOCK).ok().filter(|length| *length == random.len())?;
        let nonce = random.iter().fold(String::new(), |mut nonce, byte| {
            let _ = write!(nonce, "{byte:02x}");
            nonce
        });
        let text = PAGE.replace(NONCE_PLACE, &nonce).replace(STYLE_PLACE, STYLE).replace(SCRIPT_PLACE, &SCRIPT.concat());
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Some(Self { text, policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_and_names_no_other_place() {
        let page = Page::new().expect("there are random numbers");
        for place in [STYLE_PLACE, SCRIPT_PLACE, NONCE_PLACE] {
            assert!(PAGE.contains(place) && !page.text.contains(place), "{place}");
        }
        assert_eq!(page.text.matches("<script").count(), 1);
        assert_eq!(page.text.matches("<style").count(), 1);
        // The name of an XML namespace is not loaded.
        let places = page.text.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http:", "https:", "//cdn", "@import", "url(", "innerHTML", "eval("] {
            assert!(!places.contains(foreign), "{foreign}");
        }
        assert!(page.text.len() < 64 << 10, "{}", page.text.len());
    }

    #[test]
    fn each_response_has_a_nonce_of_its_own_which_the_policy_names() {
        let [one, other] = [Page::new(), Page::new()].map(|page| page.expect("there are random numbers"));
        assert_ne!(one.policy, other.policy);
        let nonce = one.policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
        assert_eq!(nonce.len(), 32);
        assert_eq!(one.text.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(one.policy.starts_with("default-src 'none'; ") && !one.policy.contains("unsafe"), "{}", one.policy);
    }
}
