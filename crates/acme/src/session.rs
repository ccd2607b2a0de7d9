//! An authority's directory, the account, and signed requests with their nonces (RFC 8555, sections 6 and 7).

use crate::account_key::{AccountKey, Signer};
use crate::https::{Answer, World};
use crate::problem::Problem;
use crate::settings::{Challenge, Settings};
use oribi_http_client::printable;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The most tries of a request, if the authority rejects the nonce of each try.
const NONCES: usize = 8;

/// The longest URL of an authority, in bytes.
const LONGEST_URL: usize = 2048;

/// The reason why there is no certificate.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The authority cannot be reached, or its response makes no sense, or a file cannot be read or written.
    Unreachable(String),
    /// The authority has refused a request.
    Refused {
        /// The thing that was requested.
        what: String,
        problem: Problem,
        retry_after: Option<Duration>,
        /// The type of the challenge, if the authority has rejected a proof.
        challenge: Option<Challenge>,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => formatter.write_str(why),
            Self::Refused { what, problem, challenge, .. } => {
                write!(formatter, "the authority has refused {what}: {problem}{}", problem.advice(*challenge))
            }
        }
    }
}

/// The error for a response that makes no sense.
pub(crate) fn nonsense(url: &str, why: &str) -> Trouble {
    Trouble::Unreachable(format!("{}: {why}", printable(url)))
}

/// A JSON document and its URL.
pub(crate) struct Document {
    pub(crate) url: String,
    pub(crate) value: Value,
    pub(crate) retry_after: Option<Duration>,
}

impl Document {
    pub(crate) fn status(&self) -> &str {
        self.value["status"].as_str().unwrap_or_default()
    }

    /// The URL in the member `name`.
    pub(crate) fn link(&self, name: &str) -> Result<&str, Trouble> {
        link(&self.value[name]).ok_or_else(|| nonsense(&self.url, &format!("there is no URL under \"{name}\"")))
    }
}

/// Returns the URL in a JSON value, if there is an https URL that is not too long.
pub(crate) fn link(value: &Value) -> Option<&str> {
    value.as_str().filter(|url| url.len() <= LONGEST_URL && url.starts_with("https://"))
}

/// An account with an authority.
pub(crate) struct Session<'a, W> {
    world: &'a W,
    key: &'a AccountKey,
    settings: &'a Settings,
    new_nonce: String,
    new_order: String,
    account: String,
    nonce: Option<String>,
}

impl<'a, W: World> Session<'a, W> {
    /// Reads the directory of the authority, and finds the account of `key` or creates one.
    pub(crate) fn begin(world: &'a W, key: &'a AccountKey, settings: &'a Settings) -> Result<Self, Trouble> {
        let answer = world.send(&settings.directory, None).map_err(Trouble::Unreachable)?;
        let directory = read(&settings.directory, &answer, "its directory")?;
        let new_account = directory.link("newAccount")?.to_owned();
        let mut session = Self {
            world,
            key,
            settings,
            new_nonce: directory.link("newNonce")?.to_owned(),
            new_order: directory.link("newOrder")?.to_owned(),
            account: String::new(),
            nonce: None,
        };
        let mut wanted = json!({"termsOfServiceAgreed": settings.agreed});
        if let Some(email) = &settings.email {
            wanted["contact"] = json!([format!("mailto:{email}")]);
        }
        let answer = session.post(&new_account, &wanted.to_string())?;
        read(&new_account, &answer, "an account")?;
        let account = answer.location.map(Value::from);
        let account =
            account.as_ref().and_then(link).ok_or_else(|| nonsense(&new_account, "it does not say which account it is"))?;
        session.account = account.to_owned();
        Ok(session)
    }

    pub(crate) fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// The thumbprint of the account's key, the second part of a key authorization (RFC 8555, section 8.1).
    pub(crate) fn thumbprint(&self) -> String {
        self.key.thumbprint()
    }

    pub(crate) fn new_order(&self) -> String {
        self.new_order.clone()
    }

    pub(crate) fn pause(&self, time: Duration) {
        self.world.pause(time);
    }

    /// Requests a document. `what` names the document in the error if the authority refuses.
    pub(crate) fn ask(&mut self, url: &str, content: &str, what: &str) -> Result<Document, Trouble> {
        let answer = self.post(url, content)?;
        let mut document = read(url, &answer, what)?;
        if let Some(place) = answer.location.map(Value::from).as_ref().and_then(link) {
            place.clone_into(&mut document.url);
        }
        Ok(document)
    }

    /// Requests the order of an earlier attempt. `None` if the authority does not know it, or says that it is another account's.
    pub(crate) fn find_order(&mut self, url: &str) -> Result<Option<Document>, Trouble> {
        let answer = self.post(url, "")?;
        let is_unknown = match answer.status {
            404 | 410 => true,
            400..=499 => ["malformed", "unauthorized"].iter().any(|kind| Problem::of_body(&answer.body).is(kind)),
            _ => false,
        };
        if is_unknown { Ok(None) } else { read(url, &answer, "an order").map(Some) }
    }

    /// Requests a resource that is not JSON.
    pub(crate) fn fetch(&mut self, url: &str, what: &str) -> Result<Vec<u8>, Trouble> {
        let answer = self.post(url, "")?;
        if answer.status == 200 { Ok(answer.body) } else { Err(refused(&answer, url, what)) }
    }

    /// Sends a signed request. If the authority rejects the nonce, sends the request again with another nonce.
    fn post(&mut self, url: &str, content: &str) -> Result<Answer, Trouble> {
        for _ in 0..NONCES {
            let nonce = match self.nonce.take() {
                Some(nonce) => nonce,
                None => self.ask_for_nonce()?,
            };
            let account = self.account.clone();
            let signer = if account.is_empty() { Signer::Key } else { Signer::Account(&account) };
            let signed = self.key.sign(url, &nonce, signer, content).map_err(Trouble::Unreachable)?;
            let mut answer = self.world.send(url, Some(&signed)).map_err(Trouble::Unreachable)?;
            self.nonce = answer.nonce.take().filter(|nonce| is_nonce(nonce));
            if !(answer.status == 400 && Problem::of_body(&answer.body).is("badNonce")) {
                return Ok(answer);
            }
        }
        Err(nonsense(url, "it accepts none of the nonces that it gives"))
    }

    fn ask_for_nonce(&self) -> Result<String, Trouble> {
        let answer = self.world.send(&self.new_nonce, None).map_err(Trouble::Unreachable)?;
        let nonce = answer.nonce.filter(|nonce| is_nonce(nonce));
        nonce.ok_or_else(|| nonsense(&self.new_nonce, "there is no nonce in its answer"))
    }
}

/// Whether a nonce has only characters of base64url. RFC 8555, section 6.5.1, says that clients must ignore all other nonces.
fn is_nonce(nonce: &str) -> bool {
    (1..=LONGEST_URL).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn read(url: &str, answer: &Answer, what: &str) -> Result<Document, Trouble> {
    if !matches!(answer.status, 200 | 201) {
        return Err(refused(answer, url, what));
    }
    match serde_json::from_slice(&answer.body) {
        Ok(value @ Value::Object(_)) => Ok(Document { url: url.to_owned(), value, retry_after: answer.retry_after }),
        _ => Err(nonsense(url, "its answer is not a JSON object; is this the directory of an authority for ACME?")),
    }
}

fn refused(answer: &Answer, url: &str, what: &str) -> Trouble {
    match answer.status {
        300..=399 => {
            nonsense(url, "it redirects elsewhere, which requests signed for it cannot follow; give the right --acme-directory")
        }
        // An overloaded or broken server, and not a decision of the authority about this order.
        500..=599 if answer.retry_after.is_none() => {
            nonsense(url, &format!("status {}: {}", answer.status, Problem::of_body(&answer.body)))
        }
        status => {
            let problem = Problem::of_body(&answer.body);
            let what = format!("{what} with status {status}");
            Trouble::Refused { what, problem, retry_after: answer.retry_after, challenge: None }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
