"""Echo server in place of a node agent, and a proxy to it, both on loopback."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeagent.base.tls import KeyPair, generate_ca, issue

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


class Pki:
    """CA with a serving certificate of an agent and a client certificate of the API server."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.ca = directory, generate_ca(name)
        self.ca_file = self._put(f"{name}.crt", self.ca.certificate)

    def pair(self, name: str, *, server: bool = False) -> tuple[Path, Path]:
        made: KeyPair = issue(self.ca, name, names=["127.0.0.1"] if server else (), server=server, client=not server)
        return self._put(f"{name}-pair.crt", made.certificate), self._put(f"{name}-pair.key", made.key)

    def _put(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(data)
        return path


class _Agent(http.server.BaseHTTPRequestHandler):
    """Handler that returns the request and the identity of the client."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade"):
            self._upgrade()
            return
        if "/redirect" in self.path:
            self._respond(302, b"", {"Location": "/elsewhere?a=b"})
            return
        if "/broken" in self.path:
            self._respond(400, b"no such thing here")
            return
        length = int(self.headers.get("Content-Length") or 0)
        self._respond(200, self._seen(self.rfile.read(length).decode()))

    do_POST = do_PUT = do_DELETE = do_GET

    def _seen(self, body: str) -> bytes:
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        subject = dict(pair for part in (certificate or {}).get("subject", ()) for pair in part)
        seen = {"method": self.command, "path": self.path, "body": body, "who": subject.get("commonName", "")}
        return json.dumps({**seen, "headers": dict(self.headers)}).encode()

    def _respond(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": "text/plain", "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _upgrade(self) -> None:
        if "/attach/" in self.path:
            self._respond(302, b"go there", {"Location": "https://192.0.2.1/"})
            return
        self.close_connection = True
        self.wfile.write(ACCEPTED + self._seen("") + b"\n")
        with contextlib.suppress(OSError):
            while data := self.connection.recv(65536):
                self.connection.sendall(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def agent(pki: Pki) -> Iterator[int]:
    """Serve as an agent that requires a client certificate of *pki*; yields the port."""
    certificate, key = pki.pair("agent", server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(pki.ca_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Agent)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server) as port:
        yield port


@contextmanager
def backend() -> Iterator[int]:
    """Serve like a pod, without TLS; yields the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Agent)
    server.daemon_threads = True
    with running(server) as port:
        yield port


class _Proxy(http.server.BaseHTTPRequestHandler):
    """Proxy handler that always connects to the same port."""

    def do_CONNECT(self) -> None:
        server = self.server
        assert isinstance(server, ProxyServer)
        server.requests.append(self.path)
        if server.rejects:
            self.send_error(403)
            return
        with socket.create_connection(("127.0.0.1", server.leads_to)) as other:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(
                target=_pump,
                args=(other, self.connection),
                daemon=True,
                name=f"back of {threading.current_thread().name}",
            )
            back.start()
            _pump(self.connection, other)
            back.join(5)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class ProxyServer(http.server.ThreadingHTTPServer):
    """Proxy and the requests that it received."""

    daemon_threads = True

    def __init__(self, leads_to: int) -> None:
        super().__init__(("127.0.0.1", 0), _Proxy)
        self.leads_to, self.rejects = leads_to, False
        self.requests: list[str] = []


@contextmanager
def proxy(leads_to: int) -> Iterator[ProxyServer]:
    """Serve as a proxy to the port *leads_to*."""
    server = ProxyServer(leads_to)
    with running(server):
        yield server


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def running(server: http.server.ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
