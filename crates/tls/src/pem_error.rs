//! What is wrong with a file in PEM, in words that help whoever wrote it.

use rustls::pki_types::pem;

pub(crate) fn of_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a line that says END is missing: the file was cut off".to_owned(),
        _ => format!("it is no PEM file ({error})"),
    }
}
