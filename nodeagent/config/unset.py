"""Values in files that mean "unset", and defaults that depend on other fields.

Generated files contain explicit zeros. A zero duration, an empty string and a zero
in a few numbers therefore mean the default, unless zero has a meaning. A zero that the specification forbids
(``port``, ``nodeLeaseDurationSeconds``) means unset only in the ``KubeletConfiguration`` format.
"""

from __future__ import annotations

from typing import Any

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.config.fields import all_fields
from nodeagent.config.tree import DEFAULT, Origin, Tree
from nodeagent.contracts.configuration import TimeOrMetaDuration

_ZERO_HAS_MEANING = frozenset(
    {
        "imageMaximumGCAge",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
        "cpuCFSQuotaPeriod",
        "resolvConf",
    }
)
_ZERO_UNSET = frozenset({"maxPods", "registryBurst", "eventBurst", "platformAPIBurst", "maxOpenFiles"})
_ZERO_UNSET_FOR_KUBELET = frozenset({"port", "nodeLeaseDurationSeconds"})
_KUBELET_ENDPOINT = "unix:///run/containerd/containerd.sock"


def drop_unset(tree: Tree, *, kubelet_format: bool) -> list[str]:
    """Remove the values that mean "unset"; return warnings about numbers that were zero."""
    warnings = []
    for path, field in all_fields().items():
        if "[]" in path or path in _ZERO_HAS_MEANING:
            continue
        keys = tuple(path.split("."))
        value = tree.get(keys)
        if value is None or isinstance(value, bool | dict | list):
            continue
        kind = field.member.shape.kind
        if kind in (Duration, TimeOrMetaDuration):
            unset = _is_zero(value)
        elif kind is str:
            unset = value == "" and field.default != ""
        else:
            unset = value == 0 and (path in _ZERO_UNSET or (kubelet_format and path in _ZERO_UNSET_FOR_KUBELET))
            if unset and not kubelet_format:
                warnings.append(f"{path}: 0 means unset; the default {field.default} is used")
        if unset:
            tree.remove(keys)
    return warnings


def fill_dependent(tree: Tree, *, kubelet_format: bool) -> list[str]:
    """Set defaults that depend on other fields; return warnings about assumptions."""
    update = ("nodeStatusUpdateFrequency",)
    report = ("nodeStatusReportFrequency",)
    if tree.get(update) is not None and tree.get(report) is None:
        origin = tree.origin(update[0])
        tree.replace(report, tree.get(update), Origin(DEFAULT.kind, f"from nodeStatusUpdateFrequency, {origin}"))
    _merge_eviction_defaults(tree)
    drivers = ("volumePluginDir",)
    if kubelet_format and not tree.get(drivers):
        path = f"/usr/libexec/{identity.current().platform_dir}/kubelet-plugins/volume/exec/"
        tree.replace(drivers, path, Origin(DEFAULT.kind, "of KubeletConfiguration files"))
    endpoint = ("containerRuntimeEndpoint",)
    if kubelet_format and not tree.get(endpoint):
        tree.replace(endpoint, _KUBELET_ENDPOINT, Origin(DEFAULT.kind, "of KubeletConfiguration files"))
        return [
            f"containerRuntimeEndpoint is not set; using {_KUBELET_ENDPOINT}, the default of KubeletConfiguration files"
        ]
    return []


def _merge_eviction_defaults(tree: Tree) -> None:
    """Complete ``evictionHard`` with the default thresholds (``mergeDefaultEvictionSettings``)."""
    own, defaults = tree.get(("evictionHard",)), all_fields()["evictionHard"].default
    if tree.get(("mergeDefaultEvictionSettings",)) is not True or not isinstance(own, dict):
        return
    for signal in defaults.keys() - own.keys():
        origin = Origin(DEFAULT.kind, "by mergeDefaultEvictionSettings")
        tree.replace(("evictionHard", signal), defaults[signal], origin)


def _is_zero(value: Any) -> bool:
    if isinstance(value, str):
        try:
            return not Duration.parse(value)
        except ValueError:
            return False
    return isinstance(value, int) and value == 0
