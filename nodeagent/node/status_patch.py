"""Patch of the node status from the reported to the current one. No I/O.

Servers of older releases drop fields that they do not define; such a field is not sent again with each status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.base.structs import Struct
from nodeagent.model.node import NodeStatus
from nodeagent.model.wire import to_wire

_SWAP = "swap"
_LATER_FIELDS = ("runtimeHandlers", "features", "declaredFeatures")
"""Fields that servers of older releases do not store, or store only partially."""


class StoredDifferently(Struct, frozen=True):
    """A field that the server stored with another value than the one sent."""

    sent: Any
    stored: Any


def status_patch(
    status: NodeStatus,
    reported: Mapping[str, Any],
    *,
    heartbeat: bool,
    runtime_known: bool = True,
    altered: Mapping[str, StoredDifferently] | None = None,
) -> dict[str, Any]:
    """Return the patch from the *reported* status to *status*; empty if nothing differs.

    Fields and conditions of other owners are left unchanged.

    :param heartbeat: always include the conditions, and fields in *altered*.
    :param runtime_known: the runtime has responded, so that features that it does not report are removed.
    :param altered: the result of :func:`altered_fields` for the last patch; these fields are not sent again.
    """
    desired: dict[str, Any] = to_wire(status)
    known_altered = {} if heartbeat else altered or {}
    patch: dict[str, Any] = {}
    known = {condition.get("type"): condition for condition in reported.get("conditions") or ()}
    changed = [
        c for c in desired["conditions"] if _without_heartbeat(known.get(c["type"], {})) != _without_heartbeat(c)
    ]
    if changed or heartbeat:
        patch["conditions"] = desired["conditions"]
    reported_capacity = reported.get("capacity") or {}
    desired["allocatable"] = {name: reported_capacity[name] for name in reported_capacity if "/" in name} | desired[
        "allocatable"
    ]
    for name in ("capacity", "allocatable"):
        if difference := _amounts_patch(desired[name], reported.get(name) or {}):
            patch[name] = difference
    if differing := _info_patch(desired["nodeInfo"], reported.get("nodeInfo") or {}, known_altered):
        patch["nodeInfo"] = differing
    for name in ("daemonEndpoints", "images"):
        if desired[name] and desired[name] != reported.get(name):
            patch[name] = desired[name]
    if not desired["images"] and reported.get("images"):
        patch["images"] = None
    if desired.get("addresses") and desired["addresses"] != reported.get("addresses"):
        # The merge key of this list is the type, which need not be unique.
        patch["addresses"] = [*desired["addresses"], {"$patch": "replace"}]
    # The list has no merge key, so that it is sent completely; an empty one has to be sent, too.
    if status.volumes_in_use is not None and status.volumes_in_use != (reported.get("volumesInUse") or []):
        patch["volumesInUse"] = status.volumes_in_use
    if runtime_known:
        patch |= _later_patch(desired, reported, _LATER_FIELDS, known_altered)
    if patch and "conditions" not in patch:
        patch["conditions"] = desired["conditions"]
    return {"status": patch} if patch else {}


def altered_fields(patch: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, StoredDifferently]:
    """Return the later fields of a sent *patch* whose values differ in the *stored* status."""
    sent = dict(patch.get("status") or {})
    pairs = {name: (sent[name], stored.get(name)) for name in _LATER_FIELDS if sent.get(name)}
    if swap := (sent.get("nodeInfo") or {}).get(_SWAP):
        pairs[_SWAP] = (swap, (stored.get("nodeInfo") or {}).get(_SWAP))
    return {name: StoredDifferently(*pair) for name, pair in pairs.items() if pair[0] != pair[1]}


def _info_patch(
    desired: dict[str, Any], reported: Mapping[str, Any], altered: Mapping[str, StoredDifferently]
) -> dict[str, Any]:
    plain = {name: value for name, value in desired.items() if name != _SWAP}
    return _differing(plain, reported) | _later_patch(desired, reported, (_SWAP,), altered)


def _later_patch(
    desired: Mapping[str, Any],
    reported: Mapping[str, Any],
    names: tuple[str, ...],
    altered: Mapping[str, StoredDifferently],
) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name in names:
        value, current = desired.get(name), reported.get(name)
        if not value:
            if current:
                patch[name] = None
        elif value != current and altered.get(name) != StoredDifferently(value, current):
            patch[name] = value
    return patch


def _amounts_patch(desired: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changed quantities; other components own extended resources (``example.com/dongle``)."""
    removed = (name for name in reported if name not in desired and "/" not in name)
    return {**_differing(desired, reported), **dict.fromkeys(removed, None)}


def _differing(desired: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that differ; a missing field equals an empty one, as protobuf omits those."""
    return {name: value for name, value in desired.items() if reported.get(name, "") != value}


def _without_heartbeat(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in condition.items() if key != "lastHeartbeatTime"}
