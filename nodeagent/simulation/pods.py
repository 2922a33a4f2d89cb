"""Pods that the steps create."""

from __future__ import annotations

import copy
from typing import Any

from nodeagent.simulation.config_volumes import MOUNT_PATH, config_volume
from nodeagent.simulation.node import DEVICE, NAMESPACE, NODE

RULE_CODE = 42


def make_pod(
    name: str,
    uid: str,
    *,
    policy: str,
    containers: int = 1,
    init: int = 0,
    init_failures: int = 0,
    grace: int = 30,
    runs: float = 0,
    code: int = 0,
    volume: bool = False,
    probe: bool = False,
    hook: bool = False,
    device: bool = False,
    config: str = "",
    cpu: int = 0,
    claim: str = "",
    image: str = "registry.test/app:0",
    sidecars: int = 0,
    startup: float = 0,
    ready: bool = False,
    start_hook: bool = False,
    deadline: int = 0,
    rule: str = "",
    priority: int = 0,
) -> dict[str, Any]:
    """Return a pod for the node.

    :param runs: seconds after which its containers exit with *code*; 0 is never.
    :param init_failures: number of times that its init container fails before it succeeds.
    :param config: name of the config map that its containers mount, which need not exist.
    :param cpu: CPU limit of its containers in thousandths; 0 is none.
    :param claim: name of the claim that its containers mount.
    :param sidecars: number of sidecar containers; the first one precedes the init container.
    :param startup: seconds after which the startup probes of its containers and sidecars succeed; 0 without the probes.
    :param ready: whether its containers have a readiness probe.
    :param start_hook: whether its containers have a postStart hook.
    :param deadline: its active deadline in seconds; 0 is none.
    :param rule: action when the first container exits with :data:`RULE_CODE`; it is not restarted otherwise.
    """
    main: dict[str, Any] = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}
    main["terminationMessagePath"] = "/dev/termination-log"
    main["terminationMessagePolicy"] = "File"
    if runs:
        main["args"] = ["exit", str(runs), str(code)]
    if probe:
        main["livenessProbe"] = _probe(["check"], period=10, failures=3)
    if ready:
        main["readinessProbe"] = _probe(["check"], period=5, failures=3)
    if startup:
        main["startupProbe"] = _probe(["started", str(startup)], period=2, failures=1000)
    if hook:
        main["lifecycle"] = {"preStop": {"exec": {"command": ["stop"]}}}
    if start_hook:
        main.setdefault("lifecycle", {})["postStart"] = {"exec": {"command": ["start"]}}
    spec: dict[str, Any] = {
        "nodeName": NODE,
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": grace,
        "dnsPolicy": "Default",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "containers": [{**copy.deepcopy(main), "name": f"main-{number}"} for number in range(containers)],
    }
    for container in spec["containers"] if cpu else ():
        amounts = {"cpu": f"{cpu}m", "memory": "64Mi"}
        container["resources"] = {"limits": amounts, "requests": dict(amounts)}
    if rule:
        rules = [{"action": rule, "exitCodes": {"operator": "In", "values": [RULE_CODE]}}]
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": rules}
    if device:
        resources = spec["containers"][0].setdefault("resources", {"limits": {}, "requests": {}})
        for kind in ("limits", "requests"):
            resources[kind][DEVICE] = "1"
    plain = {name: value for name, value in main.items() if name not in ("livenessProbe", "readinessProbe")}
    plain.pop("lifecycle", None)
    plain.pop("args", None)
    first = [{**copy.deepcopy(plain), "name": f"sidecar-{n}", "restartPolicy": "Always"} for n in range(sidecars)]
    plain.pop("startupProbe", None)
    initial = {**copy.deepcopy(plain), "name": "init-0", "args": ["exit", "2", "0", str(init_failures)]}
    first[1:1] = [initial] if init else []
    if first:
        spec["initContainers"] = first
    if priority:
        spec["priority"] = priority
    if deadline:
        spec["activeDeadlineSeconds"] = deadline
    if volume:
        spec["volumes"] = [{"name": "data", "emptyDir": {}}]
        for container in spec["containers"]:
            container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    if config:
        spec.setdefault("volumes", []).append(config_volume(config))
        for container in spec["containers"]:
            mount = {"name": "config", "mountPath": MOUNT_PATH, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
    if claim:
        spec.setdefault("volumes", []).append({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})
        for container in spec["containers"]:
            container.setdefault("volumeMounts", []).append({"name": "claim", "mountPath": "/claim"})
    metadata = {"name": name, "namespace": NAMESPACE, "uid": uid}
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def make_debugger(name: str, runs: float) -> dict[str, Any]:
    """Return an ephemeral container that exits after *runs* seconds; 0 is never."""
    container: dict[str, Any] = {"name": name, "image": "registry.test/debug:0", "imagePullPolicy": "IfNotPresent"}
    container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    return container | ({"args": ["exit", str(runs), "0"]} if runs else {})


def _probe(command: list[str], *, period: int, failures: int) -> dict[str, Any]:
    probe = {"exec": {"command": command}, "periodSeconds": period, "timeoutSeconds": 1}
    return probe | {"failureThreshold": failures, "successThreshold": 1}
