"""Observed generations in the status of pods. No I/O."""

from __future__ import annotations

from collections import defaultdict

from apiserver_stub.apimachinery.objects import Object

_FIELD = "observedGeneration"


def keep_observed_generations(new: Object, old: Object) -> None:
    """Set the observed generations that the status of *new* lacks to those of *old*; nodes may not clear them."""
    after, before = new.get("status"), old.get("status") or {}
    if not after:
        return
    after = new["status"] = {**after}
    if not after.get(_FIELD) and before.get(_FIELD):
        after[_FIELD] = before[_FIELD]
    stored: dict[str | None, list[int]] = defaultdict(list)
    for condition in before.get("conditions") or ():
        stored[condition.get("type")].append(condition.get(_FIELD) or 0)
    conditions = []
    for condition in after.get("conditions") or ():
        known = stored[condition.get("type")]
        generation = known.pop(0) if known else 0
        kept = {_FIELD: generation} if generation and not condition.get(_FIELD) else {}
        conditions.append({**condition, **kept})
    if conditions:
        after["conditions"] = conditions
