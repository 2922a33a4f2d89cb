"""Taints of devices: those in resource slices and those of DeviceTaintRules, and their tolerations. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object

NO_EXECUTE = "NoExecute"
_BLOCKING = ("NoSchedule", NO_EXECUTE)


def repels(taint: Object, tolerations: Sequence[Object]) -> bool:
    """Return whether *taint* prevents the allocation of a device to a request with *tolerations*."""
    return taint.get("effect") in _BLOCKING and not any(tolerates(item, taint) for item in tolerations)


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether *toleration* matches *taint*."""
    for name in ("effect", "key"):
        if toleration.get(name) and toleration[name] != taint.get(name):
            return False
    if toleration.get("operator") == "Exists":
        return True
    return bool((toleration.get("value") or "") == (taint.get("value") or ""))


def selects(rule: Object, driver: str, pool: str, device: str) -> bool:
    """Return whether the selector of *rule* matches a device; without one, none is selected."""
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return False
    expected = {"driver": driver, "pool": pool, "device": device}
    return all(selector.get(name) in (None, value) for name, value in expected.items())


def with_rules(slices: Iterable[Object], rules: Collection[Object]) -> Iterator[Object]:
    """Yield *slices* whose devices have the taints of *rules* as well."""
    for item in slices:
        spec = item.get("spec") or {}
        driver, pool = spec.get("driver") or "", (spec.get("pool") or {}).get("name") or ""
        devices = []
        for device in spec.get("devices") or ():
            added = [rule["spec"]["taint"] for rule in rules if selects(rule, driver, pool, device.get("name") or "")]
            devices.append({**device, "taints": [*(device.get("taints") or ()), *added]} if added else device)
        yield {**item, "spec": {**spec, "devices": devices}} if rules else item
