//! One response, read before there is any load, where the expected content was not said.

use crate::response::head_and_content;
use crate::target::Target;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Sends `request`, and returns the content of the response.
///
/// # Errors
/// There is no complete response.
pub fn content(target: &Target, request: &[u8], patience: Duration) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("the first request failed: {e}");
    match target {
        Target::Internet(address) => {
            let stream = TcpStream::connect_timeout(address, patience).map_err(failed)?;
            stream.set_read_timeout(Some(patience)).map_err(failed)?;
            ask(stream, request)
        }
        Target::Unix(address) => {
            let path = address.path().ok_or("no path")?.to_string_lossy().into_owned();
            let stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_read_timeout(Some(patience)).map_err(failed)?;
            ask(stream, request)
        }
    }
}

fn ask(mut stream: impl Read + Write, request: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("the first request failed: {e}");
    stream.write_all(request).map_err(failed)?;
    let (mut response, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let come = stream.read(&mut buffer).map_err(failed)?;
        response.extend_from_slice(&buffer[..come]);
        if let Some((head, content)) = head_and_content(&response)?
            && response.len() >= head + content
        {
            response.truncate(head + content);
            return Ok(response.split_off(head));
        }
        if come == 0 {
            return Err("the first response is not whole".to_owned());
        }
    }
}
