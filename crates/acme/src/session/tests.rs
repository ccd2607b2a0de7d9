use super::*;
use crate::client::{Progress, renewed};
use crate::settings::{Challenge, LETS_ENCRYPT, Names};
use oribi_tls::pem::{self, CERTIFICATE};
use std::cell::{Cell, RefCell};
use std::path::Path;

mod progress;

/// An authority that answers by a script, and keeps the requests that it gets.
struct Script<F> {
    answer: F,
    sent: RefCell<Vec<(String, Value, Value)>>,
    nonces: Cell<usize>,
}

impl<F: Fn(&str, usize) -> Answer> Script<F> {
    /// `answer` gets the path of a request, and the number of earlier requests for that path.
    fn new(answer: F) -> Self {
        Self { answer, sent: RefCell::default(), nonces: Cell::new(0) }
    }

    /// The payloads of the requests to a path.
    fn payloads(&self, path: &str) -> Vec<Value> {
        self.sent.borrow().iter().filter(|sent| sent.0 == path).map(|sent| sent.2.clone()).collect()
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(value.as_str().expect("a text")).expect("base64")
}

fn decoded(value: &Value) -> Value {
    serde_json::from_slice(&bytes(value)).unwrap_or(Value::Null)
}

impl<F: Fn(&str, usize) -> Answer> World for Script<F> {
    fn send(&self, url: &str, content: Option<&str>) -> Result<Answer, String> {
        let path = url.strip_prefix("https://ca").expect("it asks nobody else").to_owned();
        let before = self.sent.borrow().iter().filter(|sent| sent.0 == path).count();
        let mut answer = (self.answer)(&path, before);
        let (mut protected, mut payload) = (Value::Null, Value::Null);
        if let Some(content) = content {
            let body: Value = serde_json::from_str(content).expect("JSON");
            (protected, payload) = (decoded(&body["protected"]), decoded(&body["payload"]));
            assert_eq!(protected["url"], url, "what is signed is for this URL");
        }
        self.sent.borrow_mut().push((path, protected, payload));
        self.nonces.set(self.nonces.get() + 1);
        answer.nonce.get_or_insert_with(|| format!("nonce{}", self.nonces.get()));
        Ok(answer)
    }

    fn pause(&self, _: Duration) {}
}

fn json_answer(status: u16, value: &Value) -> Answer {
    Answer { status, body: value.to_string().into_bytes(), ..Answer::default() }
}

fn at(place: &str, answer: Answer) -> Answer {
    Answer { location: Some(format!("https://ca{place}")), ..answer }
}

fn problem(status: u16, kind: &str) -> Answer {
    json_answer(status, &json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "no"}))
}

/// The responses of an authority that grants everything.
fn good(path: &str, before: usize) -> Answer {
    match path {
        "/dir" => json_answer(
            200,
            &json!({"newNonce": "https://ca/nonce", "newAccount": "https://ca/account", "newOrder": "https://ca/order"}),
        ),
        "/nonce" => Answer { status: 204, ..Answer::default() },
        "/account" => at("/account/1", json_answer(201, &json!({"status": "valid"}))),
        "/order" => at(
            "/order/1",
            json_answer(
                201,
                &json!({"status": "pending", "authorizations": ["https://ca/proof"], "finalize": "https://ca/finalize"}),
            ),
        ),
        "/proof" => {
            let status = if before < 2 { "pending" } else { "valid" };
            let challenges = json!([{"type": "dns-01"}, {"type": "http-01", "url": "https://ca/challenge", "token": "abc-_1"}]);
            json_answer(200, &json!({"status": status, "identifier": {"value": "a.org"}, "challenges": challenges}))
        }
        "/challenge" => json_answer(200, &json!({"status": "processing"})),
        "/order/1" if before == 0 => json_answer(200, &json!({"status": "ready", "finalize": "https://ca/finalize"})),
        "/order/1" => json_answer(200, &json!({"status": "valid", "certificate": "https://ca/certificate"})),
        "/finalize" => json_answer(200, &json!({"status": "processing"})),
        "/certificate" => {
            Answer { status: 200, body: pem::encode(CERTIFICATE, b"not parsed here").into_bytes(), ..Answer::default() }
        }
        _ => problem(404, "malformed"),
    }
}

fn settings(storage: &Path) -> Settings {
    Settings {
        certificates: vec![Names::parse("a.org").expect("it is good")],
        directory: "https://ca/dir".to_owned(),
        email: Some("me@a.org".to_owned()),
        storage: storage.to_owned(),
        authorities: None,
        agreed: true,
        challenge: Challenge::Http,
    }
}

/// Orders a certificate in a folder of its own, and returns the error.
fn trouble<F: Fn(&str, usize) -> Answer>(script: &Script<F>) -> String {
    let place = tempfile::tempdir().expect("a folder");
    let settings = settings(place.path());
    crate::prepare(&settings).expect("it can be made");
    trouble_in(&settings, script)
}

fn trouble_in<F: Fn(&str, usize) -> Answer>(settings: &Settings, script: &Script<F>) -> String {
    let file = settings.file(&settings.certificates[0]);
    let before = std::fs::read(&file).expect("the placeholder is there");
    let trouble = renewed(settings, &settings.certificates[0], script, &mut Progress::default());
    let trouble = trouble.expect_err("no script has a certificate for our key");
    assert_eq!(std::fs::read(&file).expect("it is there"), before, "what was there stays");
    trouble.to_string()
}

#[test]
fn an_order_takes_its_steps_and_what_is_no_certificate_is_not_kept() {
    let script = Script::new(good);
    let told = trouble(&script);
    assert!(told.contains("https://ca/dir: its certificate cannot be used"), "{told}");
    assert_eq!(script.payloads("/account"), [json!({"termsOfServiceAgreed": true, "contact": ["mailto:me@a.org"]})]);
    assert_eq!(script.payloads("/order"), [json!({"identifiers": [{"type": "dns", "value": "a.org"}]})]);
    assert_eq!(script.payloads("/challenge"), [json!({})]);
    assert_eq!(script.payloads("/proof").len(), 3);
    assert!(script.payloads("/finalize")[0]["csr"].is_string());
    let sent = script.sent.borrow();
    assert!(
        sent.iter().all(|(path, protected, _)| protected.is_null() || (path == "/account") == protected.get("jwk").is_some())
    );
    let mut nonces: Vec<_> = sent.iter().filter_map(|sent| sent.1["nonce"].as_str()).collect();
    let count = nonces.len();
    nonces.sort_unstable();
    nonces.dedup();
    assert!(count > 5 && nonces.len() == count, "no nonce is used twice");
}

#[test]
fn the_proof_for_a_handshake_is_there_as_long_as_the_authority_may_look() {
    let place = tempfile::tempdir().expect("a folder");
    let settings = Settings { challenge: Challenge::TlsAlpn, ..settings(place.path()) };
    crate::prepare(&settings).expect("it can be made");
    let shown = || std::fs::read_to_string(settings.proof()).expect("it is there");
    let offers = |name: &str, before: usize| {
        let status = if before < 2 { "pending" } else { "invalid" };
        let error = json!({"type": "urn:ietf:params:acme:error:connection", "detail": "refused"});
        let challenges = json!([{"type": "http-01", "url": "https://ca/other", "token": "xyz"},
            {"type": "tls-alpn-01", "url": "https://ca/challenge", "token": "abc-_1", "error": error}]);
        json_answer(200, &json!({"status": status, "identifier": {"value": name}, "challenges": challenges}))
    };
    let seen = RefCell::new(Vec::new());
    let script = Script::new(|path: &str, before: usize| {
        seen.borrow_mut().push((path.to_owned(), shown()));
        if path == "/proof" { offers("a.org", before) } else { good(path, before) }
    });
    let told = trouble_in(&settings, &script);
    assert!(told.contains("refused (connection); port 443 of this name"), "{told}");
    assert_eq!((script.payloads("/challenge"), script.payloads("/other")), (vec![json!({})], Vec::new()));
    let seen = seen.borrow();
    let asked = seen.iter().position(|(path, _)| path == "/challenge").expect("it was told to look");
    assert!(seen[..asked].iter().all(|(_, content)| content.is_empty()), "it is written when it is known");
    assert_eq!(seen.len(), asked + 3, "it was asked twice how far it is");
    for (_, content) in &seen[asked..] {
        let parts = ["a.org\n-----BEGIN PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\n"];
        assert!(content.starts_with(parts[0]) && content.contains(parts[1]), "{content}");
    }
    assert_eq!(shown(), "");
    // No proof is shown for a name that was not ordered.
    let script =
        Script::new(|path: &str, before: usize| if path == "/proof" { offers("b.org", before) } else { good(path, before) });
    let told = trouble_in(&settings, &script);
    assert!(told.contains("a name that was not ordered") && script.payloads("/challenge").is_empty(), "{told}");
}

#[test]
fn a_nonce_that_is_not_taken_is_replaced() {
    let script = Script::new(|path: &str, before: usize| match path {
        "/order" if before < 2 => Answer { nonce: Some(format!("fresh{before}")), ..problem(400, "badNonce") },
        _ => good(path, before),
    });
    assert!(trouble(&script).contains("cannot be used"), "it went on to the certificate");
    let sent = script.sent.borrow();
    let nonces: Vec<_> = sent.iter().filter(|sent| sent.0 == "/order").map(|sent| sent.1["nonce"].clone()).collect();
    assert_eq!(nonces[1..], [json!("fresh0"), json!("fresh1")]);
    drop(sent);
    let script =
        Script::new(|path: &str, before: usize| if path == "/order" { problem(400, "badNonce") } else { good(path, before) });
    assert!(trouble(&script).contains("it accepts none of the nonces"));
    assert_eq!(script.payloads("/order").len(), NONCES);
    // A nonce with other bytes is ignored, and another one is requested.
    let script = Script::new(|path: &str, before: usize| match path {
        "/account" => Answer { nonce: Some("not a nonce".to_owned()), ..good(path, before) },
        _ => good(path, before),
    });
    assert!(trouble(&script).contains("cannot be used"));
    assert_eq!(script.sent.borrow().iter().filter(|sent| sent.0 == "/nonce").count(), 2);
}

#[test]
fn refusals_are_told_in_the_words_of_the_authority() {
    let broken = json!({"status": "invalid", "identifier": {"value": "a.org"}, "challenges": [{"type": "http-01", "error":
        {"type": "urn:ietf:params:acme:error:connection", "detail": "192.0.2.1: refused"}}]});
    for (place, answer, expected) in [
        ("/account", problem(403, "externalAccountRequired"), "choose another by --acme-directory"),
        ("/order", problem(429, "rateLimited"), "an order with status 429: no (rateLimited)"),
        ("/proof", json_answer(200, &broken), "192.0.2.1: refused (connection); port 80 of this name"),
        ("/finalize", problem(403, "badCSR"), "a certificate with status 403: no (badCSR)"),
        ("/order/1", json_answer(200, &json!({"status": "invalid", "error": {"detail": "too late"}})), "too late"),
        ("/dir", Answer { status: 503, ..Answer::default() }, "https://ca/dir: status 503"),
    ] {
        let told =
            trouble(&Script::new(|path: &str, before: usize| if path == place { answer.clone() } else { good(path, before) }));
        assert!(told.contains(expected), "{place}: {told}");
    }
}

#[test]
fn nothing_that_an_authority_says_does_harm() {
    let place = tempfile::tempdir().expect("a folder");
    let settings = settings(place.path());
    crate::prepare(&settings).expect("it can be made");
    let deep = "[".repeat(1 << 20).into_bytes();
    let bodies = [&b""[..], b"[]", b"null", b"7", b"<html>", b"{}", b"{\"a\":", b"\xff\xfe", &deep];
    for place in ["/dir", "/nonce", "/account", "/order", "/proof", "/challenge", "/finalize", "/order/1", "/certificate"] {
        for body in bodies {
            for status in [200, 201, 204, 301, 308, 400, 500] {
                let answer = Answer { status, body: body.to_vec(), ..Answer::default() };
                let told = trouble_in(
                    &settings,
                    &Script::new(|path: &str, before: usize| if path == place { answer.clone() } else { good(path, before) }),
                );
                assert!(!told.is_empty() && told.len() < 1000, "{place} {status}: {told}");
            }
        }
    }
}

#[test]
fn what_is_named_must_be_safe() {
    for (place, value) in [
        ("/dir", json!({"newNonce": "http://ca/nonce", "newAccount": "https://ca/account", "newOrder": "https://ca/order"})),
        ("/dir", json!({"newNonce": "file:///etc/passwd", "newAccount": 7, "newOrder": []})),
        ("/order", json!({"status": "pending", "authorizations": ["http://169.254.169.254/"]})),
        ("/order", json!({"status": "pending", "authorizations": ["https://ca/proof", "https://ca/proof"]})),
        (
            "/proof",
            json!({"status": "pending", "challenges": [{"type": "http-01", "url": "https://ca/challenge", "token": "../../x"}]}),
        ),
        (
            "/proof",
            json!({"status": "pending", "challenges": [{"type": "http-01", "url": "ftp://ca/challenge", "token": "abc"}]}),
        ),
        (
            "/proof",
            json!({"status": "pending", "challenges": [{"type": "dns-01", "url": "https://ca/challenge", "token": "abc"}]}),
        ),
    ] {
        let script = Script::new(|path: &str, before: usize| match path {
            "/order" if path == place => at("/order/1", json_answer(201, &value)),
            _ if path == place => json_answer(200, &value),
            _ => good(path, before),
        });
        let told = trouble(&script);
        assert!(script.payloads("/challenge").is_empty() && !told.is_empty(), "{place}: {told}");
    }
    let script = Script::new(|path: &str, before: usize| match path {
        "/dir" => Answer { location: Some("https://elsewhere/dir".to_owned()), status: 302, ..Answer::default() },
        _ => good(path, before),
    });
    assert!(trouble(&script).contains("it redirects elsewhere"));
    assert_eq!(script.sent.borrow().len(), 1, "it is not followed");
}

#[test]
fn what_never_ends_is_given_up() {
    for place in ["/proof", "/order/1"] {
        let script = Script::new(|path: &str, before: usize| match path {
            _ if path == place => good(path, 0),
            _ => good(path, before),
        });
        let told = trouble(&script);
        assert!(told.contains("after 300 s"), "{told}");
        assert!(script.payloads(place).len() < 50, "pauses grow");
    }
}

#[test]
fn the_default_is_an_authority_whose_directory_is_a_url() {
    assert!(link(&Value::from(LETS_ENCRYPT)).is_some());
    assert!(link(&Value::from(format!("https://{}", "a".repeat(LONGEST_URL)))).is_none());
}
