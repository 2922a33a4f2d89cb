"""Default values of nodes. No I/O."""

from __future__ import annotations

from apiserver_stub.objects import Object
from apiserver_stub.validation.quantities import rounded


def default_node(node: Object) -> None:
    """Set the defaults of *node* in place."""
    spec, status = node.setdefault("spec", {}), node.setdefault("status", {})
    if block := spec.get("podCIDR"):
        if (spec.get("podCIDRs") or [""])[0] != block:  # The older field is authoritative.
            spec["podCIDRs"] = [block]
    elif blocks := spec.get("podCIDRs"):
        spec["podCIDR"] = blocks[0]
    for name in ("capacity", "allocatable"):
        if amounts := status.get(name):
            status[name] = {resource: rounded(amount) for resource, amount in amounts.items()}
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = {**status["capacity"]}
