//! One response, read before there is any load, where the expected content was not said.

use crate::target::Target;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The content of the response to `request`, which asks for the connection to be closed.
///
/// # Errors
/// When there is no whole response.
pub fn content(target: &Target, request: &[u8], patience: Duration) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("the first request failed: {e}");
    let mut response = Vec::new();
    match target {
        Target::Internet(address) => {
            let mut stream = TcpStream::connect_timeout(address, patience).map_err(failed)?;
            stream.set_read_timeout(Some(patience)).map_err(failed)?;
            stream.write_all(request).map_err(failed)?;
            stream.read_to_end(&mut response).map_err(failed)?;
        }
        Target::Unix(address) => {
            let path = address.path().ok_or("no path")?.to_string_lossy().into_owned();
            let mut stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_read_timeout(Some(patience)).map_err(failed)?;
            stream.write_all(request).map_err(failed)?;
            stream.read_to_end(&mut response).map_err(failed)?;
        }
    }
    let head = response.windows(4).position(|four| four == b"\r\n\r\n").ok_or("the first response has no head")?;
    Ok(response.split_off(head + 4))
}
