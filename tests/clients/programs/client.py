# client.py URL CERTIFICATE ACT [ARGUMENT...]: one connection of HTTP/2 by Python's h2, over TLS that trusts this certificate
# or, for http://, in clear text. It does one act and reports the result.
import hashlib
import os
import socket
import ssl
import sys
import time
import urllib.parse

import h2.config
import h2.connection
import h2.errors
import h2.events

MEBIBYTE = 1 << 20


class Client:
    def __init__(self, url, certificate):
        place = urllib.parse.urlsplit(url)
        self.scheme, self.authority = place.scheme, place.netloc
        self.socket = socket.create_connection((place.hostname, place.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.scheme == "https":
            context = ssl.create_default_context(cafile=certificate)
            context.set_alpn_protocols(["h2", "http/1.1"])
            self.socket = context.wrap_socket(self.socket, server_hostname=place.hostname)
            assert self.socket.selected_alpn_protocol() == "h2", self.socket.selected_alpn_protocol()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.answers = {}  # by stream: status, content or its sum, and whether it has ended
        self.seen = []  # names of other events
        while "SettingsAcknowledged" not in self.seen:
            self.receive()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def receive(self):
        """Handles what has come; false if the server has ended the connection."""
        data = self.socket.recv(65536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            answer = self.answers.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                answer["status"] = dict(event.headers)[":status"]
            elif isinstance(event, h2.events.DataReceived):
                answer["sum"].update(event.data)
                answer["size"] += len(event.data)
                if answer["size"] < 1000:
                    answer["content"] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                answer["ended"] = True
            elif isinstance(event, h2.events.StreamReset):
                answer["ended"], answer["reset"] = True, event.error_code
            else:
                self.seen.append(type(event).__name__)
                if isinstance(event, h2.events.ConnectionTerminated):
                    self.farewell = event
        self.flush()
        return True

    def begin(self, path, method="GET", fields=(), complete=True):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", self.scheme), (":authority", self.authority), (":path", path)]
        self.h2.send_headers(number, head + list(fields), end_stream=complete)
        self.answers[number] = {"sum": hashlib.sha256(), "size": 0, "content": b"", "ended": False, "reset": None}
        return number

    def send(self, number, content):
        """Sends content as the server makes room for it."""
        content = memoryview(content)
        while content:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(content))
            if room:
                self.h2.send_data(number, content[:room].tobytes())
                content = content[room:]
                self.flush()
            else:
                assert self.receive(), "the connection has ended"

    def answer(self, number):
        self.flush()
        while not self.answers[number]["ended"]:
            assert self.receive(), "the connection has ended"
        answer = self.answers[number]
        assert answer["reset"] is None, f"stream {number} was reset: {answer['reset']}"
        return answer

    def text(self, path):
        return self.answer(self.begin(path))["content"].decode()


def upload(client, mebibytes):
    """Uploads content of which nothing repeats, and compares what the app has computed."""
    number = client.begin("/sum", "POST", complete=False)
    own = hashlib.sha256()
    for _ in range(int(mebibytes)):
        block = os.urandom(MEBIBYTE)
        own.update(block)
        client.send(number, block)
    client.h2.end_stream(number)
    told = client.answer(number)["content"].decode()
    same = told == f"{own.hexdigest()} {int(mebibytes) * MEBIBYTE}\n"
    print("same" if same else f"sent {own.hexdigest()}, told {told}")


def download(client, mebibytes):
    answer = client.answer(client.begin(f"/numbered?{mebibytes}"))
    print(answer["sum"].hexdigest(), answer["size"])


def streams(client, count):
    """Keeps as many streams open as the server allows, until all of them are answered."""
    count, begun, ended, most = int(count), [], 0, 0
    allowed = client.h2.remote_settings.max_concurrent_streams
    while ended < count:
        while len(begun) < count and client.h2.open_outbound_streams < allowed:
            begun.append(client.begin(f"/{len(begun)}"))
            most = max(most, client.h2.open_outbound_streams)
        client.flush()
        assert client.receive(), "the connection has ended"
        ended = sum(answer["ended"] for answer in client.answers.values())
    right = sum(f"PATH_INFO=/{index}\n" in client.answers[number]["content"].decode() for index, number in enumerate(begun))
    print(f"{right} right, {most} of {allowed} at once")


def beside(client, gate):
    """99 requests beside one whose app waits until there is a file: how many of them are answered before it may go on."""
    slow = client.begin("/held")
    others = [client.begin(f"/{index}") for index in range(99)]
    client.flush()
    while sum(client.answers[number]["ended"] for number in others) < 99:
        assert client.receive(), "the connection has ended"
    assert not client.answers[slow]["ended"], "the app has not waited"
    open(gate, "w").close()
    print(f"99 before it, status {client.answer(slow)['status']}")
    os.unlink(gate)


def trailers(client):
    number = client.begin("/sum", "POST", [("trailer", "x-sum")], complete=False)
    client.send(number, b"content")
    client.h2.send_headers(number, [("x-sum", "abc"), ("x-more", "d")], end_stream=True)
    print(client.answer(number)["content"].decode(), end="")
    print(client.text("/behind").splitlines()[1])


def cancel_downloads(client, times):
    """Resets streams in the middle of downloads, and asks for something else each time."""
    for _ in range(int(times)):
        number = client.begin("/endless")
        client.flush()
        while client.answers[number]["size"] < 300_000:
            assert client.receive(), "the connection has ended"
        client.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        client.text("/behind")
    print("cancelled")


def cancel_uploads(client, times):
    for _ in range(int(times)):
        number = client.begin("/sum", "POST", complete=False)
        client.send(number, bytes(300_000))
        client.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        client.text("/behind")
    print("cancelled")


def leave(client):
    """Ends the connection in the middle of a download and of an upload."""
    client.send(client.begin("/sum", "POST", complete=False), bytes(300_000))
    number = client.begin("/endless")
    client.flush()
    while client.answers[number]["size"] < 300_000:
        client.receive()
    client.socket.close()
    print("left")


def ping(client):
    client.h2.ping(b"12345678")
    client.flush()
    while "PingAckReceived" not in client.seen:
        assert client.receive(), "the connection has ended"
    print("answered", client.text("/behind").splitlines()[1])


def goaway(client):
    """Says GOAWAY with a request open: it is answered, and when the client has nothing more to send, the server ends as well."""
    number = client.begin("/nap?0.2")
    client.flush()
    # Python's h2 takes nothing more from the server when it has sent this itself.
    client.socket.sendall(bytes([0, 0, 8, 7, 0, 0, 0, 0, 0]) + bytes(8))
    print(client.answer(number)["status"], end=" ")
    if client.scheme == "https":
        client.socket = client.socket.unwrap()
    client.socket.shutdown(socket.SHUT_WR)
    while client.socket.recv(65536):
        pass
    print("ended")


ACTS = [upload, download, streams, beside, trailers, cancel_downloads, cancel_uploads, leave, ping, goaway]
name = sys.argv[3].replace("-", "_")
next(act for act in ACTS if act.__name__ == name)(Client(sys.argv[1], sys.argv[2]), *sys.argv[4:])
