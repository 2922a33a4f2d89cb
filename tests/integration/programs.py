"""Processes of the API server and the agent, for tests and benchmarks."""

from __future__ import annotations

import contextlib
import functools
import http.client
import itertools
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from nodeagent.testing.apiserver import usual_options

START_SECONDS = 30.0
NODE = "node-1"
IMAGE = "docker.io/library/busybox:1.36"
# Below the range of the kernel; each process that runs tests has others, in an order of its run.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
_ANY_DISK: dict[str, Any] = {"evictionHard": {"memory.available": "100Mi"}, "imageGCHighThresholdPercent": 100}
"""Neither evict pods nor delete images when the disk of the host is nearly full."""
_PORTS = itertools.cycle(random.sample(range(12_000 + _WORKER, 30_000, 16), 1125))


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 30.0, every: float = 0.05) -> Any:
    """Wait until *condition* returns a true value, and return it; fail with *what* on timeout."""
    limit = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def free_port() -> int:
    """Return a port that no process uses, and that the kernel assigns to none before the caller uses it."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable: the ports are endless")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


@functools.lru_cache(maxsize=4)
def _tls_context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca)


def unmount_below(directory: Path) -> None:
    """Unmount everything at and below *directory*, such as the root directory of an agent, a mount of itself."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in reversed(points):
        if Path(point).is_relative_to(directory.resolve()):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


class Program:
    """Subprocess with its output in a file."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        self.log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.python = sys.executable

    def launch(self, *arguments: str) -> None:
        assert self.process is None or self.process.poll() is not None, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [self.python, "-W", "error::RuntimeWarning", "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, with_signal: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Terminate the process and return its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within {seconds:g} s\n{self.tail()}") from None

    def kill(self) -> None:
        """Kill the process, as a power failure would."""
        self.stop(signal.SIGKILL)

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def rss_mib(self) -> float:
        return rss_mib(self.pid)


class ApiServer(Program):
    """Process of the bundled API server, with a client."""

    def __init__(self, directory: Path) -> None:
        super().__init__("apiserver", directory)
        self.data = directory / "apiserver"
        self.facts: dict[str, Any] = {}
        self._port = 0

    def start(self, *options: str) -> None:
        """Start on an unchanged port, and wait until it is ready."""
        ready = self.data / "ready.json"
        ready.unlink(missing_ok=True)
        self.data.mkdir(exist_ok=True)
        port = [f"--secure-port={self._port}"] if self._port else []
        self.launch("apiserver_stub", *usual_options(self.data, *port, f"--node-name={NODE}", *options))

        def serves() -> bool:
            assert self.alive(), self.tail()
            return ready.exists()

        wait_until(serves, "API server serves", START_SECONDS)
        self.facts = json.loads(ready.read_text())
        self._port = urllib.parse.urlparse(self.facts["url"]).port or 0

    def store_rss_mib(self) -> float:
        """Return the memory of the process that stores the objects, 0 if that is this one."""
        return 0.0

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the decoded response; an error is a Status with a ``code``."""
        return json.loads(self.body(method, path, body, content_type))

    def body(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> bytes:
        """Return the body of the response."""
        context = _tls_context(Path(self.facts["caFile"]).read_text())
        url = urllib.parse.urlparse(self.facts["url"])
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=20)
        try:
            headers = {"Authorization": f"Bearer {self.facts['token']}", "Content-Type": content_type}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            return connection.getresponse().read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def pod(self, name: str, namespace: str = "default") -> Any:
        """Return a pod, or ``None``."""
        found = self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found if found["kind"] == "Pod" else None

    def create_pod(self, pod: Mapping[str, Any]) -> Any:
        namespace = pod["metadata"].get("namespace", "default")
        created = self.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        assert created["kind"] == "Pod", created
        return created

    def delete_pod(self, name: str, namespace: str = "default", grace: int | None = None) -> Any:
        body = {"apiVersion": "v1", "kind": "DeleteOptions"} | ({} if grace is None else {"gracePeriodSeconds": grace})
        return self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)

    def events(self, name: str = "", namespace: str = "default") -> list[Any]:
        found = self.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [event for event in found if not name or event.get("regarding", {}).get("name") == name]


class NodeAgent(Program):
    """Process of the agent on a runtime, with or without an API server."""

    def __init__(self, directory: Path, endpoint: str, api: ApiServer | None = None, node: str = NODE) -> None:
        super().__init__("nodeagent", directory)
        self.endpoint, self.api, self.node = endpoint, api, node
        self.manifests = directory / "manifests"
        self.manifests.mkdir(exist_ok=True)
        self.root = directory / "root"
        self.config: dict[str, Any] = {}
        self.logs = directory / "log"
        """Has ``pods/``; separate per agent, because an agent removes the logs of unknown pods."""
        self.plugins: dict[str, Any] = {}
        """Settings by plugin."""
        self.containment: dict[str, Any] = {}
        """Other fields of the file of ``--plugin-config``."""
        self.arguments: list[str] = []
        self.left_out = ["kernel_tunables"]
        self.health_port = free_port()
        self.port = free_port()

    def start(self, **config: Any) -> None:
        """Start with these configuration fields; wait for the health port, and the read-only one if set."""
        self.begin(**config)
        ports = [self.health_port, *filter(None, [self.config.get("readOnlyPort")])]

        def serves() -> bool:
            assert self.alive(), self.tail()
            return all(map(_is_served, ports))

        wait_until(serves, "agent serves health", START_SECONDS)

    def begin(self, **config: Any) -> None:
        """Start without waiting."""
        self.config |= config
        document = {
            "apiVersion": "nodeagent.config.k8s.io/v1beta1",
            "kind": "NodeAgentConfiguration",
            "containerRuntimeEndpoint": self.endpoint,
            "staticPodPath": str(self.manifests),
            "healthzPort": self.health_port,
            "address": "127.0.0.1",
            "port": self.port,
            "failSwapOn": False,  # The host may have swap.
            "makeIPTablesUtilChains": False,
            **_ANY_DISK,
            **self.config,
        }
        file = self.directory / "config.yaml"
        file.write_text(yaml.safe_dump(document))
        settings = self.directory / "plugins.yaml"
        plugins = {"pod_sync": {"log_root": str(self.logs)}} | self.plugins
        settings.write_text(yaml.safe_dump({"plugins": plugins, **self.containment}))
        arguments = ["--config", str(file), "--plugin-config", str(settings)]
        arguments += ["--root-dir", str(self.root), "--cert-dir", str(self.directory / "pki")]
        arguments += ["--hostname-override", self.node, *(f"--disable-plugin={name}" for name in self.left_out)]
        if self.api is not None:
            arguments += ["--kubeconfig", self.api.facts["nodeKubeconfig"]]
        self.launch("nodeagent", "run", *arguments, *self.arguments)

    def write_pod(self, pod: Mapping[str, Any]) -> Path:
        """Write a static pod's manifest atomically."""
        file = self.manifests / f"{pod['metadata']['name']}.yaml"
        aside = file.with_suffix(".tmp~")
        aside.write_text(yaml.safe_dump(dict(pod)))
        aside.rename(file)
        return file

    def healthz(self) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=5)
        try:
            connection.request("GET", "/healthz?verbose")
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def _is_served(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def simple_pod(name: str, command: str = "exec sleep 1000000", **spec: Any) -> dict[str, Any]:
    """Return a pod with one container that runs a shell *command*."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", command],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **spec.pop("metadata", {})},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container, *spec.pop("more_containers", ())],
            **spec,
        },
    }
