#!/usr/bin/python3
"""over_http2.py PORT PATH TEXT: opens a WebSocket on a stream of HTTP/2 (RFC 8441), sends a text, and writes what comes: the
status, and the text of the first message."""

import socket
import sys

import h2.config
import h2.connection
import h2.events

MASK = b"\x01\x02\x03\x04"
TEXT = 0x81


def frame(text):
    payload = text.encode()
    masked = bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))
    return bytes([TEXT, 0x80 | len(payload)]) + MASK + masked


def wait(connection, transport, kind):
    """Returns the first event of a kind."""
    while True:
        received = transport.recv(65536)
        if not received:
            sys.exit("the server has closed the connection")
        events = connection.receive_data(received)
        transport.sendall(connection.data_to_send())
        for event in events:
            if isinstance(event, h2.events.StreamReset):
                sys.exit("the stream was reset")
            if isinstance(event, kind):
                return event


def main(port, path, text):
    transport = socket.create_connection(("127.0.0.1", int(port)))
    transport.settimeout(60)
    config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    transport.sendall(connection.data_to_send())
    wait(connection, transport, h2.events.RemoteSettingsChanged)
    fields = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", path)]
    fields += [(":authority", "localhost"), ("sec-websocket-version", "13")]
    connection.send_headers(1, fields)
    transport.sendall(connection.data_to_send())
    print(dict(wait(connection, transport, h2.events.ResponseReceived).headers)[":status"])
    connection.send_data(1, frame(text))
    transport.sendall(connection.data_to_send())
    message = wait(connection, transport, h2.events.DataReceived).data
    print(message[2:].decode() if message[0] == TEXT else message)


main(*sys.argv[1:])
