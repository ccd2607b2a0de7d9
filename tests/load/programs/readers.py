# readers.py PLAIN TLS COUNT SECONDS RAMP: so many clients that each take 20 KB/s of a response of 5 MB, for so many seconds,
# and begin within RAMP seconds. They use HTTP/1.1 and HTTP/2, each with and without TLS (the ports PLAIN and TLS), for bodies
# that the app streams and bodies that it returns whole. A tenth of them then takes the rest as fast as it can. Every byte is
# compared. The last line has the number of served readers, of those that have all bytes, the fewest bytes of one, and the
# number of wrong or lost ones.
import heapq
import re
import socket
import ssl
import sys
import time

PLAIN, TLS, COUNT = (int(word) for word in sys.argv[1:4])
SECONDS, RAMP = (float(word) for word in sys.argv[4:6])
LENGTH, RATE, EVERY = 5_000_000, 20_000, 0.25
STEP = int(RATE * EVERY)
ALPHABET = b"abcdefghijklmnopqrstuvwxyz"
PATTERN = ALPHABET * 40_000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8


class Wrong(Exception):
    pass


def frame(kind, flags, stream, content=b""):
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


class Reader:
    """A client of HTTP/1.1."""

    def __init__(self, number, encrypts, streamed):
        self.number, self.received, self.rest, self.head, self.trouble = number, 0, b"", None, None
        self.chunk = self.whole = 0
        self.target = f"/stream?{number}&{LENGTH}&500" if streamed else f"/big?{number}&{LENGTH}"
        self.socket = socket.socket()
        # A kernel that takes everything for its client would leave nothing to a server.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", TLS if encrypts else PLAIN))
        if encrypts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols([self.ALPN])
            self.socket = context.wrap_socket(self.socket)
        self.ask()

    ALPN = "http/1.1"

    def ask(self):
        self.socket.sendall(f"GET {self.target} HTTP/1.1\r\nHost: test\r\n\r\n".encode())

    def go_on(self, most):
        """Takes at most so many bytes, if they are there."""
        self.socket.settimeout(0)
        try:
            while most > 0 and not self.whole:
                taken = self.socket.recv(min(most, 1 << 18))
                if not taken:
                    raise Wrong(f"the end behind {self.received} bytes")
                most -= len(taken)
                self.take(taken)
        except (BlockingIOError, ssl.SSLWantReadError):
            pass

    def take(self, bytes):
        self.rest += bytes
        if self.head is None:
            head, end, behind = self.rest.partition(b"\r\n\r\n")
            if not end:
                return
            self.head, self.rest = head.lower(), behind
            if not head.startswith(b"HTTP/1.1 200 "):
                raise Wrong(str(head[:40]))
            self.chunked = b"transfer-encoding: chunked" in self.head
        if not self.chunked:
            self.compare(self.rest)
            self.rest = b""
        while self.chunked and self.rest and not self.whole:
            if self.chunk == 0:
                size = re.match(rb"(?:\r\n)?([0-9a-f]+)\r\n", self.rest, re.I)
                if not size:
                    return
                self.chunk, self.rest = int(size[1], 16), self.rest[size.end() :]
                self.whole = self.chunk == 0
            piece, self.rest = self.rest[: self.chunk], self.rest[self.chunk :]
            self.chunk -= len(piece)
            self.compare(piece)

    def compare(self, piece):
        start = (self.received + self.number) % 26
        if PATTERN[start : start + len(piece)] != piece:
            raise Wrong(f"content at {self.received}")
        self.received += len(piece)
        if not getattr(self, "chunked", False) and self.received == LENGTH:
            self.whole = True


class Http2(Reader):
    """A client of HTTP/2, which takes all that comes and makes room for more as slowly as it reads."""

    ALPN = "h2"

    def ask(self):
        pairs = [(":method", "GET"), (":scheme", "http"), (":path", self.target), (":authority", "test")]
        block = b"".join(b"\0" + b"".join(bytes([len(word)]) + word.encode() for word in pair) for pair in pairs)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, block))

    def go_on(self, most):
        super().go_on(1 << 30)
        if not self.whole:
            room = most.to_bytes(4, "big")
            self.say(frame(WINDOW, 0, 0, room) + frame(WINDOW, 0, 1, room))

    def say(self, bytes):
        self.socket.settimeout(10)
        self.socket.sendall(bytes)
        self.socket.settimeout(0)

    def take(self, bytes):
        self.rest += bytes
        while len(self.rest) >= 9:
            length, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
            if len(self.rest) < 9 + length:
                return
            content, self.rest = self.rest[9 : 9 + length], self.rest[9 + length :]
            if kind == HEADERS and self.head is None:
                self.head = content
                # :status 200 of the static table, after the size of the dynamic one.
                if content.lstrip(b"\x20")[0] != 0x88:
                    raise Wrong(f"status {content[:1].hex()}")
            elif kind == DATA:
                self.compare(content)
            elif kind in (RESET, GOAWAY):
                raise Wrong(f"frame {kind} {content.hex()}")
            elif kind in (SETTINGS, PING) and not flags & 1:
                self.say(frame(kind, 1, 0, content if kind == PING else b""))
            self.whole = self.whole or bool(kind in (DATA, HEADERS) and flags & 1)


def advance(reader, most):
    try:
        reader.go_on(most)
    except (Wrong, OSError) as why:
        reader.trouble = f"{type(reader).__name__} {reader.target}: {why!r}"
        print(reader.trouble, flush=True)


start = time.monotonic()
readers, turns = [], [(start + RAMP * number / COUNT, number) for number in range(COUNT)]
while turns:
    due, number = heapq.heappop(turns)
    time.sleep(max(0, due - time.monotonic()))
    if number == len(readers):
        kind, encrypts, streamed = [Reader, Http2][number % 2], number // 2 % 2, number // 4 % 2
        reader = kind(number, bool(encrypts), bool(streamed))
        reader.end = time.monotonic() + SECONDS
        readers.append(reader)
        if number == COUNT - 1:
            print("all are there", flush=True)
    else:
        advance(readers[number], STEP)
    if due < readers[number].end and not readers[number].trouble:
        heapq.heappush(turns, (due + EVERY, number))
print("they have read", flush=True)
fewest = min(reader.received for reader in readers)
served = sum(reader.received >= RATE * SECONDS * 0.8 for reader in readers)
# Of each kind some.
quick = [reader for reader in readers if reader.number // 8 % 10 == 0 and not reader.trouble]
until = time.monotonic() + 60
while any(not reader.whole and not reader.trouble for reader in quick) and time.monotonic() < until:
    for reader in quick:
        if not reader.whole and not reader.trouble:
            advance(reader, 1 << 20)
    time.sleep(0.001)
short = [reader for reader in quick if not (reader.whole and reader.received == LENGTH)]
print(f"served {served} whole {len(quick) - len(short)}/{len(quick)} fewest {fewest} wrong {sum(bool(reader.trouble) for reader in readers)}")
