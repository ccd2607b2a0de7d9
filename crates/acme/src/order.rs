//! An order: from the names to a certificate (RFC 8555, section 7.4).

use crate::account_key::encode;
use crate::challenge::is_token;
use crate::draft::Draft;
use crate::files::ProofFile;
use crate::https::World;
use crate::problem::Problem;
use crate::request::{proof, request};
use crate::session::{Document, Session, Trouble, link, nonsense};
use crate::settings::{Challenge, Names};
use oribi_http_client::printable;
use oribi_tls::pem::{self, CERTIFICATE};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::time::Duration;

/// The first pause between two polls of a resource. Each further pause is twice as long as the one before, up to the longest
/// pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The time that an authority may take for one step.
const PATIENCE: Duration = Duration::from_secs(300);

/// The most certificates of a chain.
const LONGEST_CHAIN: usize = 16;

/// Orders a certificate for these names, or continues the order of `draft`. Returns the content of the certificate's file, as
/// PEM: the key, the certificate, and the chain of certificates from it to the authority.
///
/// If this fails after the proofs, `draft` is the one to continue with.
pub(crate) fn order<W: World>(
    session: &mut Session<'_, W>,
    names: &Names,
    draft: &mut Option<Draft>,
) -> Result<String, Trouble> {
    if let Some(draft) = draft.as_ref()
        && let Some(order) = earlier(session, draft)?
    {
        return issue(session, order, names, draft);
    }
    if let Some(draft) = draft.take() {
        log::info!("{names}: nothing will be issued for the order {}; another one begins", printable(&draft.order));
        Draft::remove(session.settings(), names);
    }
    let order = proved(session, names)?;
    let draft = draft.insert(Draft::new(&order.url).map_err(Trouble::Unreachable)?);
    issue(session, order, names, draft)
}

/// Requests the order of an earlier attempt. `None` if nothing will be issued for it.
fn earlier<W: World>(session: &mut Session<'_, W>, draft: &Draft) -> Result<Option<Document>, Trouble> {
    if draft.is_given_up() {
        return Ok(None);
    }
    let Some(order) = session.find_order(&draft.order)? else { return Ok(None) };
    match order.status() {
        "ready" | "processing" | "valid" => Ok(Some(order)),
        // An order whose proofs were accepted is not pending again, unless the authority has revoked them.
        "pending" | "invalid" => Ok(None),
        status => Err(nonsense(&draft.order, &format!("the status of the order is \"{}\"", printable(status)))),
    }
}

/// Begins an order, and proves that its names belong to this server.
fn proved<W: World>(session: &mut Session<'_, W>, names: &Names) -> Result<Document, Trouble> {
    let identifiers: Vec<Value> = names.all().iter().map(|name| json!({"type": "dns", "value": name})).collect();
    let wanted = json!({"identifiers": identifiers}).to_string();
    let url = session.new_order();
    let mut order = session.ask(&url, &wanted, "an order")?;
    if link(&Value::from(order.url.as_str())).is_none() || order.url == url {
        return Err(nonsense(&url, "its answer has no URL of the order"));
    }
    let authorizations = order.value["authorizations"].as_array().cloned().unwrap_or_default();
    if authorizations.len() > names.all().len() {
        return Err(nonsense(&url, "it wants proof for more names than were ordered"));
    }
    for authorization in &authorizations {
        let url = link(authorization).ok_or_else(|| nonsense(&order.url, "an authorization has no URL"))?;
        prove(session, url, names)?;
    }
    order = follow(session, order, &["pending"], "an order")?;
    if order.status() != "ready" {
        let why = format!("the status of the order is \"{}\" when all proofs are accepted", printable(order.status()));
        return Err(nonsense(&order.url, &why));
    }
    Ok(order)
}

/// Requests the certificate of an order whose proofs were accepted.
fn issue<W: World>(session: &mut Session<'_, W>, mut order: Document, names: &Names, draft: &Draft) -> Result<String, Trouble> {
    if order.status() == "ready" {
        let finalize = order.link("finalize")?.to_owned();
        let request = request(names, &draft.key).map_err(Trouble::Unreachable)?;
        draft.write(session.settings(), names, &session.thumbprint()).map_err(Trouble::Unreachable)?;
        let content = json!({"csr": encode(&request)}).to_string();
        order = session.ask(&finalize, &content, "a certificate")?;
        order.url.clone_from(&draft.order);
    }
    order = follow(session, order, &["pending", "ready", "processing"], "a certificate")?;
    let place = order.link("certificate")?.to_owned();
    let chain = session.fetch(&place, "a certificate")?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).take(LONGEST_CHAIN).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| nonsense(&place, "there is no certificate"))?;
    // The certificates are encoded again, so that no other bytes of the response get into the file.
    Ok(chain.iter().fold(draft.key.clone(), |text, certificate| text + &pem::encode(CERTIFICATE, certificate)))
}

/// Proves that this server controls the name of one authorization.
fn prove<W: World>(session: &mut Session<'_, W>, url: &str, names: &Names) -> Result<(), Trouble> {
    let (kind, mut shown) = (session.settings().challenge, None);
    let mut authorization = session.ask(url, "", "an authorization")?;
    authorization.url = url.to_owned();
    let name = authorization.value["identifier"]["value"].as_str().map(printable).unwrap_or_default();
    if authorization.status() == "pending" {
        let challenges = authorization.value["challenges"].as_array();
        let challenge = challenges.into_iter().flatten().find(|challenge| challenge["type"] == kind.name());
        let Some(challenge) = challenge else {
            let why = format!("it offers no {} challenge for {name}; see --acme-challenge", kind.name());
            return Err(nonsense(url, &why));
        };
        let place = link(&challenge["url"]).ok_or_else(|| nonsense(url, "a challenge has no URL"))?.to_owned();
        let Some(token) = challenge["token"].as_str().filter(|token| is_token(token)) else {
            return Err(nonsense(url, "the token of a challenge is invalid"));
        };
        if kind == Challenge::TlsAlpn {
            let Some(name) = names.all().iter().find(|ordered| **ordered == name) else {
                return Err(nonsense(url, "it asks for proof of a name that was not ordered"));
            };
            let certificate = proof(name, &format!("{token}.{}", session.thumbprint())).map_err(Trouble::Unreachable)?;
            shown = Some(ProofFile::new(session.settings(), name, &certificate).map_err(Trouble::Unreachable)?);
        }
        session.ask(&place, "{}", "a challenge")?;
    }
    let authorization = follow(session, authorization, &["pending", "processing"], &name)?;
    drop(shown);
    if authorization.status() == "valid" {
        return Ok(());
    }
    let challenges = authorization.value["challenges"].as_array();
    let error = challenges.into_iter().flatten().map(|challenge| &challenge["error"]).find(|error| error.is_object());
    let problem = Problem::of(error.unwrap_or(&Value::Null));
    let what = format!("to accept that {name} belongs to this server");
    Err(Trouble::Refused { what, problem, retry_after: None, challenge: Some(kind) })
}

/// Polls a document until its status is not among `unfinished`.
fn follow<W: World>(
    session: &mut Session<'_, W>,
    mut document: Document,
    unfinished: &[&str],
    what: &str,
) -> Result<Document, Trouble> {
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    while unfinished.contains(&document.status()) {
        if waited >= PATIENCE {
            let why = format!("{what} is still {} after {} s", printable(document.status()), PATIENCE.as_secs());
            return Err(nonsense(&document.url, &why));
        }
        let time = document.retry_after.map_or(pause, |time| time.clamp(FIRST_PAUSE, LONGEST_PAUSE));
        session.pause(time);
        (waited, pause) = (waited + time, LONGEST_PAUSE.min(pause * 2));
        let url = document.url;
        document = session.ask(&url, "", what)?;
        document.url = url;
    }
    if document.status() == "invalid" && document.value["error"].is_object() {
        let problem = Problem::of(&document.value["error"]);
        return Err(Trouble::Refused { what: what.to_owned(), problem, retry_after: None, challenge: None });
    }
    Ok(document)
}
