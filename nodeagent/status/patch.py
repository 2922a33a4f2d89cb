"""Minimal patch between two pod statuses. No I/O."""

from __future__ import annotations

from typing import Any

from nodeagent.model.pod import PodStatus
from nodeagent.model.resizing import ResizeCondition
from nodeagent.model.wire import to_wire

# Strategic merge patch merges these lists by key; without the directive, old entries would remain.
_REPLACED_LISTS = ("podIPs", "hostIPs")
# Fields of other components; a node must not change them.
_READ_ONLY = frozenset(["resourceClaimStatuses", "extendedResourceClaimStatus"])


def status_patch(uid: str, before: PodStatus, after: PodStatus) -> dict[str, Any] | None:
    """Return a strategic merge patch for the status subresource, or ``None`` if nothing differs.

    The UID is a precondition, so the server rejects the patch for another pod of the same name. Conditions are merged
    by type, so conditions of other owners are kept.
    """
    old, new = to_wire(before), to_wire(after)
    changes: dict[str, Any] = {}
    for key in (old.keys() | new.keys()) - _READ_ONLY:
        if old.get(key) == new.get(key):
            continue
        value = new.get(key)
        if key == "conditions":
            known = {condition["type"]: condition for condition in old.get(key) or ()}
            removed = [
                kind for kind in ResizeCondition if kind in known and all(c["type"] != kind for c in value or ())
            ]
            value = [_with_nulls(c, known.get(c["type"])) for c in value or () if known.get(c["type"]) != c]
            value += [{"type": kind.value, "$patch": "delete"} for kind in removed]
            if not value:
                continue
        elif key in _REPLACED_LISTS and value and old.get(key):
            value = [*value, {"$patch": "replace"}]
        changes[key] = value
    return {"metadata": {"uid": uid}, "status": changes} if changes else None


def _with_nulls(condition: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return *condition* with the fields that were removed since *before* set to null."""
    return {**dict.fromkeys(set(before or ()) - set(condition)), **condition}
