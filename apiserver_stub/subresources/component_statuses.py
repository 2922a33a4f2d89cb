"""ComponentStatuses: the health of control plane components, determined when it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import not_found
from apiserver_stub.storage import Record
from apiserver_stub.verbs.lists import check_list_options, selection
from apiserver_stub.verbs.responses import Page, Reply
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource


class Finding(Struct, frozen=True):
    """Outcome of the check of a component."""

    healthy: bool | None
    """``None`` if the component cannot be checked."""
    message: str = ""
    error: str = ""


Check = Callable[[], Awaitable[Finding]]


class ComponentStatuses:
    """Handler of reads.

    :param checks: return the checks of the components by name.
    """

    def __init__(self, checks: Callable[[], Mapping[str, Check]]) -> None:
        self._checks = checks

    async def read(self, request: Request, resource: Resource) -> Reply:
        """Check one component or all of them.

        :raises ApiError: 404, there is no such component, for which upstream responds 500; 400, a selector is invalid.
        """
        checks = self._checks()
        if name := request.info.name:
            if name not in checks:
                raise not_found(resource.group, resource.plural, name)
            return Reply(200, record=_record(resource, name, await checks[name]()))
        chosen = selection(request, resource)
        check_list_options(request)
        findings = await asyncio.gather(*(check() for check in checks.values()))
        records = [_record(resource, name, finding) for name, finding in zip(checks, findings, strict=True)]
        kept = list(chosen.select(record for record in records if chosen.covers_key(record.key)))
        return Reply(200, page=Page(kept, {}))


def _record(resource: Resource, name: str, finding: Finding) -> Record:
    status = "Unknown" if finding.healthy is None else str(finding.healthy)
    condition = {"type": "Healthy", "status": status}
    condition |= {key: text for key, text in (("message", finding.message), ("error", finding.error)) if text}
    obj: Object = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"name": name},
        "conditions": [condition],
    }
    return Record(name, 0, objects.encode_for_store(obj))
