"""Node of a soak test: containerd, an image registry, the API server and the agent, on small disks."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import find_hierarchy
from tests.integration.containerd import Containerd
from tests.integration.docker_registry import PASSWORD, USER, DockerRegistry
from tests.integration.images import OciArchive, busybox_layer
from tests.integration.programs import NODE, ApiServer, NodeAgent, unmount_below, wait_until

DISK_MI, RUNTIME_DISK_MI = 256, 2048
FREE_PERCENT = 30
"""Threshold of ``nodefs.available``."""
IMAGES = 6
NOISE_BYTES = 1 << 20
"""Size of the layer that differs between the images."""
PULL_SECRET = "registry"
CONFIG: dict[str, Any] = {
    "syncFrequency": "10s",
    "evictionHard": {"nodefs.available": f"{FREE_PERCENT}%"},
    "evictionPressureTransitionPeriod": "5s",
    "containerLogMaxSize": "256Ki",
    "containerLogMaxFiles": 3,
    "containerLogMonitorInterval": "5s",
    "imageMinimumGCAge": "5s",
    "imageMaximumGCAge": "30s",
    "serializeImagePulls": False,
    "platformAPIQPS": 100,
    "platformAPIBurst": 200,
    "nodeStatusUpdateFrequency": "10s",
    "featureGates": {"ImageMaximumGCAge": True},
}


@dataclass(frozen=True)
class SoakNode:
    """Components of the running node.

    :ivar disk: file system with the agent's root directory and the logs of the containers.
    :ivar cgroup: name of the cgroup above those of the pods, in each hierarchy.
    """

    directory: Path
    disk: Path
    cgroup: str
    runtime: Containerd
    api: ApiServer
    agent: NodeAgent
    images: tuple[str, ...]

    def fill_disk(self) -> None:
        """Write a file that leaves half of the free space that the eviction threshold requires."""
        status = os.statvfs(self.disk)
        free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
        size = max(0, free - total * FREE_PERCENT // 200)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))

    def empty_disk(self) -> None:
        """Remove that file."""
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.disk / "filler"


@contextlib.contextmanager
def started_node(directory: Path) -> Iterator[SoakNode]:
    """Start the node below *directory* and wait until it is ready; everything but logs is removed afterwards."""
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(_disk(directory / "disk", DISK_MI))
        runtime_directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        runtime = stack.enter_context(Containerd(stack.enter_context(_disk(runtime_directory, RUNTIME_DISK_MI))))
        registry = DockerRegistry(_new(directory / "registry"))
        stack.callback(registry.close)
        registry.start()
        images = _push_images(registry)
        cgroup = stack.enter_context(_cgroup(disk))
        api = ApiServer(directory)
        stack.callback(api.stop)
        # The number of events is constant after some minutes, instead of an hour.
        api.start("--event-ttl=5m")
        _create_pull_secret(api, registry)
        agent = NodeAgent(directory, runtime.endpoint, api)
        agent.root, agent.logs = disk / "root", disk / "log"
        agent.arguments = ["--node-ip", "127.0.0.1"]
        stack.callback(unmount_below, disk)
        stack.callback(agent.stop)
        agent.start(
            cgroupRoot=f"/{cgroup}", authentication={"x509": {"clientCAFile": api.facts["clientCaFile"]}}, **CONFIG
        )
        wait_until(lambda: _ready(api), "the node is ready", 60)
        yield SoakNode(directory, disk, cgroup, runtime, api, agent, images)
        runtime.remove_pods()


def _new(directory: Path) -> Path:
    directory.mkdir()
    return directory


@contextlib.contextmanager
def _disk(path: Path, size_mi: int) -> Iterator[Path]:
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mi}m,mode=0711", "soak", str(path)], check=True)
    try:
        yield path
    finally:
        unmount_below(path)


@contextlib.contextmanager
def _cgroup(disk: Path) -> Iterator[str]:
    hierarchy = find_hierarchy(Path("/proc/self/mountinfo").read_text())
    assert hierarchy is not None, "no cgroups are mounted"
    files, name = CgroupFiles(hierarchy, str(disk / "root")), f"soak-{uuid.uuid4().hex[:8]}"
    files.make((name,))
    try:
        yield name
    finally:
        files.remove((name,))


def _push_images(registry: DockerRegistry) -> tuple[str, ...]:
    names = []
    archive_file = registry.directory / "image.tar"
    for number in range(IMAGES):
        archive = OciArchive()
        layers = [archive.add_layer(busybox_layer()), archive.add_layer(_noise())]
        registry.image = f"{registry.host}/soak/app-{number}:1"
        archive.add_image(registry.image, layers, {"Cmd": ["sh"], "Env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"]})
        archive.write(archive_file)
        registry.push(archive_file)
        names.append(registry.image)
    return tuple(names)


def _noise() -> bytes:
    return busybox_layer({"noise": os.urandom(NOISE_BYTES)})


def _create_pull_secret(api: ApiServer, registry: DockerRegistry) -> None:
    login = {"auths": {registry.host: {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}
    secret = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": json.dumps(login)}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET}, **secret}
    created = api.request("POST", "/api/v1/namespaces/default/secrets", body)
    assert created["kind"] == "Secret", created


def _ready(api: ApiServer) -> bool:
    node = api.get(f"/api/v1/nodes/{NODE}")
    conditions = (node["kind"] == "Node" and node.get("status", {}).get("conditions")) or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
