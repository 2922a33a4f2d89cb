"""Tests for the query of the API server's version before the start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from nodeagent.apiclient.server_version import query_server_version
from nodeagent.base.tls import generate_ca, issue
from nodeagent.contracts.certificates import client_store_name, current_pair
from nodeagent.contracts.settings import NodeSettings

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://{address}"}}}}]
users: [{{name: u, user: {{token: secret}}}}]
"""


class Handler(BaseHTTPRequestHandler):
    status = 200
    body = b'{"gitVersion": "v1.34.2"}'
    tokens: ClassVar[list[str]] = []

    def do_GET(self):
        self.tokens.append(self.headers["Authorization"])
        self.send_response(self.status if self.path == "/version" else 404)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def server() -> Iterator[type[Handler]]:
    handler = type("OwnHandler", (Handler,), {"tokens": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        handler.port = http.server_address[1]
        yield handler
        http.shutdown()
        thread.join()


@pytest.fixture
def settings(tmp_path):
    def write(port: int, **fields: str) -> NodeSettings:
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG.format(address=f"127.0.0.1:{port}"))
        return NodeSettings(**{"kubeconfig": str(path), "cert_dir": str(tmp_path), **fields})

    return write


def test_version_is_queried_with_credentials(server, settings):
    assert query_server_version(settings(server.port)) == "v1.34.2"
    assert server.tokens == ["Bearer secret"]


def test_bootstrap_kubeconfig_is_used_without_another(server, settings, tmp_path):
    found = settings(server.port)

    waiting = NodeSettings(kubeconfig=str(tmp_path / "later"), bootstrap_kubeconfig=found.kubeconfig)

    assert query_server_version(waiting) == "v1.34.2"


@pytest.mark.parametrize(
    ("status", "body"), [(401, b"{}"), (200, b"no json"), (200, b"[]"), (200, b'{"gitVersion": 3}'), (503, b"")]
)
def test_unusable_response_is_an_unknown_version(server, settings, status, body):
    server.status, server.body = status, body

    assert query_server_version(settings(server.port)) == ""


def test_server_that_is_down_is_an_unknown_version(settings):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert query_server_version(settings(port)) == ""


def test_silent_server_is_an_unknown_version(settings):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert query_server_version(settings(silent.getsockname()[1])) == ""


def test_missing_kubeconfig_is_an_unknown_version(tmp_path):
    assert query_server_version(NodeSettings(kubeconfig=str(tmp_path / "none"), cert_dir=str(tmp_path))) == ""


def test_rotated_certificate_replaces_the_token_of_the_kubeconfig_only(server, settings, tmp_path):
    authority = generate_ca("ca")
    pair = issue(authority, "system:node:n", client=True)
    current_pair(tmp_path, client_store_name()).write_bytes(pair.certificate + pair.key)
    found = settings(server.port)

    assert query_server_version(found) == "v1.34.2"
    bootstrap = NodeSettings(bootstrap_kubeconfig=found.kubeconfig, cert_dir=found.cert_dir)
    assert query_server_version(bootstrap) == "v1.34.2"

    assert server.tokens == [None, "Bearer secret"]
