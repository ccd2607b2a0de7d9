#!/usr/bin/python3
"""over_http2.py PORT PATH TEXT [LENGTH]: opens a WebSocket on a stream of HTTP/2 (RFC 8441), sends a text, which is repeated up to
that length, and writes the status, and the text of the first message that comes."""

import collections
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
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return bytes([TEXT]) + length + MASK + masked


def message(received):
    """The text of a frame of the server; None if it is not complete."""
    head = {126: 4, 127: 10}.get(received[1], 2) if len(received) > 1 else 2
    if len(received) < head:
        return None
    size = received[1] if head == 2 else int.from_bytes(received[2:head], "big")
    whole = received[head:head + size]
    return (whole.decode() if received[0] == TEXT else repr(received)) if len(whole) == size else None


# The events that have come, and for which nobody has waited.
EVENTS = collections.deque()


def wait(connection, transport, kind):
    """Returns the next event of a kind."""
    while True:
        while EVENTS:
            event = EVENTS.popleft()
            if isinstance(event, h2.events.StreamReset):
                sys.exit("the stream was reset")
            if isinstance(event, kind):
                return event
        received = transport.recv(65536)
        if not received:
            sys.exit("the server has closed the connection")
        EVENTS.extend(connection.receive_data(received))
        transport.sendall(connection.data_to_send())


def send(connection, transport, content):
    """Sends content as the windows allow."""
    while content:
        size = min(connection.local_flow_control_window(1), connection.max_outbound_frame_size)
        if size == 0:
            wait(connection, transport, h2.events.WindowUpdated)
            continue
        connection.send_data(1, content[:size])
        transport.sendall(connection.data_to_send())
        content = content[size:]


def main(port, path, text, length="0"):
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
    send(connection, transport, frame(text * max(1, int(length) // len(text))))
    received = b""
    while message(received) is None:
        event = wait(connection, transport, h2.events.DataReceived)
        received += event.data
        connection.acknowledge_received_data(event.flow_controlled_length, 1)
        transport.sendall(connection.data_to_send())
    print(message(received))


main(*sys.argv[1:])
