"""Labels, annotations and taints of the node that plugins report. No I/O.

Annotations of the node record which labels and taints each plugin has set, so that they are removed when the plugin
stops to report them, also after a restart; those of a plugin that does not respond are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from nodeagent.base import identity
from nodeagent.contracts.node import NodeReport

_Patch = dict[str, Any]


def metadata_patch(node: Mapping[str, Any], reports: Mapping[str, NodeReport], reporting: Collection[str]) -> _Patch:
    """Return the patch for labels and annotations, empty if they are up to date.

    :param node: the node object.
    :param reports: the reports of plugins that responded, by plugin.
    :param reporting: names of all plugins that report.
    """
    metadata = node.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    before = _recorded(annotations, _labels_key())
    known = {key for keys in before.values() for key in keys}
    after = {plugin: keys for plugin, keys in before.items() if plugin in reporting and plugin not in reports}
    desired: dict[str, str] = {}
    for plugin, report in reports.items():
        own = {key: value for key, value in report.labels.items() if key in known or key not in labels}
        desired |= own
        after[plugin] = sorted(own)
    kept = {key for keys in after.values() for key in keys}
    changed: dict[str, str | None] = {key: value for key, value in desired.items() if labels.get(key) != value}
    changed |= dict.fromkeys(sorted((known - kept) & labels.keys()))
    noted: dict[str, str | None] = {}
    for report in reports.values():
        noted |= {key: value for key, value in report.annotations.items() if annotations.get(key) != value}
    noted |= _record(annotations, _labels_key(), after)
    patch: _Patch = {}
    if changed:
        patch["labels"] = changed
    if noted:
        patch["annotations"] = noted
    return {"metadata": patch} if patch else {}


def taints_patch(node: Mapping[str, Any], reports: Mapping[str, NodeReport], reporting: Collection[str]) -> _Patch:
    """Return the patch for taints, empty if they are up to date; it fails if the node has been changed since.

    :param node: the node object.
    :param reports: the reports of plugins that responded, by plugin.
    :param reporting: names of all plugins that report.
    """
    metadata = node.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    current = [dict(taint) for taint in (node.get("spec") or {}).get("taints") or ()]
    present = {_identity(taint) for taint in current}
    before = _recorded(annotations, _taints_key())
    known = {each for ids in before.values() for each in ids}
    after = {plugin: ids for plugin, ids in before.items() if plugin in reporting and plugin not in reports}
    desired: dict[str, dict[str, str]] = {}
    for plugin, report in reports.items():
        plain = [{"key": each.key, "value": each.value, "effect": each.effect} for each in report.taints]
        own = {_identity(each): {name: text for name, text in each.items() if text} for each in plain}
        own = {key: each for key, each in own.items() if key in known or key not in present}
        desired |= own
        after[plugin] = sorted(own)
    kept = {each for ids in after.values() for each in ids}
    taints = [_updated(each, desired) for each in current if _identity(each) not in known or _identity(each) in kept]
    taints += [each for key, each in desired.items() if key not in present]
    noted = _record(annotations, _taints_key(), after)
    patch: _Patch = {"spec": {"taints": taints}} if taints != current else {}
    if noted:
        patch["metadata"] = {"annotations": noted}
    if "spec" in patch and (version := metadata.get("resourceVersion")):
        patch.setdefault("metadata", {})["resourceVersion"] = version
    return patch


def with_reports(node: Mapping[str, Any], reports: Mapping[str, NodeReport]) -> dict[str, Any]:
    """Return a node that is not registered yet with the metadata and taints of *reports*."""
    for patch in (metadata_patch(node, reports, reports), taints_patch(node, reports, reports)):
        node = _merged(node, patch)
    return dict(node)


def _updated(taint: dict[str, Any], desired: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """Return *taint* with the desired value; other fields such as ``timeAdded`` are kept while it is unchanged."""
    new = desired.get(_identity(taint))
    return taint if new is None or new.get("value", "") == taint.get("value", "") else new


def _identity(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


def _recorded(annotations: Mapping[str, str], key: str) -> dict[str, list[str]]:
    try:
        document = json.loads(annotations.get(key) or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {plugin: [each for each in keys if isinstance(each, str)] for plugin, keys in document.items() if keys}


def _record(annotations: Mapping[str, str], key: str, owned: Mapping[str, Collection[str]]) -> dict[str, str | None]:
    """Return the change of the annotation *key* for the names that each plugin owns."""
    text = json.dumps({plugin: list(names) for plugin, names in sorted(owned.items()) if names}, sort_keys=True)
    value = None if text == "{}" else text
    return {} if annotations.get(key) == value else {key: value}


def _merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key) or {}, value) if isinstance(value, Mapping) else value
    return result


def _labels_key() -> str:
    return identity.current().label("reported-labels", "nodeagent")


def _taints_key() -> str:
    return identity.current().label("reported-taints", "nodeagent")
