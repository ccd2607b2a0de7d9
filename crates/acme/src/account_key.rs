//! The key of an account, which signs requests as JSON Web Signatures (RFC 7515) with ES256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The key of an account.
pub(crate) struct AccountKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

/// The way in which a request names its sender (RFC 8555, section 6.2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signer<'a> {
    /// By the public key itself, because the URL of the account is not known yet.
    Key,
    /// By the URL of the account.
    Account(&'a str),
}

impl AccountKey {
    /// Generates a key, as PKCS #8.
    pub(crate) fn generate() -> Result<Vec<u8>, String> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(|_| "the system has no random numbers".to_owned())?.as_ref().to_vec())
    }

    pub(crate) fn of(pkcs8: &[u8]) -> Result<Self, String> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random);
        Ok(Self { pair: pair.map_err(|_| "it is not an ECDSA key for P-256 in PKCS #8".to_owned())?, random })
    }

    /// The thumbprint of the key (RFC 7638), which is part of the answers to challenges.
    pub(crate) fn thumbprint(&self) -> String {
        let (x, y) = self.point();
        // The members in alphabetical order, without blanks: section 3.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        encode(digest(&SHA256, canonical.as_bytes()).as_ref())
    }

    /// Signs a request to `url`. An empty `content` makes the request a POST-as-GET (RFC 8555, section 6.3).
    pub(crate) fn sign(&self, url: &str, nonce: &str, signer: Signer<'_>, content: &str) -> Result<String, String> {
        let mut protected = json!({"alg": "ES256", "nonce": nonce, "url": url});
        match signer {
            Signer::Key => protected["jwk"] = self.public(),
            Signer::Account(account) => protected["kid"] = Value::from(account),
        }
        let (protected, payload) = (encode(protected.to_string().as_bytes()), encode(content.as_bytes()));
        let signed = self.pair.sign(&self.random, format!("{protected}.{payload}").as_bytes());
        let signature = encode(signed.map_err(|_| "the system has no random numbers".to_owned())?.as_ref());
        Ok(json!({"protected": protected, "payload": payload, "signature": signature}).to_string())
    }

    fn public(&self) -> Value {
        let (x, y) = self.point();
        json!({"crv": "P-256", "kty": "EC", "x": x, "y": y})
    }

    /// Returns the coordinates of the public key, encoded. The key begins with a byte that means the uncompressed form; the two
    /// coordinates of 32 bytes each follow (SEC 1, section 2.3.3).
    fn point(&self) -> (String, String) {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        (encode(x), encode(y))
    }
}

/// Encodes bytes as base64url without padding, the form that all of ACME uses.
pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    fn key() -> AccountKey {
        AccountKey::of(&AccountKey::generate().expect("there are random numbers")).expect("it is good")
    }

    fn decode(text: &Value) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text.as_str().expect("a text")).expect("base64 without padding")
    }

    #[test]
    fn a_request_is_signed_by_the_key_that_it_names() {
        let key = key();
        let text = key.sign("https://a/new", "n1", Signer::Key, r#"{"a":1}"#).expect("it is signed");
        let body: Value = serde_json::from_str(&text).expect("JSON");
        let protected: Value = serde_json::from_slice(&decode(&body["protected"])).expect("JSON");
        assert_eq!(
            (&protected["alg"], &protected["nonce"], &protected["url"]),
            (&json!("ES256"), &json!("n1"), &json!("https://a/new"))
        );
        assert!(protected.get("kid").is_none(), "either the key or the account");
        let public = [&[4][..], &decode(&protected["jwk"]["x"]), &decode(&protected["jwk"]["y"])].concat();
        let signed = format!("{}.{}", body["protected"].as_str().expect("a text"), body["payload"].as_str().expect("a text"));
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
        assert!(verifier.verify(signed.as_bytes(), &decode(&body["signature"])).is_ok());
        assert!(verifier.verify(b"another text", &decode(&body["signature"])).is_err());
        assert_eq!(decode(&body["payload"]), br#"{"a":1}"#);
    }

    #[test]
    fn a_request_that_reads_has_an_empty_payload() {
        let body: Value =
            serde_json::from_str(&key().sign("https://a/b", "n", Signer::Account("https://a/me"), "").expect("it is signed"))
                .expect("JSON");
        assert_eq!(body["payload"], "");
        let protected: Value = serde_json::from_slice(&decode(&body["protected"])).expect("JSON");
        assert_eq!(protected["kid"], "https://a/me");
        assert!(protected.get("jwk").is_none());
    }

    #[test]
    fn the_thumbprint_is_that_of_the_members_in_order() {
        let key = key();
        let public = key.public();
        let members: std::collections::BTreeMap<String, String> = serde_json::from_value(public).expect("texts");
        // A BTreeMap serializes in the order of its keys.
        let canonical = serde_json::to_string(&members).expect("JSON");
        assert_eq!(key.thumbprint(), encode(digest(&SHA256, canonical.as_bytes()).as_ref()));
        assert_eq!(key.thumbprint().len(), 43);
    }

    #[test]
    fn other_keys_are_refused() {
        assert!(AccountKey::of(b"nonsense").is_err());
    }
}
