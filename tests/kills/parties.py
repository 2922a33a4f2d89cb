"""Processes that are killed: the agent, the CSI driver, the runtime and the API server."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nodeagent.base.mounts.table import read_mounts
from tests.csi_driver import BindMounts, Faults, Storage
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, Program, wait_until

DRIVER = "csi.kills"
STORAGE_API = "/apis/storage.k8s.io/v1"
CALL_SECONDS = 120.0
START_ATTEMPTS = 5
MERGE = "application/merge-patch+json"
AGENT, CSI, RUNTIME, API = "agent", "driver", "runtime", "API server"
NAMES = (AGENT, CSI, RUNTIME, API)


class Driver(Program):
    """Process of the CSI driver, with its state on disk."""

    def __init__(self, directory: Path, registry: Path) -> None:
        super().__init__("csi", directory)
        self.state, self._registry = directory / "csi", registry
        self.storage = Storage(self.state, BindMounts())
        self.faults = Faults(self.state / "faults.json")

    def start(self) -> None:
        """Start without waiting until the driver serves."""
        self.launch(
            "tests.csi_driver", "--name", DRIVER, "--directory", str(self.state), "--registry", str(self._registry)
        )


class Parties:
    """A node whose processes are killed and started again independently.

    :param directory: has all files; a short path, because of the sockets in it.
    """

    def __init__(self, directory: Path, runtime: Containerd) -> None:
        self.directory, self.runtime = directory, runtime
        self.api = ApiServer(directory)
        self.agent = NodeAgent(directory, runtime.endpoint, self.api)
        self.agent.arguments = ["--node-ip", "127.0.0.1"]
        registry = self.agent.root / "plugins_registry"
        registry.mkdir(parents=True)
        self.driver = Driver(directory, registry)
        self._stopped: set[str] = set()

    @contextlib.contextmanager
    def running(self) -> Iterator[Parties]:
        """Start all processes, and remove everything that they leave on the host at the end of the block."""
        try:
            self.api.start()
            authentication = {"x509": {"clientCAFile": self.api.facts["clientCaFile"]}}
            self.agent.start(syncFrequency="2s", authentication=authentication)
            self.driver.start()
            spec = {"attachRequired": True, "podInfoOnMount": True, "fsGroupPolicy": "File"}
            spec["volumeLifecycleModes"] = ["Persistent", "Ephemeral"]
            self.call("POST", f"{STORAGE_API}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})
            yield self
        finally:
            self._close()

    def kill(self, name: str) -> None:
        """Kill a process; one that is dead already is ignored."""
        self._stopped.add(name)
        if name == RUNTIME:
            self.runtime.stop(signal.SIGKILL)
        else:
            self._program(name).kill()

    def start(self, name: str) -> None:
        """Start a killed process again."""
        if name not in self._stopped:
            return
        self._stopped.discard(name)
        starts = {RUNTIME: self.runtime.start, API: self.api.start, AGENT: self.agent.begin, CSI: self.driver.start}
        for attempt in range(START_ATTEMPTS):
            try:
                starts[name]()
                return
            except (AssertionError, RuntimeError):  # The host is busy.
                if attempt == START_ATTEMPTS - 1:
                    raise
                if name == API:
                    self.api.kill()

    def revive(self) -> list[str]:
        """Start the processes that have terminated on their own; return their names."""
        dead = [name for name in (AGENT, CSI, API) if name not in self._stopped and not self._program(name).alive()]
        self._stopped.update(dead)
        for name in dead:
            self.start(name)
        return dead

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", *, accept: Any = ()
    ) -> Any:
        """Send a request until the API server responds without a server error.

        :param accept: codes of errors to return; a conflict of a creation and a missing object are always returned.
        """
        limit = time.monotonic() + CALL_SECONDS
        while True:
            try:
                response = self.api.request(method, path, body, content_type)
            except (OSError, http.client.HTTPException, ValueError) as error:
                response = {"code": 503, "message": repr(error)}
            code = response.get("code", 200) if response.get("kind", "Status") == "Status" else 200
            if code in (200, 404, *accept) or (code == 409 and method == "POST"):
                return response
            if time.monotonic() > limit:
                raise AssertionError(f"{method} {path}: {response}")
            time.sleep(0.2)

    def _program(self, name: str) -> Program:
        return {AGENT: self.agent, CSI: self.driver, API: self.api}[name]

    def _close(self) -> None:
        steps: list[Callable[[], Any]] = [self.agent.kill, self.driver.kill, self.api.kill]
        if RUNTIME in self._stopped:
            steps.append(self.runtime.start)
        steps += [self.runtime.remove_pods, self._unmount]
        for step in steps:
            try:
                step()
            except Exception as error:  # The remaining steps must clean up nevertheless.
                print(f"clean-up failed: {error!r}")

    def _unmount(self) -> None:
        root = self.agent.root
        mounts = [*self.mounts(), *(each.path for each in read_mounts() if each.path == str(root))]
        for path in mounts:
            subprocess.run(["umount", path], check=False)
        for image in self.driver.state.glob("volumes/*.img"):
            BindMounts().detach(image)

    def mounts(self) -> list[str]:
        """Return the mounts of volumes, deepest first."""
        prefixes = tuple(f"{self.agent.root}/{name}/" for name in ("pods", "plugins"))
        return sorted((each.path for each in read_mounts() if each.path.startswith(prefixes)), reverse=True)


def wait_for(condition: Callable[[], Any], what: str, seconds: float) -> Any:
    """Wait until *condition* returns a true value; polls slowly, because many workers share the host."""
    return wait_until(condition, what, seconds, 0.2)
