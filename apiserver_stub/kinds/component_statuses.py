"""ComponentStatuses: deprecated report of the health of control plane components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.columns import NAME
from apiserver_stub.kinds.registry import Column, Deprecation, Resource

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "ComponentStatus",
            "componentstatuses",
            namespaced=False,
            short_names=("cs",),
            verbs=("get", "list"),
            deprecation=Deprecation("1.19"),
            columns=(
                NAME,
                Column("Status", _status, description="Health of the component."),
                Column("Message", lambda obj: _healthy(obj).get("message") or "", description="Message of the check."),
                Column("Error", lambda obj: _healthy(obj).get("error") or "", description="Error of the check."),
            ),
        )
    ]


def _healthy(obj: Object) -> Object:
    conditions = obj.get("conditions") or ()
    found: Object = next((item for item in conditions if item.get("type") == "Healthy"), {})
    return found


def _status(obj: Object) -> str:
    condition = _healthy(obj)
    return "Unknown" if not condition else "Healthy" if condition.get("status") == "True" else "Unhealthy"
