"""Nodes: strategy and declaration of the resource."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import nodes as defaulting
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_node
from apiserver_stub.kinds.registry import PROXY_VERBS, Column, Resource, Strategy, Subresource
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.nodes import (
    node_warnings,
    validate_declared_features,
    validate_node,
    validate_node_update,
)
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity

_KERNEL_WITH_ARCHITECTURE = Release(1, 36)
"""First release that shows the architecture with the version of the kernel."""


class NodeStrategy(Strategy):
    """Nodes: identifying fields are immutable; only new nodes have a status without its subresource."""

    def __init__(
        self, identity: Identity, gates: FeatureGates | None = None, rules: AddressRules = EARLY_RULES
    ) -> None:
        """Create the strategy; without *gates*, fields of features are neither validated nor dropped."""
        self._identity, self._gates, self._rules = identity, gates, rules

    def default(self, new: Object) -> None:
        defaulting.default_node(new)

    def default_status(self, new: Object) -> None:
        defaulting.default_node(new)

    def prepare_create(self, new: Object) -> None:
        _drop_configuration(new)
        if self._gates is not None:
            drop_from_node(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        _drop_configuration(new)
        if self._gates is not None and subresource != "status":  # As upstream, which drops only from complete nodes.
            drop_from_node(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_node(new, self._identity, self._rules) + self._validate_features(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = [] if subresource else validate_node(new, self._identity, self._rules)
        return causes + validate_node_update(new, old, self._identity) + self._validate_features(new)

    def _validate_features(self, node: Object) -> list[Cause]:
        if self._gates is None or not self._gates.exists("NodeDeclaredFeatures"):
            return []
        features = dig(node, ("status", "declaredFeatures")) or ()
        return validate_declared_features(features, "status.declaredFeatures")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return node_warnings(new, self._rules)


def _drop_configuration(node: Object) -> None:
    """Drop the fields of dynamic kubelet configuration, a removed feature."""
    node["spec"].pop("configSource", None)
    (node.get("status") or {}).pop("config", None)


def resources(settings: KindSettings) -> list[Resource]:
    role_prefix, role_label = settings.identity.label("", "node-role"), settings.identity.label("role")
    with_architecture = settings.compatibility_version >= _KERNEL_WITH_ARCHITECTURE
    return [
        Resource(
            "",
            "v1",
            "Node",
            "nodes",
            namespaced=False,
            short_names=("no",),
            strategy=NodeStrategy(
                settings.identity,
                settings.gates,
                AddressRules.of(settings.gates, settings.compatibility_version),
            ),
            subresources=(
                Subresource("proxy", PROXY_VERBS, "NodeProxyOptions"),
                Subresource("status"),
            ),
            columns=(
                NAME,
                Column("Status", _status, description="Readiness of the node."),
                Column("Roles", partial(_roles, role_prefix, role_label), description="Roles of the node."),
                AGE,
                at("Version", "status.nodeInfo.kubeletVersion", default=""),
                Column("Internal-IP", lambda node: _address(node, "InternalIP"), wide=True),
                Column("External-IP", lambda node: _address(node, "ExternalIP"), wide=True),
                _info("OS-Image", "osImage"),
                Column("Kernel-Version", partial(_kernel, with_architecture), wide=True),
                _info("Container-Runtime", "containerRuntimeVersion"),
            ),
            fields={"spec.unschedulable": ("spec", "unschedulable")},
            storage_key="minions",
        )
    ]


def _kernel(with_architecture: bool, node: Object) -> str:
    """Return the version of the kernel, and the architecture if *with_architecture*."""
    info = dig(node, ("status", "nodeInfo")) or {}
    architecture = info.get("architecture") if with_architecture else None
    return f"{info.get('kernelVersion') or '<unknown>'}{f' ({architecture})' if architecture else ''}"


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


def _roles(prefix: str, label: str, node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if role := labels.get(label):
        roles.add(role)
    return ",".join(sorted(roles)) or "<none>"


def _address(node: Object, kind: str) -> str:
    addresses = dig(node, ("status", "addresses")) or ()
    return next((item["address"] for item in addresses if item.get("type") == kind), "<none>")
