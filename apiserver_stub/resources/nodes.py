"""Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.nodes.proxy import proxy_node
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import PROXY_VERBS, Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, forbidden_value
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_ROLE = identity.current().label("", "node-role")


class NodeStrategy(Strategy):
    """A node keeps the provider and pod CIDR it once had; its status comes through the subresource."""

    def default(self, new: Object) -> None:
        new.setdefault("spec", {})
        spec = new["spec"]
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]

    def prepare_create(self, new: Object) -> None:
        """A new node may bring its status along, as agents register themselves with one."""
        status = new.setdefault("status", {})
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        status["nodeInfo"] = dict.fromkeys(_INFO, "") | (status.get("nodeInfo") or {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        after, before = new.get("spec") or {}, old.get("spec") or {}
        return [
            forbidden_value(f"spec.{name}", f'node updates may not change {told} except from "" to valid')
            for name, told in (("podCIDRs", "podCIDR"), ("providerID", "providerID"))
            if before.get(name) and after.get(name) != before[name]
        ]


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "Node",
            "nodes",
            namespaced=False,
            short_names=("no",),
            strategy=NodeStrategy(),
            subresources=(
                Subresource("proxy", PROXY_VERBS, "NodeProxyOptions", stream=proxy_node),
                Subresource("status"),
            ),
            columns=(
                NAME,
                Column("Status", _status, description="Whether the node is ready."),
                Column("Roles", _roles, description="Roles of the node."),
                AGE,
                at("Version", "status.nodeInfo.kubeletVersion", default=""),
                Column("Internal-IP", lambda node: _address(node, "InternalIP"), wide=True),
                Column("External-IP", lambda node: _address(node, "ExternalIP"), wide=True),
                _info("OS-Image", "osImage"),
                _info("Kernel-Version", "kernelVersion"),
                _info("Container-Runtime", "containerRuntimeVersion"),
            ),
            fields={"spec.unschedulable": ("spec", "unschedulable")},
            storage_key="minions",
        )
    ]


def _info(title: str, member: str) -> Column:
    path = ("status", "nodeInfo", member)
    return Column(
        title, lambda node: dig(node, path) or "<unknown>", wide=True, description=f"Value of {'.'.join(path)}."
    )


def is_ready(node: Object) -> bool:
    """Return whether the node's Ready condition is true."""
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in dig(node, ("status", "conditions")) or ()
    )


def _status(node: Object) -> str:
    conditions = {condition["type"]: condition for condition in dig(node, ("status", "conditions")) or ()}
    ready = conditions.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if dig(node, ("spec", "unschedulable")):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if role := labels.get(identity.current().label("role")):
        roles.add(role)
    return ",".join(sorted(roles)) or "<none>"


def _address(node: Object, kind: str) -> str:
    addresses = dig(node, ("status", "addresses")) or ()
    return next((item["address"] for item in addresses if item.get("type") == kind), "<none>")
