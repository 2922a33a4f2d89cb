"""API client with low overhead: one connection, and a watch that records when pods start and are deleted."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any

from tests.integration.programs import ApiServer

PODS_PATH = "/api/v1/namespaces/default/pods"


class Client:
    """API client with one persistent connection."""

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
        """Return the decoded response.

        :raises RuntimeError: the server returned an error.
        """
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        response = self.connection.getresponse()
        data = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {data[:300].decode(errors='replace')}")
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
    """Records all changes of pods with their times (monotonic), and when each was first Running and was deleted."""

    def __init__(self, api: ApiServer) -> None:
        self.running_at: dict[str, float] = {}
        self.deleted_at: dict[str, float] = {}
        self.changes: list[tuple[float, dict[str, Any]]] = []
        self._change = threading.Condition()
        self._client = Client(api)
        version = self._client.request("GET", PODS_PATH)["metadata"]["resourceVersion"]
        connection = self._client.connection
        connection.request("GET", f"{PODS_PATH}?watch=1&resourceVersion={version}", headers=self._client.headers)
        self._socket: socket.socket = connection.sock
        self._socket.settimeout(None)
        self._response = connection.getresponse()
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

    def wait_deleted(self, pods: Collection[str], seconds: float) -> None:
        self._wait(self.deleted_at, pods, seconds, "deleted")

    def wait_for(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> float:
        """Return the time of the first change, from the start of the watch, to a pod that meets *condition*."""
        until, checked = time.monotonic() + seconds, 0
        with self._change:
            while True:
                for at, pod in self.changes[checked:]:
                    if condition(pod):
                        return at
                checked = len(self.changes)
                if not self._change.wait(until - time.monotonic()):
                    raise RuntimeError(f"no pod meets the condition within {seconds:g} s")

    def _wait(self, times: Mapping[str, float], pods: Collection[str], seconds: float, state: str) -> None:
        with self._change:
            if not self._change.wait_for(lambda: all(pod in times for pod in pods), seconds):
                missing = [pod for pod in pods if pod not in times]
                raise RuntimeError(f"not {state} within {seconds:g} s: {', '.join(missing)}")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while line := self._response.readline():
                now = time.monotonic()
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                with self._change:
                    self.changes.append((now, event["object"]))
                    if event["type"] == "DELETED":
                        self.deleted_at.setdefault(name, now)
                    elif event["object"].get("status", {}).get("phase") == "Running":
                        self.running_at.setdefault(name, now)
                    self._change.notify_all()
