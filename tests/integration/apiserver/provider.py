"""TLS server in place of the external services that an API server calls."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from nodeagent.base.tls import KeyPair, generate_ca, issue

PathHandler = Callable[[Any], tuple[int, Any]]


class Provider:
    """Responds to each path as configured in :attr:`paths`, and records its requests."""

    def __init__(self, directory: Path, *names: str) -> None:
        """Serve with a certificate for 127.0.0.1 and *names*."""
        self.authority: KeyPair = generate_ca("provider-ca")
        pair = issue(self.authority, "provider", names=["127.0.0.1", *names], server=True)
        self.ca_file, both = directory / "provider-ca.crt", directory / "provider.pem"
        self.ca_file.write_bytes(self.authority.certificate)
        both.write_bytes(pair.key + pair.certificate)
        self.paths: dict[str, PathHandler] = {}
        self.requests: list[tuple[str, Any]] = []
        self.callers: list[str] = []
        """Subjects of the client certificates; an empty text without one."""
        self.authorizations: list[str] = []
        """Headers ``Authorization``; an empty text without one."""
        self.trace_parents: list[str] = []
        """Headers ``traceparent``; an empty text without one."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                provider.requests.append((self.path, body))
                provider.authorizations.append(self.headers.get("Authorization") or "")
                provider.trace_parents.append(self.headers.get("traceparent") or "")
                shown: Any = self.connection
                subject = (shown.getpeercert() or {}).get("subject", ())
                provider.callers.append("".join(value for part in subject for _, value in part))
                code, content = provider.paths.get(self.path.partition("?")[0], lambda _: (404, {}))(body)
                data = json.dumps(content).encode()
                self.send_response(code)
                if code // 100 == 3:
                    self.send_header("Location", content)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        context.load_verify_locations(self.ca_file)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
