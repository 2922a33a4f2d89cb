"""Tolerations that pods get without asking, and how lists of them combine."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.reading import containers
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_NATIVE = f"{identity.current().label_domain}/"


class DefaultTolerationSeconds(AdmissionPlugin):
    """Lets pods stay for a while on a node that is not ready or unreachable, unless they say otherwise.

    spec: admission.DefaultTolerationSeconds, opt.default-not-ready-toleration-seconds,
    opt.default-unreachable-toleration-seconds
    """

    name = "DefaultTolerationSeconds"
    resources = ("pods",)

    def __init__(self, not_ready_seconds: int, unreachable_seconds: int) -> None:
        self._seconds = {
            identity.current().label("not-ready", "node"): not_ready_seconds,
            identity.current().label("unreachable", "node"): unreachable_seconds,
        }

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        tolerations = list(spec.get("tolerations") or ())
        for key, seconds in self._seconds.items():
            if not any(
                item.get("key") in (None, "", key) and item.get("effect") in (None, "", "NoExecute")
                for item in tolerations
            ):
                toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append({**toleration, "tolerationSeconds": seconds})
        spec["tolerations"] = tolerations


class ExtendedResourceToleration(AdmissionPlugin):
    """Lets pods run on nodes that are kept for an extended resource which they ask for.

    spec: admission.ExtendedResourceToleration
    """

    name = "ExtendedResourceToleration"
    resources = ("pods",)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        wanted = {
            name
            for _, container in containers(spec, "initContainers", "containers")
            for name in (container.get("resources") or {}).get("requests") or ()
            if is_extended(name)
        }
        more: list[Object] = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(wanted)]
        if more:
            given = list(spec.get("tolerations") or ())
            known = [(item.get("key"), item.get("operator"), item.get("effect")) for item in given]
            spec["tolerations"] = given + [
                item for item in more if (item["key"], item["operator"], item["effect"]) not in known
            ]


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
