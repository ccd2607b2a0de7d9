//! Problem documents (RFC 7807; RFC 8555, section 6.7): the reasons that an authority gives for a refusal.

use crate::settings::Challenge;
use oribi_http_client::printable;
use serde_json::Value;
use std::fmt;

/// The prefix of the types that ACME defines.
const PREFIX: &str = "urn:ietf:params:acme:error:";

/// The most subproblems that are reported.
const MOST_PARTS: usize = 5;

/// The authority's reason for a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    /// A type that ACME defines, without its prefix, or another URI; empty if the document names no type.
    kind: String,
    detail: String,
    /// The problems of single names, each after its name.
    parts: Vec<(String, Problem)>,
}

impl Problem {
    /// Parses the body of an error response, which may be anything.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        serde_json::from_slice(body).map(|value| Self::of(&value)).unwrap_or_default()
    }

    pub(crate) fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().map(printable).unwrap_or_default();
        let kind = text("type");
        let kind = kind.strip_prefix(PREFIX).map_or(kind.clone(), str::to_owned);
        let part = |value: &Value| {
            let name = value["identifier"]["value"].as_str().map(printable).unwrap_or_default();
            // Subproblems are not nested.
            (
                name,
                Self { parts: Vec::new(), ..Self::of(&serde_json::json!({"type": value["type"], "detail": value["detail"]})) },
            )
        };
        let parts = value["subproblems"].as_array().into_iter().flatten().take(MOST_PARTS).map(part).collect();
        Self { kind, detail: text("detail"), parts }
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Returns advice for the operator; empty if there is none. `challenge` is the type of the challenge if the authority has
    /// rejected its proof.
    pub(crate) fn advice(&self, challenge: Option<Challenge>) -> &'static str {
        use Challenge::{Http, TlsAlpn};
        match (self.kind.as_str(), challenge) {
            ("connection", Some(Http)) => {
                return "; port 80 of this name must reach an http:// address of this server from the Internet";
            }
            ("connection", Some(TlsAlpn)) => {
                return "; port 443 of this name must reach an https:// address of this server from the Internet";
            }
            ("unauthorized" | "incorrectResponse", Some(Http)) => {
                return "; port 80 of this name must reach this server, and nothing in front may answer /.well-known/acme-challenge/";
            }
            ("unauthorized" | "incorrectResponse" | "tls", Some(TlsAlpn)) => {
                return "; port 443 of this name must reach this server, and nothing in front may do TLS in its place";
            }
            _ => {}
        }
        match self.kind.as_str() {
            "dns" => "; the DNS records of this name must point to this server",
            "caa" => "; a CAA record in DNS does not allow this authority",
            "rateLimited" => "; the authority's limits are reached, so the next attempts are rarer",
            "rejectedIdentifier" | "unsupportedIdentifier" => "; this authority gives no certificates for this name",
            "externalAccountRequired" => {
                "; this authority knows only accounts that were made at its site, which Oribi cannot use: choose another by --acme-directory"
            }
            "invalidContact" | "unsupportedContact" => "; give another --acme-email",
            "userActionRequired" => "; read what it says, and do that by hand",
            "accountDoesNotExist" => {
                "; remove account.pem from the folder of --acme-storage and restart the server, for a new account"
            }
            _ => "",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = if self.detail.is_empty() { "without a reason" } else { &self.detail };
        formatter.write_str(detail)?;
        if !self.kind.is_empty() {
            write!(formatter, " ({})", self.kind)?;
        }
        for (name, part) in &self.parts {
            write!(formatter, "; {name}: {part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_stands_in_it() {
        let body = br#"{"type":"urn:ietf:params:acme:error:malformed","detail":"some names\nare bad","subproblems":[
            {"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"no","identifier":{"type":"dns","value":"a.org"},
             "subproblems":[{"detail":"deeper"}]}]}"#;
        let problem = Problem::of_body(body);
        assert_eq!(problem.to_string(), "some names are bad (malformed); a.org: no (rejectedIdentifier)");
        assert!(problem.is("malformed"));
        let problem = Problem::of_body(br#"{"type":"urn:ietf:params:acme:error:connection"}"#);
        assert!(problem.advice(Some(Challenge::Http)).contains("port 80"));
        assert!(problem.advice(Some(Challenge::TlsAlpn)).contains("port 443"));
        assert_eq!(problem.advice(None), "", "it was said of something else");
    }

    #[test]
    fn anything_may_stand_there() {
        for body in
            ["", "<html>", "[]", "7", r#"{"type":7,"detail":[],"subproblems":7}"#, r#"{"subproblems":[7,[]]}"#, "\u{0}", "{"]
        {
            let problem = Problem::of_body(body.as_bytes());
            assert!(problem.to_string().starts_with("without a reason"), "{body}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(Problem::of_body(deep.as_bytes()), Problem::default());
        let many = format!(r#"{{"detail":"{}","subproblems":[{}]}}"#, "x".repeat(100_000), vec!["{}"; 1000].join(","));
        assert!(Problem::of_body(many.as_bytes()).to_string().len() < 1000);
    }
}
