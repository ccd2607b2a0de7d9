//! A stream of HTTP/2 that an extended CONNECT has opened (RFC 8441): its DATA is that of another protocol.

use super::websocket::WebSocket;

/// The state of a tunnel.
#[derive(Debug)]
pub(super) enum Tunnel {
    /// The app has not answered yet. The bytes that have arrived already, which the window of the stream limits.
    Asked {
        early: Vec<u8>,
        /// Whether the client has ended its side behind them.
        ended: bool,
    },
    /// A WebSocket, and the bytes that have arrived and are not read, because its app is busy.
    Open(WebSocket, Vec<u8>),
}
