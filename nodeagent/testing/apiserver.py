"""The bundled API server for tests, in a separate process with HTTPS.

The fixture is available in pytest once nodeagent is installed::

    def test_my_controller(nodeagent_apiserver):
        server = nodeagent_apiserver
        namespace = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})

Each test gets a separate server with an empty store. To share a server between tests, write a fixture with another
scope that uses :func:`started_apiserver`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.01
_REQUEST_SECONDS = 30.0


class ApiServerFailed(Exception):
    """The server did not start; the message contains its output."""


@dataclass(frozen=True)
class ApiServerHandle:
    """URL of a running server, with credentials."""

    url: str
    """``https://127.0.0.1:PORT``"""
    ca_file: Path
    """CA certificate that issued the server's certificate."""
    token: str
    """Bearer token of an administrator."""
    kubeconfig: Path
    """Kubeconfig of the administrator, for kubectl and client libraries."""
    node_kubeconfig: Path
    """Kubeconfig of a node agent."""
    data_dir: Path

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """Send a request as administrator and return the decoded response; an error is a ``Status`` object.

        :param body: JSON data; a patch needs its *content_type*.
        :raises OSError: the server is unreachable.
        """
        parts = urlsplit(self.url)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        host, port = parts.hostname or "", parts.port
        connection = http.client.HTTPSConnection(host, port, context=context, timeout=_REQUEST_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def started_apiserver(*options: str, data_dir: Path | None = None) -> Iterator[ApiServerHandle]:
    """Start a server on a free port of the loopback interface, and stop it on exit.

    :param options: command-line options of ``nodeagent-apiserver``, such as ``--event-ttl=5m``.
    :param data_dir: directory for its data; the default is a temporary directory.
    :raises ApiServerFailed: the server did not start.
    """
    with tempfile.TemporaryDirectory(prefix="nodeagent-apiserver-") as temporary:
        data = data_dir or Path(temporary) / "data"
        data.mkdir(parents=True, exist_ok=True)
        ready, log = data / "ready.json", Path(temporary) / "log"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "apiserver_stub", *usual_options(data, *options)]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait_for(ready, process, log)
            yield _handle(ready, data)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def usual_options(data_dir: Path, *options: str) -> list[str]:
    """Return the command-line options of a server for tests, *options* last.

    The server listens on a free port of the loopback interface, with the authorization modes Node and RBAC, unless
    *options* contain others.
    """
    defaults = [f"--data-dir={data_dir}", "--bind-address=127.0.0.1"]
    if not any(option.startswith("--secure-port") for option in options):
        defaults.append("--free-port")
    if not any(option.startswith(("--authorization-mode", "--authorization-config")) for option in options):
        defaults.append("--authorization-mode=Node,RBAC")
    return defaults + list(options)


@pytest.fixture
def nodeagent_apiserver() -> Iterator[ApiServerHandle]:
    """An empty API server for this test; see :class:`nodeagent.testing.apiserver.ApiServerHandle`."""
    with started_apiserver() as server:
        yield server


def _wait_for(ready: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not ready.exists():
        if process.poll() is not None:
            raise ApiServerFailed(f"exit code {process.returncode}: {log.read_text(errors='replace').strip()}")
        if time.monotonic() > end:
            raise ApiServerFailed(f"not ready after {_START_SECONDS:g} s: {log.read_text(errors='replace').strip()}")
        time.sleep(_POLL_SECONDS)


def _handle(ready: Path, data: Path) -> ApiServerHandle:
    server = json.loads(ready.read_text())
    return ApiServerHandle(
        url=server["url"],
        ca_file=Path(server["caFile"]),
        token=server["token"],
        kubeconfig=Path(server["kubeconfig"]),
        node_kubeconfig=Path(server["nodeKubeconfig"]),
        data_dir=data,
    )
