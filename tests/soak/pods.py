"""Pods of the load: their specifications, the state that each must reach, and how a running one is changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.integration.programs import NODE, simple_pod
from tests.soak.node import PULL_SECRET

SETTINGS = "settings"
"""ConfigMap and Secret of the pods with volumes."""
TERMINATION = "trap 'exit 0' TERM; while :; do sleep 1; done"
LOG = "while :; do seq -f 'line %06g of a log that is rotated while clients read it' 500; sleep 1; done"


def running(pod: Any) -> bool:
    return bool(pod and pod["status"].get("phase") == "Running")


def ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", ()) if pod else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def succeeded(pod: Any) -> bool:
    return bool(pod and pod["status"].get("phase") == "Succeeded")


def failed(pod: Any) -> bool:
    return bool(pod and pod["status"].get("phase") == "Failed")


def restarted(pod: Any) -> bool:
    return restarts(pod) > 0


def restarts(pod: Any) -> int:
    """Return the number of restarts of the first container."""
    statuses = pod["status"].get("containerStatuses") if pod else None
    return int(statuses[0]["restartCount"]) if statuses else 0


@dataclass(frozen=True)
class Kind:
    """Kind of pod.

    :ivar spec: fields of the pod and, under ``container``, of its container.
    :ivar reached: whether the pod has reached its state.
    :ivar state: that state, for messages.
    :ivar lasts: whether its container runs until the pod is deleted.
    """

    name: str
    command: str
    spec: Mapping[str, Any]
    reached: Callable[[Any], bool]
    state: str
    lasts: bool = True


_PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 2}
_TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
_VOLUMES = [
    {"name": "config", "configMap": {"name": SETTINGS}},
    {"name": "secret", "secret": {"secretName": SETTINGS}},
    {"name": "projected", "projected": {"sources": [_TOKEN, {"configMap": {"name": SETTINGS}}]}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "scratch", "emptyDir": {}},
]
_MOUNTS = [{"name": volume["name"], "mountPath": f"/volumes/{volume['name']}"} for volume in _VOLUMES]
_RESOURCES = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}

KINDS = (
    Kind("plain", TERMINATION, {}, running, "Running"),
    Kind("limited", TERMINATION, {"container": {"resources": _RESOURCES}}, running, "Running"),
    Kind("log", LOG, {}, running, "Running"),
    Kind("short", "echo done", {"restartPolicy": "Never"}, succeeded, "Succeeded", lasts=False),
    Kind("error", "echo failed >&2; exit 3", {"restartPolicy": "Never"}, failed, "Failed", lasts=False),
    Kind("crash", "sleep 1; exit 1", {}, restarted, "restarted", lasts=False),
    Kind("probed", TERMINATION, {"container": {"readinessProbe": _PROBE, "livenessProbe": _PROBE}}, ready, "Ready"),
    Kind("volumes", TERMINATION, {"volumes": _VOLUMES, "container": {"volumeMounts": _MOUNTS}}, ready, "Ready"),
    Kind(
        "init",
        TERMINATION,
        {"initContainers": [{"name": "first", "command": ["true"]}]},
        ready,
        "Ready",
    ),
)


def specification(kind: Kind, name: str, images: Sequence[str], random_numbers: random.Random) -> dict[str, Any]:
    """Return a pod of *kind* with one of the *images*, which is pulled if it is missing."""
    image = random_numbers.choice(images)
    spec = {field: value for field, value in kind.spec.items() if field != "container"}
    if "initContainers" in spec:
        spec["initContainers"] = [{**each, "image": image} for each in spec["initContainers"]]
    policy = random_numbers.choice(("Always", "IfNotPresent"))
    container = {"image": image, "imagePullPolicy": policy, **kind.spec.get("container", {})}
    metadata = {"labels": {"kind": kind.name}}
    references = [{"name": PULL_SECRET}]
    return simple_pod(
        name, kind.command, container=container, metadata=metadata, nodeName=NODE, imagePullSecrets=references, **spec
    )
