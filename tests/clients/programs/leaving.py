# leaving.py PORT: clients at an encrypted port whose server is about to leave them. When each has begun its act, the program
# prints "ready" and waits for a line: the server has the order. Then each continues, and the program reports the result of
# each.
import socket
import ssl
import struct
import sys
import threading

import hpack

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END = ACK = 1
END_HEADERS = 4
PATIENCE = 60

told, leaving = threading.Event(), threading.Event()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def room(stream, size):
    return frame(WINDOW, 0, stream, struct.pack(">I", size))


def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=PATIENCE)


def encrypted(connection, protocol):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    # An end without TLS's own word for it is a fault.
    return context.wrap_socket(connection, suppress_ragged_eofs=False)


class Http2:
    """A connection that goes on behind GOAWAY, as RFC 9113 has it in section 6.8; Python's h2 does not."""

    def __init__(self, acknowledges=True):
        self.socket = encrypted(connect(), "h2")
        self.encoder, self.decoder, self.received = hpack.Encoder(), hpack.Decoder(), b""
        self.acknowledges, self.makes_room = acknowledges, True
        self.next, self.answers, self.farewells, self.farewell = 1, {}, [], lambda: None
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))

    def ask(self, path, method="GET", complete=True):
        number, self.next = self.next, self.next + 2
        fields = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        self.answers[number] = {"status": None, "content": b"", "whole": False}
        self.socket.sendall(frame(HEADERS, END_HEADERS | (END if complete else 0), number, self.encoder.encode(fields)))
        return self.answers[number]

    def turn(self):
        """Handles what has come; false when the server has ended the connection."""
        data = self.socket.recv(65536)
        self.received += data
        while len(self.received) >= 9 and len(self.received) >= 9 + int.from_bytes(self.received[:3], "big"):
            length = int.from_bytes(self.received[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
            payload, self.received = self.received[9 : 9 + length], self.received[9 + length :]
            self.take(kind, flags, stream, payload)
        return bool(data)

    def take(self, kind, flags, stream, payload):
        answer = self.answers.get(stream)
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK and self.acknowledges:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.farewells.append(struct.unpack(">II", payload[:8]))
            if len(self.farewells) == 1:
                self.farewell()
        elif kind == HEADERS:
            answer["status"] = dict(self.decoder.decode(payload)).get(":status")
        elif kind == DATA:
            answer["content"] += payload
            if payload and self.makes_room:
                self.socket.sendall(room(0, len(payload)) + room(stream, len(payload)))
        elif kind == RESET:
            answer["status"] = "reset"
        if kind in (HEADERS, DATA) and flags & END:
            answer["whole"] = True

    def whole(self, answer):
        while not answer["whole"]:
            assert answer["status"] != "reset" and self.turn(), "the answer has not come whole"
        return answer["status"]

    def ends(self):
        while self.turn():
            pass
        assert self.farewells[0] == (2**31 - 1, 0) and len(self.farewells) == 2, self.farewells
        return "GOAWAY, end"


def idle(ready):
    client = Http2()
    client.whole(client.ask("/"))
    client.farewell = leaving.set
    ready()
    return client.ends()


def deaf(ready):
    """Does not say that it has read the first GOAWAY."""
    client = Http2(acknowledges=False)
    client.whole(client.ask("/"))
    ready()
    return client.ends()


def late(ready):
    """Asks for more when the first GOAWAY comes."""
    client, answers = Http2(), []
    client.whole(client.ask("/"))
    client.farewell = lambda: answers.append(client.ask("/late"))
    ready()
    while not answers:
        assert client.turn(), "no GOAWAY"
    return f"{client.whole(answers[0])} {client.ends()}"


def slow(ready):
    """Has asked an app that takes long."""
    client = Http2()
    answers = [client.ask("/nap?1"), client.ask("/nap?1")]
    ready()
    return f"{' '.join(client.whole(answer) for answer in answers)} {client.ends()}"


def upload(ready):
    """Has sent half of its content."""
    client = Http2()
    client.whole(client.ask("/"))
    answer = client.ask("/sum", "POST", complete=False)
    client.socket.sendall(frame(DATA, 0, 3, bytes(10_000)))
    ready()
    leaving.wait(PATIENCE)
    client.socket.sendall(frame(DATA, END, 3, bytes(10_000)))
    return f"{client.whole(answer)} {answer['content'].split()[1].decode()} {client.ends()}"


def download(ready):
    """Has made room for the first 64 KiB alone, and goes on making room up to the end."""
    client = Http2()
    client.makes_room = False
    answer = client.ask("/numbered?2")
    while len(answer["content"]) < 65_535:
        assert client.turn(), "the answer has not begun"
    ready()
    leaving.wait(PATIENCE)
    client.makes_room = True
    client.socket.sendall(room(0, 4 << 20) + room(1, 4 << 20))
    return f"{client.whole(answer)} {len(answer['content'])} {client.ends()}"


def rest(connection):
    """What comes up to the end, in words."""
    received = b""
    while data := connection.recv(65536):
        received += data
    head = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return f"{head[0]}{' close' if 'Connection: close' in head else ''}, end"


def http1_idle(ready):
    client = encrypted(connect(), "http/1.1")
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    received = b""
    while not received.endswith(b"\n"):
        received += client.recv(65536)
    ready()
    return rest(client)


def http1_half(ready):
    """Has sent half of its head."""
    client = encrypted(connect(), "http/1.1")
    client.sendall(b"GET / HTTP/1.1\r\nHo")
    ready()
    leaving.wait(PATIENCE)
    client.sendall(b"st: localhost\r\n\r\n")
    return rest(client)


def handshake(ready):
    """Has connected and says nothing until the server leaves."""
    client = connect()
    ready()
    leaving.wait(PATIENCE)
    client = encrypted(client, "http/1.1")
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return rest(client)


CLIENTS = [idle, deaf, late, slow, upload, download, http1_idle, http1_half, handshake]
outcomes, prepared = {}, threading.Semaphore(0)


def live(client):
    def ready():
        prepared.release()
        told.wait(PATIENCE)

    try:
        outcomes[client] = client(ready)
    except Exception as error:
        outcomes[client] = repr(error)
        prepared.release()


threads = [threading.Thread(target=live, args=[client]) for client in CLIENTS]
for thread in threads:
    thread.start()
for _ in CLIENTS:
    prepared.acquire()
print("ready", flush=True)
sys.stdin.readline()
told.set()
for client, thread in zip(CLIENTS, threads):
    thread.join()
    print(f"{client.__name__}: {outcomes[client]}")
