"""The API server as the target of recorded requests, without connections."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from apiserver_stub.authz import Chain
from apiserver_stub.options import parse
from apiserver_stub.server.admission import build_admission
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.service_ranges import prepare_service_ranges
from apiserver_stub.server.verb_settings import verb_settings
from nodeagent.base.aio import SystemClock
from tests.differential.client import Response
from tests.unit.apiserver_stub.api import Api
from tests.unit.apiserver_stub.authz.conftest import Memory


class InProcessServer:
    """Server with the default admission plugins; controllers do not run.

    It replaces the connection of :class:`tests.differential.runner.Target` too.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    async def start(self) -> InProcessServer:
        options = parse(self._arguments)
        store: Any = Memory()
        registry, authorizer, stack = build_registry(options), Chain([]), AsyncExitStack()
        # Instead of controllers and webhooks.
        absent: Any = SimpleNamespace(start=_discard, with_users=lambda users: None)
        admission = await build_admission(options, store, registry, authorizer, "", stack, absent, absent, absent)
        self._api = Api(
            *self._arguments,
            admission=admission,
            settings=verb_settings(options),
            registry=registry,
            authorizer=authorizer,
            store=store,
        )
        await prepare_service_ranges(store, registry, options.identity, None, SystemClock())
        return self

    def connect(self) -> InProcessServer:
        return self

    def close(self) -> None:
        pass

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the response to a request of an administrator; code 0 for a watch."""
        if "watch=" in path.partition("?")[2]:
            return Response(0, None, ())
        sent = {"Content-Type": "application/json", **(headers or {})}
        response = await self._api.request(method, path, body, content_type=sent.pop("Content-Type"), **sent)
        warnings = tuple(response.headers.getall("Warning", []))
        try:
            content = response.obj
        except ValueError:
            content = response.body
        return Response(response.code, content, warnings)


def _discard(work: Coroutine[Any, Any, None], name: str) -> None:
    work.close()
