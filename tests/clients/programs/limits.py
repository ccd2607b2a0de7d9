# limits.py PORT PROTOCOL SCHEME: a client of HTTP/1 or HTTP/2, over TLS or not, that exceeds each limit of a server, and
# reports the answer and the state of the connection.
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events

PORT, PROTOCOL, SCHEME = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PATIENCE = 60


def connect():
    connection = socket.create_connection(("127.0.0.1", PORT), timeout=PATIENCE)
    if SCHEME == "http":
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([PROTOCOL])
    # An end without TLS's own word for it is a fault.
    return context.wrap_socket(connection, suppress_ragged_eofs=False)


class Http1:
    """Asks and reads responses; what it does not send is not there."""

    def __init__(self):
        self.socket, self.received = connect(), b""

    def send(self, text):
        self.socket.sendall(text.encode())

    def ask(self, path="/", method="GET", fields=(), content=None, length=None):
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in fields)]
        if content is not None:
            head.append(f"Content-Length: {length or len(content)}")
        self.send("\r\n".join(head) + "\r\n\r\n" + (content or ""))
        return None

    def answer(self, _):
        while b"\r\n\r\n" not in self.received:
            data = self.socket.recv(65536)
            assert data, f"the end behind {self.received}"
            self.received += data
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
        length = int(lengths[0].split()[1])
        while len(self.received) < length:
            self.received += self.socket.recv(65536)
        self.received = self.received[length:]
        return head.split()[1].decode()

    def goes_on(self):
        try:
            self.ask()
            return "goes on" if self.answer(None) == "200" else "goes wrong"
        except (AssertionError, ConnectionError):
            return "ends"

    def end(self):
        while data := self.socket.recv(65536):
            self.received += data
        return f"{self.received}, the end" if self.received else "the end"

    def half_a_head(self):
        self.send("GET / HTTP/1.1\r\nHo")
        return f"{self.answer(None)}, {self.end()}"

    def many_pieces(self):
        self.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(4):
            self.send("1388\r\n" + "x" * 5000 + "\r\n")
        return None


class Http2:
    def __init__(self):
        self.socket = connect()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.statuses, self.ended, self.farewell = {}, set(), None
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def turn(self):
        data = self.socket.recv(65536)
        for event in self.h2.receive_data(data) if data else ():
            if isinstance(event, h2.events.ResponseReceived):
                self.statuses[event.stream_id] = dict(event.headers)[":status"]
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.farewell = event.error_code
        return bool(data)

    def ask(self, path="/", method="GET", fields=(), content=None, length=None):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", SCHEME), (":authority", "localhost"), (":path", path), *fields]
        if content is not None:
            head.append(("content-length", str(length or len(content))))
        self.h2.send_headers(number, head, end_stream=content is None)
        if content is not None:
            for start in range(0, len(content), 10_000):
                self.h2.send_data(number, content[start : start + 10_000].encode())
            if length is None:
                self.h2.end_stream(number)
        self.flush()
        return number

    def answer(self, number):
        while number not in self.ended:
            assert self.turn(), "the end"
            self.flush()
        return self.statuses.get(number, "reset")

    def goes_on(self):
        try:
            return "goes on" if self.answer(self.ask()) == "200" else "goes wrong"
        except (AssertionError, ConnectionError, h2.exceptions.ProtocolError):
            return "ends"

    def end(self):
        while self.turn():
            pass
        return f"GOAWAY {int(self.farewell)}, the end" if self.farewell is not None else "the end"

    def half_a_head(self):
        # HEADERS without END_HEADERS.
        self.socket.sendall(bytes([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]))
        return self.end()

    def many_pieces(self):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", SCHEME), (":authority", "localhost"), (":path", "/")]
        self.h2.send_headers(number, head)
        for _ in range(4):
            self.h2.send_data(number, b"x" * 5000)
        self.flush()
        return number


def on(connection, ask):
    """The status of an answer, and what becomes of the connection."""
    return f"{connection.answer(ask(connection))}, {connection.goes_on()}"


Client = {"http/1.1": Http1, "h2": Http2}[PROTOCOL]
print("long target:", on(Client(), lambda client: client.ask("/" + "a" * 2000)))
print("long field:", on(Client(), lambda client: client.ask(fields=[("x-long", "a" * 10_000)])))
print("many fields:", on(Client(), lambda client: client.ask(fields=[(f"x-{number}", "a") for number in range(60)])))
print("long content:", on(Client(), lambda client: client.ask(method="POST", content="x" * 20_000)))
print("content of unknown length:", on(Client(), lambda client: client.many_pieces()))
print("content that stops:", on(Client(), lambda client: client.ask(method="POST", content="half", length=8)))
print("half a head:", Client().half_a_head())
idle = Client()
print("idle:", idle.answer(idle.ask()), idle.end())
if SCHEME == "https":
    silent = socket.create_connection(("127.0.0.1", PORT), timeout=PATIENCE)
    print("no handshake:", silent.recv(65536) or "the end")
