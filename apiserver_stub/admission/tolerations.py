"""Tolerations: coverage, merging and extended resources. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object


def is_extended(name: str, label_domain: str) -> bool:
    """Return whether *name* is an extended resource: qualified by a domain other than *label_domain*."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not name.startswith("requests.") and not f"{domain}/".endswith(f"{label_domain}/")


def merged(first: Sequence[Object], second: Sequence[Object]) -> list[Object]:
    """Merge both lists, without the tolerations that another one covers."""
    every = [*first, *second]
    result: list[Object] = []
    for index, item in enumerate(every):
        if any(covers(other, item) for other in result):
            continue
        if any(other != item and covers(other, item) for other in every[index + 1 :]):
            continue
        result.append(item)
    return result


def covers(wide: Object, narrow: Object) -> bool:
    """Return whether *wide* tolerates every taint that *narrow* tolerates."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    key = wide.get("key") or ""
    if key != (narrow.get("key") or "") and (key or operator != "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and effect != (narrow.get("effect") or ""):
        return False
    wide_seconds, narrow_seconds = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if effect == "NoExecute" and wide_seconds is not None and (narrow_seconds is None or narrow_seconds > wide_seconds):
        return False
    if operator == "Equal":  # As upstream, an unset operator of *narrow* is not Equal here.
        return narrow.get("operator") == "Equal" and (narrow.get("value") or "") == (wide.get("value") or "")
    return operator == "Exists"
