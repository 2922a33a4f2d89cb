"""Defaults of limit ranges: a container's default limits and requests follow its maximum and minimum."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults


def _container_amounts(item: Object) -> None:
    if item.get("type") != "Container":
        return
    most, least = item.get("max") or {}, item.get("min") or {}
    limits = {**most, **(item.get("default") or {})}
    requests = {**least, **limits, **(item.get("defaultRequest") or {})}
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


LIMIT_RANGE = Defaults(below={"spec": Defaults(below={"limits": Defaults(rule=_container_amounts)})})
