"""Defaults of flow schemas and priority levels."""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults


def _instead_of_zero(**values: int) -> Callable[[Object], None]:
    """Return a rule for fields whose zero value means that they are not set."""

    def rule(obj: Object) -> None:
        obj |= {name: value for name, value in values.items() if not obj.get(name)}

    return rule


FLOW_SCHEMA = Defaults(below={"spec": Defaults(rule=_instead_of_zero(matchingPrecedence=1000))})

_QUEUING = Defaults(rule=_instead_of_zero(queues=64, handSize=8, queueLengthLimit=50))
_LIMITED = Defaults(
    {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    below={"limitResponse": Defaults(below={"queuing": _QUEUING})},
)
_EXEMPT = Defaults({"nominalConcurrencyShares": 0, "lendablePercent": 0})
PRIORITY_LEVEL = Defaults(below={"spec": Defaults(below={"limited": _LIMITED, "exempt": _EXEMPT})})
