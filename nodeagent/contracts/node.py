"""Contributions of plugins to the node status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from nodeagent.base.structs import Struct


class NodeConditionReport(Struct, frozen=True):
    """One condition of the node, such as ``MemoryPressure``."""

    type: str
    status: bool
    reason: str
    message: str


class NodeTaint(Struct, frozen=True):
    """A taint of the node; key and effect identify it."""

    key: str
    value: str
    effect: str
    """``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``."""


class NodeReport(Struct, frozen=True):
    """A plugin's contribution to the node status; for equal keys, the plugin called last takes precedence."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: Sequence[NodeConditionReport] = ()
    not_ready: Sequence[str] = ()
    """Reasons why the node is not Ready, as messages."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the node; a label that another component has set to a different value is not changed."""
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Annotations of the node; ``None`` removes one."""
    volumes_in_use: Sequence[str] | None = None
    """Unique names of attachable volumes that are mounted or about to be; ``None`` keeps the list on the server."""
    taints: Sequence[NodeTaint] = ()
    """Taints of the node; a taint that the plugin no longer reports is removed."""
    declared_features: Sequence[str] = ()
    """Names of Kubernetes features that the node implements, for the scheduler and admission."""
