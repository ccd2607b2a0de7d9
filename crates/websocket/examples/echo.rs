//! An echo server, for examinations by other implementations: `cargo run --release -p oribi-websocket --example echo 9001`.
//! Messages may have 64 MiB. A thread serves each connection.

use oribi_websocket::{
    CLOSE_PAYLOAD, Deflate, Deflater, Inflater, Kind, Limits, Message, Reader, accept_key, close, frame, offered_deflate,
};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

const LIMITS: Limits = Limits { message: 64 << 20, frames_of_message: 1 << 20 };

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(9001);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(|| serve(stream).unwrap_or_else(|error| eprintln!("{error}")));
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some((deflate, mut bytes)) = shake_hands(&mut stream)? else { return Ok(()) };
    let mut reader = Reader::new(deflate.is_some());
    let (mut inflater, mut deflater) = (Inflater::new(), Deflater::new(6));
    loop {
        let mut output = Vec::new();
        let mut closed = false;
        let result = reader.read(&mut bytes, &LIMITS, &mut inflater, &mut |message| {
            match message {
                Message::Text(text) => echo(Kind::Text, text.as_bytes(), deflate, &mut deflater, &mut output),
                Message::Binary(bytes) => echo(Kind::Binary, bytes, deflate, &mut deflater, &mut output),
                Message::Ping(payload) => push(Kind::Pong, payload, false, &mut output),
                Message::Pong(_) => {}
                Message::Close { code, reason } => {
                    push_close(code, reason, &mut output);
                    closed = true;
                }
            }
            true
        });
        if let Err(fault) = result {
            push_close(fault.code, fault.reason, &mut output);
            closed = true;
        }
        stream.write_all(&output)?;
        if closed {
            return Ok(());
        }
        bytes.resize(64 << 10, 0);
        let length = stream.read(&mut bytes)?;
        bytes.truncate(length);
        if length == 0 {
            return Ok(());
        }
    }
}

fn echo(kind: Kind, payload: &[u8], deflate: Option<Deflate>, deflater: &mut Deflater, output: &mut Vec<u8>) {
    let compressed = deflate
        .filter(|_| Deflater::worth(payload.len()))
        .and_then(|deflate| deflater.compress(payload, deflate.window_bits()));
    match compressed {
        Some(compressed) => push(kind, compressed, true, output),
        None => push(kind, payload, false, output),
    }
}

fn push_close(code: u16, reason: &str, output: &mut Vec<u8>) {
    let mut payload = [0; CLOSE_PAYLOAD];
    let length = close(code, reason, &mut payload);
    push(Kind::Close, &payload[..length], false, output);
}

fn push(kind: Kind, payload: &[u8], compressed: bool, output: &mut Vec<u8>) {
    let mut head = [0; 10];
    let length = frame(kind, payload.len(), compressed, &mut head);
    output.extend_from_slice(&head[..length]);
    output.extend_from_slice(payload);
}

/// Answers the handshake. Returns the agreement, and the bytes behind the handshake; None: it is no request for WebSocket.
fn shake_hands(stream: &mut TcpStream) -> io::Result<Option<(Option<Deflate>, Vec<u8>)>> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece)?;
        if length == 0 || head.len() > 16_384 {
            return Ok(None);
        }
        head.extend_from_slice(&piece[..length]);
    };
    let rest = head[end + 4..].to_vec();
    let lines = String::from_utf8_lossy(&head[..end]).into_owned();
    let field = |name: &str| {
        let is_named = |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        lines.lines().find(is_named).and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    };
    let Some(accept) = accept_key(field("Sec-WebSocket-Key").as_bytes()) else {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
        return Ok(None);
    };
    let deflate = offered_deflate(field("Sec-WebSocket-Extensions").as_bytes());
    let extensions =
        deflate.map_or_else(String::new, |deflate| format!("Sec-WebSocket-Extensions: {}\r\n", deflate.response()));
    let accept = String::from_utf8_lossy(&accept);
    write!(
        stream,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{extensions}\r\n"
    )?;
    Ok(Some((deflate, rest)))
}
