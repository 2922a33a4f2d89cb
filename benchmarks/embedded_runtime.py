"""Fifty pods without an agent on the embedded runtime and on containerd, and the pull of a large image.

Podman pulls the image, too, if it is installed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc

from benchmarks.figures import Figure
from benchmarks.node import PODS, quick_directory, started_runtime
from benchmarks.runtime import CALL_SECONDS, Calls, host_cpu_seconds, minimal_pod, start_all
from nodeagent.base.criproto import api_pb2 as cri
from tests.integration import images
from tests.integration.containerd import Containerd
from tests.integration.docker_registry import PASSWORD, USER, DockerRegistry
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime

LAYERS, FILES, FILE_BYTES = 4, 400, 96 << 10
MIB = 1 << 20

FIGURES = (
    *(
        figure
        for key, name in (("embedded", "embedded runtime"), ("containerd", "containerd"))
        for figure in (
            Figure(f"{key}_running", f"{name}: {PODS} pods running", "s"),
            Figure(f"{key}_running_cpu", f"{name}: CPU of the host until then", "s"),
            Figure(f"{key}_removed", f"{name}: all stopped and removed", "s"),
            Figure(f"{key}_memory", f"{name}: memory (PSS) without pods", "MiB"),
            Figure(f"{key}_pod_memory", f"{name}: memory (PSS) per pod, shim included", "MiB"),
            Figure(f"{key}_pull", f"{name}: pull of an image, compressed", "MB/s"),
        )
    ),
    Figure("podman_pull", "podman: pull of an image, compressed", "MB/s"),
)


def run() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, _registry(Path(name)) as registry:
        size = _layer_bytes(registry)
        result: dict[str, float] = {}
        for key, started in (("embedded", _embedded), ("containerd", _containerd)):
            with started(registry) as runtime:
                measured = _measure(runtime.endpoint, runtime.directory, registry, size)
            result |= {f"{key}_{figure}": value for figure, value in measured.items()}
        if shutil.which("podman"):
            result["podman_pull"] = _pull_by_podman(registry, size)
    return result


def _measure(endpoint: str, root: Path, registry: DockerRegistry, size: int) -> dict[str, float]:
    with grpc.insecure_channel(endpoint) as channel, quick_directory() as directory:
        calls = Calls(channel)
        result = {"memory": _memory_mib(root)}
        cpu = host_cpu_seconds()
        result["running"] = start_all(calls, channel, lambda name: minimal_pod(name, directory))
        result["running_cpu"] = host_cpu_seconds() - cpu
        result["pod_memory"] = (_memory_mib(root) - result["memory"]) / PODS
        result["removed"] = _seconds(calls.remove_all)
        result["pull"] = size / 1e6 / _seconds(lambda: _pull(channel, registry))
    return result


@contextlib.contextmanager
def _registry(directory: Path) -> Iterator[DockerRegistry]:
    """Start a registry with an image of several layers, half of whose content cannot be compressed."""
    archive, generator = images.OciArchive(), random.Random(1)
    layers = []
    for layer in range(LAYERS):
        files = {
            f"data/{layer}/{number}": generator.randbytes(FILE_BYTES // 2) + bytes(FILE_BYTES // 2)
            for number in range(FILES)
        }
        layers.append(archive.add_layer(images.busybox_layer(files)))
    archive.add_image("localhost/shop/tool:1", layers, {})
    archive.write(directory / "image.tar")
    registry = DockerRegistry(directory)
    registry.start()
    try:
        registry.push(directory / "image.tar", compressed=True)
        yield registry
    finally:
        registry.close()


@contextlib.contextmanager
def _embedded(registry: DockerRegistry) -> Iterator[EmbeddedRuntime]:
    runtime = EmbeddedRuntime("--insecure-registry", registry.host)
    try:
        runtime.start()
        yield runtime
    finally:
        runtime.close()


@contextlib.contextmanager
def _containerd(registry: DockerRegistry) -> Iterator[Containerd]:
    with started_runtime() as runtime:
        _allow_insecure(runtime, registry)
        yield runtime


def _allow_insecure(runtime: Containerd, registry: DockerRegistry) -> None:
    directory = runtime.directory / "certs.d" / registry.host
    directory.mkdir(parents=True)
    (directory / "hosts.toml").write_text(f'server = "http://{registry.host}"\n')


def _layer_bytes(registry: DockerRegistry) -> int:
    """Return the size of the blobs in *registry*: all of them belong to the image."""
    return sum(path.stat().st_size for path in registry.directory.glob("data/**/blobs/**/data"))


def _pull(channel: grpc.Channel, registry: DockerRegistry) -> None:
    pull = channel.unary_unary(
        "/runtime.v1.ImageService/PullImage", cri.PullImageRequest.SerializeToString, cri.PullImageResponse.FromString
    )
    request = cri.PullImageRequest(
        image=cri.ImageSpec(image=registry.image), auth=cri.AuthConfig(username=USER, password=PASSWORD)
    )
    pull(request, timeout=CALL_SECONDS)


def _pull_by_podman(registry: DockerRegistry, size: int) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        podman = ["podman", "--root", f"{name}/root", "--runroot", f"{name}/run", "--storage-driver", "overlay"]
        pull = [*podman, "pull", "--quiet", "--tls-verify=false", "--creds", f"{USER}:{PASSWORD}", registry.image]
        seconds = _seconds(lambda: subprocess.run(pull, check=True, capture_output=True))
        subprocess.run([*podman, "rmi", "--force", registry.image], check=False, capture_output=True)
    return size / 1e6 / seconds


def _seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _memory_mib(directory: Path) -> float:
    """Return the proportional set size of the runtime in *directory* and its shims, workloads excluded."""
    total = 0
    for process in _processes(directory):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text() != "sleep\n":
                lines = (process / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / MIB


def _processes(directory: Path) -> list[Path]:
    """Return the processes whose command lines name *directory*, and their descendants."""
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                parents[entry.name] = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if os.fsencode(directory) in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
    for name in found:  # The list grows.
        found.extend(child for child, parent in parents.items() if parent == name and child not in found)
    return [Path("/proc") / name for name in found]
