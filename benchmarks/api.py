"""A client of the API server that costs little: one connection, and a watch that notes when pods run and leave."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

from tests.integration.programs import ApiServer

PODS_PATH = "/api/v1/namespaces/default/pods"


class Client:
    """One kept connection."""

    def __init__(self, api: ApiServer) -> None:
        url = urllib.parse.urlparse(api.facts["url"])
        context = ssl.create_default_context(cafile=api.facts["caFile"])
        self.connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)
        self.headers = {"Authorization": f"Bearer {api.facts['token']}", "Content-Type": "application/json"}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded answer.

        :raises RuntimeError: the server refused.
        """
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300].decode(errors='replace')}")
        return json.loads(data)

    def create_pod(self, pod: Mapping[str, Any]) -> None:
        self.request("POST", PODS_PATH, pod)

    def delete_pod(self, name: str) -> None:
        self.request("DELETE", f"{PODS_PATH}/{name}")

    def node_ready(self, name: str) -> bool:
        with contextlib.suppress(RuntimeError):
            conditions = self.request("GET", f"/api/v1/nodes/{name}").get("status", {}).get("conditions", ())
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return False


class PodWatch:
    """Notes the moment (monotonic) at which each pod was first Running, and at which it was gone."""

    def __init__(self, api: ApiServer) -> None:
        self.running_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}
        self._change = threading.Condition()
        self._client = Client(api)
        version = self._client.request("GET", PODS_PATH)["metadata"]["resourceVersion"]
        connection = self._client.connection
        connection.request("GET", f"{PODS_PATH}?watch=1&resourceVersion={version}", headers=self._client.headers)
        self._socket: socket.socket = connection.sock
        self._socket.settimeout(None)
        self._answer = connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> PodWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._client.connection.close()

    def wait_running(self, pods: Collection[str], seconds: float) -> None:
        self._wait(self.running_at, pods, seconds, "Running")

    def wait_gone(self, pods: Collection[str], seconds: float) -> None:
        self._wait(self.gone_at, pods, seconds, "gone")

    def _wait(self, seen: Mapping[str, float], pods: Collection[str], seconds: float, what: str) -> None:
        with self._change:
            if not self._change.wait_for(lambda: all(pod in seen for pod in pods), seconds):
                missing = [pod for pod in pods if pod not in seen]
                raise RuntimeError(f"not {what} within {seconds:g} s: {', '.join(missing)}")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while line := self._answer.readline():
                now = time.monotonic()
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                with self._change:
                    if event["type"] == "DELETED":
                        self.gone_at.setdefault(name, now)
                    elif event["object"].get("status", {}).get("phase") == "Running":
                        self.running_at.setdefault(name, now)
                    self._change.notify_all()
