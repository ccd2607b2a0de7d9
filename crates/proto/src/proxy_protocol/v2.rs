//! Version 2: sixteen bytes, two addresses, and further values that are not needed here.

use super::{Client, NONE, Step};
use core::net::{IpAddr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The signature, version and command, family and transport, and the number of bytes that follow.
const FIXED: usize = 16;

/// The most bytes of a header. Proxies send some hundred, a certificate's name and an id of the connection among them.
pub(super) const LONGEST: usize = 4096;

pub(super) fn read(input: &[u8]) -> Step {
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED>() else {
        return if input.len() > 12 && input[12] >> 4 != 2 { Step::Refused(NONE) } else { Step::NeedInput };
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let size = usize::from(u16::from_be_bytes([high, low]));
    if version_and_command >> 4 != 2 {
        return Step::Refused(NONE);
    }
    if FIXED + size > LONGEST {
        return Step::Refused("its PROXY header exceeds 4096 bytes");
    }
    let Some(content) = rest.get(..size) else { return Step::NeedInput };
    let client = match version_and_command & 15 {
        // The rest of the content must be ignored.
        0 => Ok(Client::Proxy),
        1 => client(family, content),
        _ => Err("its PROXY header has an unknown command"),
    };
    match client {
        Ok(client) => Step::Header { consumed: FIXED + size, client },
        Err(why) => Step::Refused(why),
    }
}

fn client(family: u8, content: &[u8]) -> Result<Client, &'static str> {
    const SHORT: &str = "its PROXY header is too short for its addresses";
    let (client, rest) = match family {
        0x00 => (Client::Unknown, content),
        0x11 => {
            let (addresses, rest) = content.split_first_chunk::<12>().ok_or(SHORT)?;
            let [a, b, c, d, .., high, low, _, _] = *addresses;
            (address([a, b, c, d].into(), [high, low]), rest)
        }
        0x21 => {
            let (addresses, rest) = content.split_first_chunk::<36>().ok_or(SHORT)?;
            let [.., high, low, _, _] = *addresses;
            let (source, _) = addresses.split_first_chunk::<16>().ok_or(SHORT)?;
            (address((*source).into(), [high, low]), rest)
        }
        0x31 => (Client::Unknown, content.get(216..).ok_or(SHORT)?),
        0x12 | 0x22 | 0x32 => return Err("its PROXY header is one for datagrams"),
        _ => return Err("its PROXY header has an unknown family of addresses"),
    };
    check_values(rest)?;
    Ok(client)
}

fn address(source: IpAddr, port: [u8; 2]) -> Client {
    Client::Address(SocketAddr::new(source.to_canonical(), u16::from_be_bytes(port)))
}

/// Checks that the values after the addresses (a type, the length in two bytes, the value) fill the rest of the header.
fn check_values(mut rest: &[u8]) -> Result<(), &'static str> {
    const BROKEN: &str = "a value in its PROXY header is cut off";
    while let Some((_, behind)) = rest.split_first() {
        let (size, behind) = behind.split_first_chunk::<2>().ok_or(BROKEN)?;
        rest = behind.get(usize::from(u16::from_be_bytes(*size))..).ok_or(BROKEN)?;
    }
    Ok(())
}
