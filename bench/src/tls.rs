//! The additional parts of the cells of TLS: a certificate for all servers, and a client that checks them, which is curl.

use crate::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The names of the certificate and its key in a server's directory.
pub const CERTIFICATE: &str = "site.crt";
/// See [`CERTIFICATE`].
pub const KEY: &str = "site.key";

/// The output of curl after the content.
const FORMAT: &str = "\n%{http_version} %{http_code}";

/// Makes a certificate with a P-256 key, as most sites have one.
///
/// # Errors
/// openssl is not installed, or fails.
pub fn make_certificate(directory: &Path) -> Result<(), String> {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    openssl.arg("-keyout").arg(directory.join(KEY)).arg("-out").arg(directory.join(CERTIFICATE));
    let output = openssl.output().map_err(|e| format!("openssl: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("openssl: {}", String::from_utf8_lossy(&output.stderr).trim())) }
}

/// Checks that a server answers exactly, and with the version of HTTP that the cell requires.
///
/// # Errors
/// The first fault.
pub fn check(cell: &Cell, port: u16, patience: Duration) -> Result<(), String> {
    let mut expected = cell.body();
    expected.extend_from_slice(if cell.streams > 0 { b"\n2 200" } else { b"\n1.1 200" });
    let answer = ask(cell, port, patience)?;
    if answer == expected {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
    let end = String::from_utf8_lossy(&answer[answer.len().saturating_sub(8)..]).into_owned();
    Err(format!("wrong answer: {} bytes ({start:?}, at the end {end:?})", answer.len()))
}

/// Returns the time for which a new client waits for its answer while the server is under load; `None` if it gets no answer
/// within `patience`. The time includes the start of curl.
pub fn newcomer(cell: &Cell, port: u16, patience: Duration) -> Option<Duration> {
    let start = Instant::now();
    ask(cell, port, patience).ok()?;
    Some(start.elapsed())
}

fn ask(cell: &Cell, port: u16, patience: Duration) -> Result<Vec<u8>, String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--insecure", "--write-out", FORMAT]);
    curl.arg(if cell.streams > 0 { "--http2" } else { "--http1.1" });
    curl.args(["--max-time", &patience.as_secs().max(1).to_string()]);
    let url = format!("https://127.0.0.1:{port}{}", cell.answer.path());
    let output = curl.arg(url).output().map_err(|e| format!("curl: {e}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
