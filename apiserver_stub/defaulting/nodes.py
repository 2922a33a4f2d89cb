"""Default values of nodes. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object


def default_node(node: Object) -> None:
    """Set the defaults of *node* in place."""
    spec, status = node.setdefault("spec", {}), node.setdefault("status", {})
    if block := spec.get("podCIDR"):
        if (spec.get("podCIDRs") or [""])[0] != block:  # The older field is authoritative.
            spec["podCIDRs"] = [block]
    elif blocks := spec.get("podCIDRs"):
        spec["podCIDR"] = blocks[0]
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = {**status["capacity"]}
