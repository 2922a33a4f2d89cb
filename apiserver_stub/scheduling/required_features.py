"""Features that a node must declare to run a pod. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object


def required_features(spec: Object) -> Iterator[str]:
    """Yield the features that a pod with *spec* requires of its node."""
    containers = [item for kind in ("containers", "initContainers") for item in spec.get(kind) or ()]
    rules = [rule for item in containers for rule in item.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
