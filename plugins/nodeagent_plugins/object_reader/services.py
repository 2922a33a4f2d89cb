"""Service cache, for the environment variables of containers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent.contracts.api import SERVICES, Api, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import ApiUnavailable
from nodeagent_plugins.object_reader.first_read import FirstRead

if TYPE_CHECKING:
    from nodeagent.contracts.context import NodeContext

_KEPT = ("clusterIP", "clusterIPs", "ports", "type")


class Services:
    """Watches all services from the first pod on; caches the fields for environment variables."""

    def __init__(self, context: NodeContext, api: Api) -> None:
        self._context, self._api = context, api
        self._first_read = FirstRead(context.clock)
        self._by_namespace: dict[str, dict[str, dict[str, Any]]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching; idempotent."""
        if self._task is None:
            self._task = self._context.tasks.start(self._follow(), "watch/services")

    async def get(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the services of *namespace*.

        :raises ApiUnavailable: the first list has not completed.
        """
        self.start()
        try:
            await self._first_read.wait()
        except ApiUnavailable as error:
            text = "services have not yet been read at least once, cannot construct environment variables"
            raise ApiUnavailable(f"{text}: {error}") from None
        return list(self._by_namespace.get(namespace, {}).values())

    async def _follow(self) -> None:
        await follow(
            self._api,
            SERVICES,
            "",
            clock=self._context.clock,
            listed=self._replace,
            changed=self._change,
            failed=self._first_read.fail,
        )

    def _replace(self, services: list[dict[str, Any]]) -> None:
        self._by_namespace = {}
        for service in services:
            self._put(service)
        self._first_read.succeed()

    def _change(self, event: WatchEvent[dict[str, Any]]) -> None:
        if event.type is WatchType.DELETED:
            namespace, name = _key(event.object)
            self._by_namespace.get(namespace, {}).pop(name, None)
        else:
            self._put(event.object)

    def _put(self, service: dict[str, Any]) -> None:
        namespace, name = _key(service)
        spec = service.get("spec") or {}
        self._by_namespace.setdefault(namespace, {})[name] = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {key: spec[key] for key in _KEPT if key in spec},
        }


def _key(service: dict[str, Any]) -> tuple[str, str]:
    metadata = service.get("metadata") or {}
    return metadata.get("namespace", ""), metadata.get("name", "")
