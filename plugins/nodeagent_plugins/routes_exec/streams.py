"""Query parameters of streaming requests. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from multidict import MultiMapping

from nodeagent.base.stream_translation import Streams

MAX_PORTS = 100


def read_streams(query: MultiMapping[str]) -> Streams:
    """Return the requested streams; a terminal has no separate stderr.

    :raises ValueError: no stream is requested.
    """
    stdin, stdout, stderr, tty = (query.get(name) in ("1", "true") for name in ("input", "output", "error", "tty"))
    if not (stdin or stdout or stderr):
        raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
    return Streams(stdin, stdout, stderr and not tty, tty)


def read_ports(query: MultiMapping[str], *, websocket: bool) -> Sequence[int]:
    """Return the ports to forward: in the query of a WebSocket; SPDY names them in its streams.

    :raises ValueError: a port is invalid, or a WebSocket request has no port.
    """
    texts = [text.strip() for value in query.getall("port", ()) for text in value.split(",")]
    if not websocket:
        return ()
    if not texts or len(texts) > MAX_PORTS:
        raise ValueError('query parameter "port" is required' if not texts else f"more than {MAX_PORTS} ports")
    ports = []
    for text in texts:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
            raise ValueError(f"port {text!r} must be between 1 and 65535")
        ports.append(int(text))
    return ports
