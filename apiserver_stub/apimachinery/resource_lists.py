"""Resource lists: quantities by resource name, and the total requests and limits of pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.quantity import Quantity

Amounts = dict[str, Quantity]
HUGE_PAGES = "hugepages-"


def read(resource_list: Mapping[str, object] | None) -> Amounts:
    """Return the parsed resource list, without invalid quantities, which validation rejects."""
    result = {}
    for name, text in (resource_list or {}).items():
        try:
            result[name] = Quantity.parse(str(text))
        except ValueError:
            continue
    return result


def write(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add *more* to *total*."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: Amounts, floor: Mapping[str, Quantity]) -> None:
    """Raise *total* to *floor* where it is lower."""
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def is_pod_level(name: str) -> bool:
    """Return whether pods can have their own requests and limits of the resource *name*."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def has_pod_level(spec: Object) -> bool:
    """Return whether the pod has its own requests or limits."""
    resources = spec.get("resources") or {}
    return any(is_pod_level(name) for member in ("requests", "limits") for name in resources.get(member) or ())


def of_pod(spec: Object, member: str) -> Amounts:
    """Return the ``requests`` or ``limits`` of a pod: its pod-level ones, otherwise the total of its containers."""
    own = read((spec.get("resources") or {}).get(member))
    return of_containers(spec, member) | {name: amount for name, amount in own.items() if is_pod_level(name)}


def of_containers(spec: Object, member: str) -> Amounts:
    """Return the total ``requests`` or ``limits`` of the containers; init containers but sidecars run in sequence."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, of_container(container, member))
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = of_container(container, member)
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            add(amounts, sidecars)
        raise_to(highest, amounts)
    raise_to(total, highest)
    return total


def of_container(container: Object, member: str) -> Amounts:
    return read((container.get("resources") or {}).get(member))


def shown(amounts: Mapping[str, Quantity], names: Iterable[str] | None = None) -> str:
    """Return *amounts* as text like ``cpu=1,pods=2``, sorted by name."""
    chosen = sorted(amounts if names is None else set(names) & amounts.keys())
    return ",".join(f"{name}={amounts[name]}" for name in chosen)
