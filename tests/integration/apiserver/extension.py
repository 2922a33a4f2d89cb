"""Extension API server on loopback: it requires a client certificate and records its requests."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nodeagent.base.tls import issue

from .agents import ACCEPTED, Pki, running

GROUP = "demo.example.com"
ROOT = f"/apis/{GROUP}/v1"
METRICS = "/apis/metrics.k8s.io/v1beta1"
SERVER_NAME = "extension.default.svc"
_READ = ["get", "list"]
_METRIC = {"namespaced": False, "verbs": _READ, "kind": "NodeMetrics", "name": "nodes", "singularName": ""}
_THINGS = {
    "name": "things",
    "singularName": "thing",
    "namespaced": True,
    "kind": "Thing",
    "verbs": [*_READ, "watch"],
    "shortNames": ["tg"],
}
_SCALE = {"name": "things/scale", "singularName": "", "namespaced": True, "kind": "Scale", "verbs": ["get"]}


def thing(name: str) -> dict[str, Any]:
    """Return one object of the extension."""
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2024-01-02T15:04:05Z"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": metadata}


class Extension(http.server.ThreadingHTTPServer):
    """Extension API server with its settings and received requests."""

    daemon_threads = True

    def __init__(self, pki: Pki) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        pair = issue(pki.ca, "extension", names=[SERVER_NAME, "127.0.0.1"], server=True)
        certificate = pki.directory / "extension.pem"
        certificate.write_bytes(pair.key + pair.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.load_verify_locations(pki.ca_file)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.healthy = True
        self.go_on = threading.Event()
        """Releases the second event of a watch."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Extension

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._who():
            self._respond(401, {"message": "no certificate"})
        elif path == ROOT and not self.server.healthy:
            self._respond(500, {})
        elif path == "/judge":
            self._judge()
        elif path in (ROOT, METRICS):
            self._respond(200, self._discovery(path))
        elif path == "/openapi/v3":
            self._respond(200, {"paths": {ROOT[1:]: {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=H"}}})
        elif self.headers.get("Upgrade"):
            self._upgrade()
        elif path.endswith("/moved"):
            self._respond(302, {}, {"Location": f"{ROOT}/elsewhere"})
        elif "watch=true" in self.path:
            self._watch()
        elif path.endswith("/things"):
            items = [thing("one"), thing("two")]
            self._respond(200, {"kind": "ThingList", "apiVersion": f"{GROUP}/v1", "metadata": {}, "items": items})
        elif path == f"{METRICS}/nodes":
            usage = {"cpu": "250m", "memory": "512Mi"}
            item = {"metadata": {"name": "n1"}, "timestamp": "2024-01-02T15:04:05Z", "window": "30s", "usage": usage}
            kind = {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}}
            self._respond(200, {**kind, "items": [item]})
        else:
            self._respond(200, self._seen())

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def _discovery(self, path: str) -> dict[str, Any]:
        resources = [_THINGS, _SCALE] if path == ROOT else [_METRIC]
        group_version = path.removeprefix("/apis/")
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}

    def _who(self) -> str:
        shown: Any = self.connection
        subject = (shown.getpeercert() or {}).get("subject", ())
        return "".join(value for part in subject for _, value in part)

    def _seen(self) -> dict[str, Any]:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        return {"method": self.command, "path": self.path, "body": body, "who": self._who(), "headers": headers}

    def _judge(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": f"says {self._who()}"}}
        self._respond(200, {**{key: review[key] for key in ("kind", "apiVersion")}, "response": result})

    def _respond(self, code: int, content: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.close_connection = True
        always = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        fields = {**always, **(headers or {})}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        for name in ("first", "second"):
            self.wfile.write(json.dumps({"type": "ADDED", "object": thing(name)}).encode() + b"\n")
            self.server.go_on.wait(20)

    def _upgrade(self) -> None:
        self.close_connection = True
        if self.path.endswith("/moved"):
            self._respond(302, {}, {"Location": f"{ROOT}/elsewhere"})
            return
        self.wfile.write(ACCEPTED + json.dumps(self._seen()).encode() + b"\n")
        with contextlib.suppress(OSError):
            while data := self.connection.recv(65536):
                self.connection.sendall(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def extension(pki: Pki) -> Iterator[Extension]:
    """Serve as an extension with a serving certificate of *pki*."""
    server = Extension(pki)
    with running(server):
        yield server
