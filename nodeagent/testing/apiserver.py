"""The bundled API server for tests: a process of its own, spoken to over TLS like any other.

pytest knows the fixture as soon as nodeagent is installed::

    def test_my_controller(nodeagent_apiserver):
        server = nodeagent_apiserver
        made = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})

Each test gets a server of its own with an empty store; for one that several tests share, write a fixture of another
scope around :func:`started_apiserver`.
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
    """The server did not start; the text is what it said."""


@dataclass(frozen=True)
class ApiServerHandle:
    """Where a server is and how to get in."""

    url: str
    """``https://127.0.0.1:PORT``"""
    ca_file: Path
    """The authority that its certificate is signed by."""
    token: str
    """Bearer token of an administrator."""
    kubeconfig: Path
    """For kubectl and client libraries: the same administrator."""
    node_kubeconfig: Path
    """For a node agent."""
    data_dir: Path

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """Return the decoded answer to one request of the administrator; an error is a ``Status`` object.

        :param body: what JSON can hold; for patches with their *content_type*.
        :raises OSError: the server is gone.
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
    """Yield a server on a free port of the loopback interface, and stop it afterwards.

    :param options: of ``nodeagent-apiserver``, such as ``--event-ttl=5m``.
    :param data_dir: where it keeps its objects; without one, they are gone afterwards.
    :raises ApiServerFailed: it did not start.
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
    """Return the command line of a server for tests, *options* last.

    It listens on a free port of the loopback interface, and nodes and roles decide unless *options* say who does.
    """
    usual = [f"--data-dir={data_dir}", "--bind-address=127.0.0.1", "--secure-port=0"]
    if not any(option.startswith(("--authorization-mode", "--authorization-config")) for option in options):
        usual.append("--authorization-mode=Node,RBAC")
    return usual + list(options)


@pytest.fixture
def nodeagent_apiserver() -> Iterator[ApiServerHandle]:
    """A bundled API server of the test's own, empty; see :class:`nodeagent.testing.apiserver.ApiServerHandle`."""
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
    found = json.loads(ready.read_text())
    return ApiServerHandle(
        url=found["url"],
        ca_file=Path(found["caFile"]),
        token=found["token"],
        kubeconfig=Path(found["kubeconfig"]),
        node_kubeconfig=Path(found["nodeKubeconfig"]),
        data_dir=data,
    )
