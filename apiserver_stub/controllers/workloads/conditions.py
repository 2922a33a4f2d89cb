"""Conditions in the status of workload kinds. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object


def find(conditions: Sequence[Object] | None, kind: str) -> Object | None:
    """Return the condition of the type *kind*."""
    return next((item for item in conditions or () if item.get("type") == kind), None)


def with_condition(conditions: Sequence[Object] | None, new: Object) -> list[Object]:
    """Return *conditions* with *new*; one with the same status and reason is unchanged.

    A condition whose status does not change keeps its transition time.
    """
    old = find(conditions, new["type"])
    if old is not None and (old.get("status"), old.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions or ())
    if old is not None and old.get("status") == new["status"]:
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    return [*without(conditions, new["type"]), new]


def without(conditions: Sequence[Object] | None, kind: str) -> list[Object]:
    """Return *conditions* without that of the type *kind*."""
    return [item for item in conditions or () if item.get("type") != kind]
