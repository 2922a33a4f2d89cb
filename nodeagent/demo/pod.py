"""The pod of the demo, and what is read from its state. Pure."""

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
    """Return the pod: one container writes to a volume, the other reads from it."""
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
    """Return a condition of a node or pod; one of status Unknown when it has none of that name."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == name), {"status": "Unknown", "message": ""})


def stages(pod: dict[str, Any]) -> list[str]:
    """Return the stages that *pod* has reached, in their order."""
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


def trouble(pod: dict[str, Any]) -> str:
    """Return what keeps a container of *pod* waiting, as its status tells; empty when nothing does."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{container['name']}: {waiting.get('reason', '')}: {waiting['message']}"
    return ""
