"""Amounts of resources by name, and what pods ask for as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.quantity import Quantity

Amounts = dict[str, Quantity]


def read(given: Mapping[str, object] | None) -> Amounts:
    """Return *given* as amounts; what is no quantity is left out, as the rules of its kind refuse it."""
    found = {}
    for name, text in (given or {}).items():
        try:
            found[name] = Quantity.parse(str(text))
        except ValueError:
            continue
    return found


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


def of_pod(spec: Object, member: str) -> Amounts:
    """Return the ``requests`` or ``limits`` of all containers together, as they run: init containers one by one."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, of_container(container, member))
    beside: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = of_container(container, member)
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(beside, amounts)
            amounts = dict(beside)
        else:
            add(amounts, beside)
        raise_to(highest, amounts)
    raise_to(total, highest)
    return total


def of_container(container: Object, member: str) -> Amounts:
    return read((container.get("resources") or {}).get(member))


def shown(amounts: Mapping[str, Quantity], names: Iterable[str] | None = None) -> str:
    """Return ``cpu=1,pods=2``, in order of name."""
    chosen = sorted(amounts if names is None else set(names) & amounts.keys())
    return ",".join(f"{name}={amounts[name]}" for name in chosen)
