"""Creates and deletes pods, kills processes, and verifies the devices of all running containers."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.device_kills.sources import DEVICES, DevicePlugin, Source
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, wait_until

_NAME = b"KILLS_POD="


@dataclass
class Report:
    """Result of a run."""

    allocations: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def text(self) -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return "\n".join([f"{self.allocations} allocations; kills: {kills}", *self.violations])


class Runner:
    """A node with one source of devices.

    :param directory: has all files; a short path, because of the sockets in it.
    """

    def __init__(
        self, directory: Path, runtime: Containerd, seed: int, source: Callable[..., Source] = DevicePlugin
    ) -> None:
        self._random, self._runtime = random.Random(seed), runtime
        self.api = ApiServer(directory)
        self.agent = NodeAgent(directory, runtime.endpoint, self.api)
        self.source = source(directory, self.agent, runtime)
        self.report = Report()
        self._pods: dict[str, int] = {}
        """Number of devices of each desired pod."""
        self._ending: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._created = 0
        self._prefix = f"pod-{os.getpid()}-"
        """Start of the names of pods; other runs on the host have others."""

    @contextlib.contextmanager
    def running(self) -> Iterator[Runner]:
        try:
            self.api.start(*self.source.api_options)
            self.agent.start(syncFrequency="2s", nodeStatusUpdateFrequency="1s")
            self.source.start()
            self.source.publish(self.api)
            wait_until(self._is_ready, "the devices are registered")
            yield self
        finally:
            for process in (self.agent, self.source, self.api):
                process.kill()
            self._runtime.remove_pods()
            subprocess.run(["umount", str(self.agent.root)], stderr=subprocess.DEVNULL, check=False)

    def run(self, allocations: int, *, kill_every: float = 2.0) -> Report:
        """Allocate devices the given number of times; kill a process at the start and every *kill_every* seconds."""
        due = time.monotonic()
        limit = time.monotonic() + 60 + 10 * allocations
        while self.report.allocations < allocations and time.monotonic() < limit:
            self._step()
            if time.monotonic() >= due:
                self._kill()
                due = time.monotonic() + self._random.uniform(0.2, 2 * kill_every)
            self._verify()
            time.sleep(0.05)
        self._finish()
        return self.report

    def _step(self) -> None:
        """Create pods while devices are free, and delete a pod at random."""
        self._ending = {name: count for name, count in self._ending.items() if self._get(name) is not None}
        used = sum(self._pods.values()) + sum(self._ending.values())
        count = self._random.randint(1, 3)
        if used + count <= DEVICES and self._random.random() < 0.7:
            name = f"{self._prefix}{self._created}"
            self._created += 1
            self._request("POST", "/api/v1/namespaces/default/pods", self.source.pod(name, count))
            self._pods[name] = count
        elif self._processes and self._random.random() < 0.5:
            name = self._random.choice([name for name in self._processes if name in self._pods] or [""])
            if name:
                self._ending[name] = self._pods.pop(name)
                self._processes.pop(name)
                self._request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=1")

    def _kill(self) -> None:
        source = self.source.name
        victims: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "agent": (self.agent.kill, self.agent.begin),
            source: (self.source.kill, self.source.start),
            "runtime": (lambda: self._runtime.stop(signal.SIGKILL), self._runtime.start),
        }
        names = self._random.choice([["agent"], [source], ["runtime"], ["agent", source]])
        for name in names:
            victims[name][0]()
            self.report.kills[name] = self.report.kills.get(name, 0) + 1
        time.sleep(self._random.uniform(0, 0.5))
        for name in names:
            victims[name][1]()

    def _verify(self) -> None:
        in_use, found = self.source.in_use(), self._running()
        holders: dict[str, str] = {}
        for name, (_, ids) in found.items():
            for id in ids:
                other = holders.setdefault(id, name)
                if other != name:
                    self._violate(f"{id} is in {other} and {name}")
                if in_use is not None and name in self._processes and id not in in_use:
                    self._violate(f"{id} of {name} is not prepared")
        for name, (pid, ids) in found.items():
            if name in self._pods and name not in self._processes:
                self._processes[name] = pid
                self.report.allocations += 1
                if len(ids) != self._pods[name]:
                    self._violate(f"{name} has {len(ids)} of {self._pods[name]} devices")
        for name, pid in list(self._processes.items()):
            if name in self._pods and (name not in found or found[name][0] != pid):
                self._violate(f"the container of {name} was stopped")
                del self._processes[name]
        for name in self._pods:
            pod = self._get(name)
            if pod is not None and pod["status"].get("phase") == "Failed":
                self._violate(f"{name} failed: {pod['status'].get('message')}")

    def _finish(self) -> None:
        """Delete all pods, then allocate all devices to one pod."""
        for name in [*self._pods, *self._ending]:
            self._request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=1")
        names = [*self._pods, *self._ending]
        self._pods, self._ending, self._processes = {}, {}, {}
        wait_until(lambda: all(self._get(name) is None for name in names), "the pods are deleted", 120)
        last = f"{self._prefix}last"
        if self.source.in_use():
            self._violate(f"still prepared: {self.source.in_use()}")
        self._request("POST", "/api/v1/namespaces/default/pods", self.source.pod(last, DEVICES))
        try:
            wait_until(lambda: len(self._running().get(last, (0, ()))[1]) == DEVICES, "all devices are free", 90)
        except AssertionError as error:
            self._violate(f"{error}: {(self._get(last) or {}).get('status')}")

    def _violate(self, text: str) -> None:
        if text not in self.report.violations:
            self.report.violations.append(text)

    def _is_ready(self) -> bool:
        node = self._get("", "/api/v1/nodes/node-1")
        return node is not None and self.source.is_ready(node)

    def _running(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        return {name: (pid, self.source.devices(env)) for name, (pid, env) in running_containers(self._prefix).items()}

    def _get(self, name: str, path: str = "/api/v1/namespaces/default/pods/") -> Any:
        found = self._request("GET", f"{path}{name}")
        return None if found["kind"] == "Status" else found

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        for _ in range(50):
            try:
                return self.api.request(method, path, body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
        raise AssertionError(f"the API server does not respond to {method} {path}")


def running_containers(prefix: str) -> dict[str, tuple[int, list[bytes]]]:
    """Return process ID and environment variables of each container of pods whose names start with *prefix*."""
    found: dict[str, tuple[int, list[bytes]]] = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            variables = (directory / "environ").read_bytes().split(b"\0")
            status = (directory / "status").read_text()
        except OSError:
            continue
        names = [each.removeprefix(_NAME).decode() for each in variables if each.startswith(_NAME)]
        if names and names[0].startswith(prefix) and "Name:\trunc" not in status and "State:\tZ" not in status:
            pid = int(directory.name)
            if names[0] not in found or pid < found[names[0]][0]:
                found[names[0]] = pid, variables
    return found
