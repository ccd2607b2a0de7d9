#!/usr/bin/python3
"""Holds WebSockets, and does as the lines of its standard input say:

    open NAME URL [SUBPROTOCOL]     opens one; writes `NAME open SUBPROTOCOL` or `NAME refused STATUS`
    foreign NAME URL                the same from a page of another site
    page NAME URL [SUBPROTOCOL]     the same from a page of the site itself
    text NAME MESSAGE               sends a message of text
    bytes NAME HEX                  sends a message of bytes
    close NAME CODE                 closes it

and writes what comes, a line each, in which a message has \\n for a line end: `NAME text MESSAGE`, `NAME bytes HEX`,
`NAME closed CODE REASON`.
"""

import asyncio
import sys

import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatusCode


def say(*words):
    print(*words, flush=True)


async def listen(name, socket):
    try:
        while True:
            message = await socket.recv()
            if isinstance(message, str):
                say(name, "text", message.replace("\n", "\\n"))
            else:
                say(name, "bytes", message.hex())
    except ConnectionClosed:
        say(name, "closed", socket.close_code, socket.close_reason)


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    sockets, listeners = {}, []
    while line := (await reader.readline()).decode().rstrip("\n"):
        order, name, *rest = line.split(" ", 2)
        if order in ("open", "foreign", "page"):
            url, *subprotocols = rest[0].split(" ")
            site = url.replace("ws", "http", 1).split("/")
            origin = {"foreign": "https://evil.example", "page": "/".join(site[:3])}.get(order)
            try:
                # The test is patient, and the machine may be busy.
                socket = await websockets.connect(url, origin=origin, subprotocols=subprotocols or None, open_timeout=None)
            except InvalidStatusCode as error:
                say(name, "refused", error.status_code)
                continue
            sockets[name] = socket
            say(name, "open", socket.subprotocol or "-")
            listeners.append(asyncio.create_task(listen(name, socket)))
        elif order == "text":
            await sockets[name].send(rest[0])
        elif order == "bytes":
            await sockets[name].send(bytes.fromhex(rest[0]))
        elif order == "close":
            await sockets[name].close(int(rest[0]))
    for socket in sockets.values():
        await socket.close()


asyncio.run(main())
