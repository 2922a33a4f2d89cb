"""Latencies of an idle node: updates of mounted volumes, changes of the pod status, restarts of containers."""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure, percentile
from benchmarks.node import Node, bench_pod, started_node

ROUNDS = 20
LIMIT_SECONDS = 120.0
POLL_SECONDS = 0.002
RESTARTS = 3
OBJECTS = "/api/v1/namespaces/default"
SHARES = (("median", 0.5), ("p90", 0.9), ("maximum", 1.0))
WAIT = "until [ -e /signals/{name} ]; do sleep 0.01; done"


def _distribution(key: str, title: str, goal: float) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{key}_{name}", f"{title}, {name}", "ms", at_most=1000 * goal if name == "maximum" else None)
        for name, _ in SHARES
    )


FIGURES = (
    *_distribution("config_map", "changed ConfigMap until the file in the volume has changed", 2.0),
    *_distribution("secret", "changed Secret until the file in the volume has changed", 2.0),
    *_distribution("optional", "created optional ConfigMap until the file in the projected volume exists", 2.0),
    *_distribution("exited", "exit of a container until the API has its exit code", 1.0),
    *_distribution("terminating", "exit of a container while its pod terminates until the API has its exit code", 1.0),
    Figure("restart_1", "exit until the first restart of a container", "s", at_most=2.0),
    Figure("restart_2", "exit until the second restart, with a back-off of 10 s", "s", at_most=12.0),
    Figure("restart_3", "exit until the third restart, with a back-off of 20 s", "s", at_most=22.0),
)


def run() -> dict[str, float]:
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        signals = node.directory / "signals"
        signals.mkdir()
        crash = _create(node, client, watch, "bench-crash", "sleep 0.1; exit 1", restartPolicy="Always")
        return {
            **_volumes(node, client, watch),
            **_exits(node, client, watch, signals),
            **_exits_while_terminating(node, client, watch, signals),
            **_restarts(watch, crash),
        }


def _volumes(node: Node, client: Client, watch: PodWatch) -> dict[str, float]:
    """Change the objects in the volumes of one pod, one after the other."""
    client.request("POST", f"{OBJECTS}/configmaps", _object("bench-map", data={"key": "before"}))
    client.request("POST", f"{OBJECTS}/secrets", _object("bench-secret", stringData={"key": "before"}))
    volumes = [
        {"name": "map", "configMap": {"name": "bench-map"}},
        {"name": "secret", "secret": {"secretName": "bench-secret"}},
        {
            "name": "optional",
            "projected": {"sources": [{"configMap": {"name": "bench-optional", "optional": True}}]},
        },
    ]
    uid = _create(node, client, watch, "bench-volumes", "exec sleep 1000000", volumes=volumes)
    directory = node.agent.root / "pods" / uid / "volumes"
    result: dict[str, float] = {}
    for key, plural, name, kind, field in (
        ("config_map", "configmaps", "bench-map", "configmap/map", "data"),
        ("secret", "secrets", "bench-secret", "secret/secret", "stringData"),
    ):
        file, times = directory / f"kubernetes.io~{kind}" / "key", []
        for number in range(ROUNDS):
            client.request("PUT", f"{OBJECTS}/{plural}/{name}", _object(name, **{field: {"key": str(number)}}))
            times.append(_seconds_until(file, str(number)))
        result |= _shares(key, times)
    file, times = directory / "kubernetes.io~projected" / "optional" / "key", []
    for _ in range(ROUNDS):
        client.request("POST", f"{OBJECTS}/configmaps", _object("bench-optional", data={"key": "value"}))
        times.append(_seconds_until(file, "value"))
        client.request("DELETE", f"{OBJECTS}/configmaps/bench-optional")
        _seconds_until(file, "")
    return result | _shares("optional", times)


def _exits(node: Node, client: Client, watch: PodWatch, signals: Path) -> dict[str, float]:
    """End the containers of pods, which wait for a file, one after the other."""
    times = []
    for number in range(ROUNDS):
        name = f"bench-exit-{number:02d}"
        uid = _create(node, client, watch, name, WAIT.format(name=name), restartPolicy="Never", **_signals(signals))
        (signals / name).touch()
        ended = time.monotonic()
        times.append(watch.wait_for(partial(_has_exited, uid), LIMIT_SECONDS) - ended)
    return _shares("exited", times)


def _exits_while_terminating(node: Node, client: Client, watch: PodWatch, signals: Path) -> dict[str, float]:
    """End one container of a pod, whose other container exceeds its grace period."""
    times = []
    for number in range(ROUNDS):
        name = f"bench-end-{number:02d}"
        slow = {"name": "slow", "image": bench_pod("")["spec"]["containers"][0]["image"]}
        slow["command"] = ["/bin/sleep", "1000000"]
        command = f"trap '' TERM; {WAIT.format(name=name)}"
        fields = {**_signals(signals), "more_containers": [slow], "terminationGracePeriodSeconds": 4}
        uid = _create(node, client, watch, name, command, **fields)
        client.delete_pod(name)
        time.sleep(0.3)
        (signals / name).touch()
        ended = time.monotonic()
        times.append(watch.wait_for(partial(_has_exited, uid), LIMIT_SECONDS) - ended)
    return _shares("terminating", times)


def _restarts(watch: PodWatch, uid: str) -> dict[str, float]:
    """Return the times between the exits of a container, as its status shows them, and its next starts."""
    result: dict[str, float] = {}
    for number in range(1, RESTARTS + 1):
        exited = watch.wait_for(partial(_has_ended, uid, number - 1), LIMIT_SECONDS)
        started = watch.wait_for(partial(_has_restarted, uid, number), LIMIT_SECONDS)
        result[f"restart_{number}"] = started - exited
    return result


def _create(node: Node, client: Client, watch: PodWatch, name: str, command: str, **spec: Any) -> str:
    """Create a pod, wait until it runs, and return its UID."""
    more = spec.pop("more_mounts", [])
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in spec.get("volumes", ())] + more
    pod = bench_pod(name, nodeName=node.agent.node, **spec)
    pod["spec"]["containers"][0] |= {"command": ["/bin/sh", "-c", command], "volumeMounts": mounts}
    client.create_pod(pod)
    watch.wait_running([name], LIMIT_SECONDS)
    return str(client.request("GET", f"{OBJECTS}/pods/{name}")["metadata"]["uid"])


def _signals(directory: Path) -> dict[str, Any]:
    """Return the volume with the files for which containers wait."""
    return {"volumes": [{"name": "signals", "hostPath": {"path": str(directory)}}]}


def _object(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def _container(pod: dict[str, Any], uid: str) -> dict[str, Any]:
    """Return the status of the container ``main`` of the pod with this UID; empty for other pods."""
    if pod["metadata"]["uid"] != uid:
        return {}
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == "main"), {})


def _has_exited(uid: str, pod: dict[str, Any]) -> bool:
    return "terminated" in _container(pod, uid).get("state", {})


def _has_ended(uid: str, restarts: int, pod: dict[str, Any]) -> bool:
    """Return whether the container has ended after this number of restarts."""
    status = _container(pod, uid)
    state, last = status.get("state", {}), status.get("lastState", {})
    ended = "terminated" in state or ("waiting" in state and "terminated" in last)
    return ended and status["restartCount"] == restarts


def _has_restarted(uid: str, restarts: int, pod: dict[str, Any]) -> bool:
    return bool(_container(pod, uid).get("restartCount") == restarts)


def _seconds_until(file: Path, content: str) -> float:
    """Return the time until a file has this content; a missing file has none."""
    started = time.monotonic()
    while _content(file) != content:
        if time.monotonic() - started > LIMIT_SECONDS:
            raise RuntimeError(f"the file has not changed within {LIMIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


def _shares(key: str, times: list[float]) -> dict[str, float]:
    return {
        f"{key}_{name}": 1000 * (statistics.median(times) if share == 0.5 else percentile(times, share))
        for name, share in SHARES
    }
