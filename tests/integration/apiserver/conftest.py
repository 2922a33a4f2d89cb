"""Fixtures: server processes and clients that connect over TLS."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nodeagent.testing.apiserver import usual_options

START_SECONDS = 20.0


class Api:
    """Minimal client: one connection, JSON by default."""

    def __init__(self, url: str, ca_file: str, token: str | None) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._token = parts.hostname or "", parts.port or 0, token
        self._context = ssl.create_default_context(cafile=ca_file)
        self._connection: http.client.HTTPSConnection | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status code and the decoded body."""
        code, _, data = self.raw(method, path, body, content_type=content_type, headers=headers)
        return code, json.loads(data) if data[:1] in (b"{", b"[") else data

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status code, headers and body."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if self._connection is None:
            self._connection = self._connect(30)
        given = self._headers() | ({"Content-Type": content_type} if data is not None else {}) | (headers or {})
        self._connection.request(method, path, data, given)
        response = self._connection.getresponse()
        found: dict[str, str] = {}
        for key, value in response.getheaders():
            found[key.lower()] = f"{found[key.lower()]}, {value}" if key.lower() in found else value
        return response.status, found, response.read()

    def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the decoded body of a successful request."""
        code, response = self.call(method, path, body, **options)
        assert code < 300, response
        return response

    @contextmanager
    def watch(self, path: str, *, seconds: float = 10) -> Iterator[Iterator[Any]]:
        """Yield the events of a watch; the test fails if an event takes longer than *seconds*."""
        connection = self._connect(seconds)
        try:
            connection.request("GET", path, headers=self._headers())
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in iter(response.readline, b""))
        finally:
            connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, seconds: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


class Server:
    """Server process and the files for its clients."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        self.data_dir = data_dir
        self._arguments = arguments
        self._apis: list[Api] = []
        self.start()

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        ready = self.data_dir / "ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "apiserver_stub", *usual_options(self.data_dir, *self._arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.02)
        self.ready = json.loads(ready.read_text())

    def api(self, token: str | None = "", *, close: bool = True) -> Api:
        """Return a client of the administrator, with another *token*, or with ``None`` without credentials.

        With *close* it is closed when the server stops.
        """
        api = Api(self.ready["url"], self.ready["caFile"], self.ready["token"] if token == "" else token)
        if close:
            self._apis.append(api)
        return api

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send signal *number* and return the exit code."""
        for api in self._apis:
            api.close()
        self._apis.clear()
        self.process.send_signal(number)
        code = self.process.wait(START_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def environment(self, kubeconfig: str = "kubeconfig") -> dict[str, str]:
        """Return the environment of a process that uses *kubeconfig*."""
        return {**os.environ, "KUBECONFIG": self.ready[kubeconfig], "HOME": str(self.data_dir)}

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        kubeconfig: str = "kubeconfig",
        code: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run kubectl as the administrator, check its exit code and return its output."""
        result = subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**self.environment(kubeconfig), **(env or {})},
        )
        assert result.returncode == code, f"{arguments}: {result.stdout}{result.stderr}"
        return result.stdout + result.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Server shared by the tests of a module."""
    # Without controllers of volumes, tests set the states of claims and volumes themselves.
    found = Server(tmp_path_factory.mktemp("apiserver"), "--manage-volumes=false")
    yield found
    assert found.stop() == 0


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    """Client of the administrator."""
    client = server.api()
    yield client
    client.close()


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """Namespace of the test."""
    created = api.ok("POST", "/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    name = created["metadata"]["name"]
    yield name
    api.ok("DELETE", f"/api/v1/namespaces/{name}")
