"""Status of a StorageVersion: the versions of the servers, and whether they encode objects in the same one. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.storage_versions import common_version

_AGREEMENT = "AllEncodingVersionsEqual"


def with_entry(status: Object, entry: Object, now: str) -> Object:
    """Return *status* with *entry* as the versions of its server.

    :param now: time of the transition of the condition, if it changes.
    """
    entries, server = list(status.get("storageVersions") or []), entry["apiServerID"]
    index = next((index for index, item in enumerate(entries) if item.get("apiServerID") == server), len(entries))
    entries[index : index + 1] = [entry]
    return with_entries(status, entries, now)


def with_entries(status: Object, entries: Sequence[Object], now: str) -> Object:
    """Return *status* with *entries* as the versions of the servers."""
    common, before = common_version(entries), status.get("commonEncodingVersion")
    set_ = "Set" if common is not None else "Unset"
    condition: Object = {
        "type": _AGREEMENT,
        "status": "True" if common is not None else "False",
        "lastTransitionTime": now,
        "reason": f"CommonEncodingVersion{set_}",
        "message": f"Common encoding version {set_.lower()}",
    }
    conditions = list(status.get("conditions") or [])
    index = next((index for index, item in enumerate(conditions) if item.get("type") == _AGREEMENT), len(conditions))
    old = conditions[index] if index < len(conditions) else {}
    changed = common is not None and before is not None and common != before
    if old.get("status") == condition["status"] and not changed:
        condition["lastTransitionTime"] = old.get("lastTransitionTime")
    conditions[index : index + 1] = [condition]
    others = {name: value for name, value in status.items() if name != "commonEncodingVersion"}
    agreed = {} if common is None else {"commonEncodingVersion": common}
    return {**others, "storageVersions": list(entries), **agreed, "conditions": conditions}
