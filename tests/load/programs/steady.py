# steady.py PORT RATE SECONDS CONNECTIONS APP...: asks for `/APP` over TLS, so many times a second in all, on so many
# connections. Every second one speaks HTTP/2, the others HTTP/1.1, and each asks every app equally often. A request is due at
# its own time, however long the answers before it take. The content of an answer must be the name of the app. At the end a line
# for each answer has the time at which the request was due, in seconds from the start, the wait for the answer in milliseconds,
# the protocol and the app. Then come a line for each request without an answer, and the number of these.
import gc
import selectors
import socket
import ssl
import sys
import time

PORT, RATE, SECONDS, CONNECTIONS = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
APPS = sys.argv[5:]
PATIENCE = 15
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
MOST_BYTES = (1 << 30).to_bytes(4, "big")

answers, lost, told = [], 0, []


def frame(kind, flags, stream, content=b""):
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


class Request:
    def __init__(self, app, due):
        self.app, self.due = app, due
        self.head, self.content = None, b""


class Http1:
    """A kept connection, on which one request follows the answer to another."""

    ALPN, NAME = "http/1.1", "h1"

    def __init__(self):
        self.socket, self.waiting = None, []
        self.open()

    def open(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([self.ALPN])
        plain = socket.create_connection(("127.0.0.1", PORT), PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain)
        if self.socket.selected_alpn_protocol() != self.ALPN:
            raise SystemExit(f"the server speaks {self.socket.selected_alpn_protocol()}, not {self.ALPN}")
        self.rest, self.current = b"", None
        self.greet()
        self.socket.setblocking(False)
        selector.register(self.socket, selectors.EVENT_READ, self)

    def greet(self):
        pass

    def ask(self, request):
        self.waiting.append(request)
        self.ask_next()

    def ask_next(self):
        if self.current is None and self.waiting:
            self.current = self.waiting.pop(0)
            self.send(f"GET /{self.current.app} HTTP/1.1\r\nHost: test\r\n\r\n".encode())

    def send(self, bytes):
        # A closed connection shows itself when the answer is read.
        try:
            self.socket.sendall(bytes)
        except OSError:
            pass

    def unanswered(self):
        return [self.current] if self.current else []

    def receive(self):
        try:
            while True:
                received = self.socket.recv(1 << 16)
                if not received:
                    return self.end("the end of the connection")
                self.rest += received
                self.take()
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError as why:
            self.end(repr(why))

    def take(self):
        head, end, content = self.rest.partition(b"\r\n\r\n")
        if not end or self.current is None:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"content-length", b"0"))
        if len(content) < size:
            return
        request, self.current, self.rest = self.current, None, content[size:]
        request.head, request.content = head, content[:size]
        conclude(self, request, head.startswith(b"HTTP/1.1 200 "))
        if fields.get(b"connection") == b"close":
            return self.end("the last answer")
        self.ask_next()

    def end(self, why):
        for request in self.unanswered():
            lose(self, request, why)
        selector.unregister(self.socket)
        self.socket.close()
        self.open()
        self.ask_next()


class Http2(Http1):
    """A connection with a stream for each request."""

    ALPN, NAME = "h2", "h2"

    def greet(self):
        self.streams, self.last = {}, -1
        self.send(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, MOST_BYTES))

    def ask_next(self):
        while self.waiting:
            request = self.waiting.pop(0)
            self.last += 2
            self.streams[self.last] = request
            pairs = [(":method", "GET"), (":scheme", "https"), (":path", f"/{request.app}"), (":authority", "test")]
            block = b"".join(b"\0" + b"".join(bytes([len(word)]) + word.encode() for word in pair) for pair in pairs)
            self.send(frame(HEADERS, 5, self.last, block))

    def unanswered(self):
        return list(self.streams.values())

    def take(self):
        while len(self.rest) >= 9:
            length, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
            number = int.from_bytes(self.rest[5:9], "big")
            if len(self.rest) < 9 + length:
                return
            content, self.rest = self.rest[9 : 9 + length], self.rest[9 + length :]
            request = self.streams.get(number)
            if kind in (SETTINGS, PING) and not flags & 1:
                self.send(frame(kind, 1, 0, content if kind == PING else b""))
            elif kind == GOAWAY:
                return self.end(f"GOAWAY {content.hex()}")
            elif request and kind == RESET:
                del self.streams[number]
                lose(self, request, f"RST_STREAM {content.hex()}")
            elif request and kind in (DATA, HEADERS):
                if kind == HEADERS and request.head is None:
                    request.head = content.lstrip(b"\x20")
                elif kind == DATA:
                    request.content += content
                if flags & 1:
                    del self.streams[number]
                    # :status 200 of the static table.
                    conclude(self, request, request.head[:1] == b"\x88")


def conclude(connection, request, is_good):
    if not is_good or request.content.strip() != request.app.encode():
        return lose(connection, request, f"{request.head[:60]!r} {request.content[:40]!r}")
    now = time.monotonic()
    answers.append((request.due - begin, 1000 * (now - request.due), connection.NAME, request.app))


def lose(connection, request, why):
    global lost
    lost += 1
    told.append(f"lost {request.due - begin:.3f} {connection.NAME} /{request.app}: {why}")


gc.disable()
selector = selectors.DefaultSelector()
begin = time.monotonic()
connections = [[Http1, Http2][number % 2]() for number in range(CONNECTIONS)]
# All are there and warm.
print("ready", flush=True)
begin = time.monotonic()
asked, count = 0, int(RATE * SECONDS)
while asked < count or any(connection.waiting or connection.unanswered() for connection in connections):
    now = time.monotonic()
    due = begin + asked / RATE if asked < count else begin + SECONDS + PATIENCE
    if now >= due:
        if asked >= count:
            break
        # Both protocols in turn, and each with all apps in turn.
        connections[asked % CONNECTIONS].ask(Request(APPS[asked // 2 % len(APPS)], due))
        asked += 1
        continue
    for key, _ in selector.select(due - now):
        key.data.receive()
for connection in connections:
    for request in connection.waiting + connection.unanswered():
        lose(connection, request, "no answer")
for answer in answers:
    print("answer %.3f %.2f %s %s" % answer)
for line in told:
    print(line)
print(f"lost {lost}")
