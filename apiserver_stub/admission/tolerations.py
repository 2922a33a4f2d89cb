"""Tolerations: coverage and merging of lists. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base import identity

_NATIVE = f"{identity.current().label_domain}/"


def is_extended(name: str) -> bool:
    """Return whether *name* is a resource that somebody's plugin provides."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not name.startswith("requests.") and not f"{domain}/".endswith(_NATIVE)


def merged(first: Sequence[Object], second: Sequence[Object]) -> list[Object]:
    """Return both lists as one in which no toleration is part of another."""
    every = [*first, *second]
    found: list[Object] = []
    for index, item in enumerate(every):
        if any(covers(other, item) for other in found):
            continue
        if any(other != item and covers(other, item) for other in every[index + 1 :]):
            continue
        found.append(item)
    return found


def covers(wide: Object, narrow: Object) -> bool:
    """Return whether *wide* tolerates all that *narrow* does."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    key = wide.get("key") or ""
    if key != (narrow.get("key") or "") and (key or operator != "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and effect != (narrow.get("effect") or ""):
        return False
    seconds, wanted = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None and (wanted is None or wanted > seconds):
        return False
    if operator == "Equal":  # As upstream, an unset operator of the narrow one is not the same as Equal here.
        return narrow.get("operator") == "Equal" and (narrow.get("value") or "") == (wide.get("value") or "")
    return operator == "Exists"
