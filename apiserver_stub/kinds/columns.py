"""Columns that most kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.kinds.registry import Column
from apiserver_stub.kinds.tables import age

_SHOWN = 3


def name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


NAME = Column("Name", name, description="Name of the object, unique within its namespace.", format="name")
AGE = Column("Age", age, description="Time since the object was created.")
CREATED_AT = Column(
    "Created At",
    lambda obj: obj["metadata"].get("creationTimestamp"),
    type="date",
    description="When the object was created.",
)


def at(
    title: str, path: str, *, type: str = "string", wide: bool = False, default: Any = "<none>", format: str = ""
) -> Column:
    """Return a column with the value of the field at *path* (dotted)."""
    parts = tuple(path.split("."))

    def cell(obj: Object) -> Any:
        value = dig(obj, parts)
        return default if value is None else value

    return Column(title, cell, type=type, wide=wide, description=f"Value of {path}.", format=format)


def first_three(texts: Sequence[str]) -> str:
    """Return the first three of *texts* and the number of the others."""
    shown = ",".join(texts[:_SHOWN])
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown


def load_balancer_addresses(obj: Object) -> list[str]:
    """Return the sorted addresses of the load balancer of *obj*, or host names where it has no address."""
    points = dig(obj, ("status", "loadBalancer", "ingress")) or ()
    return sorted({address for point in points if (address := point.get("ip") or point.get("hostname"))})
