"""The demo's pod, and its stages according to its status. No I/O."""

from __future__ import annotations

from typing import Any

NODE = "demo-node"
POD = "demo"
NAMESPACE = "default"
CONTAINERS = ("writer", "reader")
_WRITER = """\
trap "exit 0" TERM
i=0
while :; do
  i=$((i+1)); echo "tick $i from $POD_NAME" | tee -a /shared/ticks
  sleep 0.5 & wait $!
done
"""
_READER = """\
trap "exit 0" TERM
seen=0
while :; do
  if [ -s /shared/ticks ]; then
    read -r last <<EOF
$(tail -n 1 /shared/ticks)
EOF
    [ "$last" = "$seen" ] || { seen=$last; echo "read: $last"; }
  fi
  sleep 0.5 & wait $!
done
"""


def make_pod(image: str, *, host_network: bool) -> dict[str, Any]:
    """Return the pod object: one container writes to a volume, the other reads from it."""
    name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    containers = [
        {
            "name": container,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", script],
            "env": [name],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        }
        for container, script in zip(CONTAINERS, (_WRITER, _READER), strict=True)
    ]
    spec = {
        "nodeName": NODE,
        "containers": containers,
        "volumes": [{"name": "shared", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": False,
        "hostNetwork": host_network,
        "dnsPolicy": "Default",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": NAMESPACE}, "spec": spec}


def condition(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a condition of a node or pod, with status Unknown if it does not exist."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == name), {"status": "Unknown", "message": ""})


def stages(pod: dict[str, Any]) -> list[str]:
    """Return the stages that *pod* has reached, in order."""
    reached = ["Created"]
    status = pod.get("status", {})
    if status.get("conditions"):
        reached.append("Accepted")
    if condition(pod, "PodReadyToStartContainers")["status"] == "True":
        reached.append("Sandbox")
    if status.get("phase") == "Running":
        reached.append("Running")
    if condition(pod, "Ready")["status"] == "True":
        reached.append("Ready")
    return reached


def waiting_message(pod: dict[str, Any]) -> str:
    """Return name, reason and message of the first waiting container that has a message; empty if there is none."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{container['name']}: {waiting.get('reason', '')}: {waiting['message']}"
    return ""
