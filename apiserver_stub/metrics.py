"""A few numbers about the server in the text format that collectors read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from apiserver_stub.request import RequestInfo

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_VERBS = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self.watches = 0
        self._requests: Counter[tuple[str, str, str, str, str, int]] = Counter()

    def count(self, info: RequestInfo, method: str, code: int) -> None:
        """Count one answered request."""
        verb = _VERBS.get(info.verb, method) if info.is_resource else method
        self._requests[verb, info.group, info.version, info.resource, info.subresource, code] += 1

    def render(self, server: ApiServer) -> str:
        """Return everything as text."""
        lines = [
            "# HELP apiserver_request_total Counter of apiserver requests by verb, resource and HTTP code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, group, version, resource, subresource, code), count in sorted(self._requests.items()):
            labels = f'code="{code}",group="{group}",resource="{resource}",subresource="{subresource}"'
            lines.append(f'apiserver_request_total{{{labels},verb="{verb}",version="{version}"}} {count}')
        lines += [
            "# HELP apiserver_longrunning_requests Gauge of all active long-running requests.",
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {self.watches}',
            "# HELP apiserver_storage_objects Number of stored objects by kind.",
            "# TYPE apiserver_storage_objects gauge",
        ]
        counted: dict[str, str] = {}
        for resource_ in server.registry:
            if "list" in resource_.verbs:
                name = f"{resource_.plural}.{resource_.group}" if resource_.group else resource_.plural
                counted.setdefault(resource_.storage, name)
        for storage, name in sorted(counted.items(), key=lambda item: item[1]):
            lines.append(f'apiserver_storage_objects{{resource="{name}"}} {len(server.store.collection(storage))}')
        return "\n".join(lines) + "\n"
