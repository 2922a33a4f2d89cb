"""The API server as the target of recorded requests, in process and without a network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN, negotiate
from apiserver_stub.apimachinery.request import Query, Request, User, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authz import Chain
from apiserver_stub.options import parse
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.server.admission import build_admission
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.service_ranges import prepare_service_ranges
from apiserver_stub.server.verb_settings import verb_settings
from apiserver_stub.subresources.bundled import bundled_handlers
from apiserver_stub.verbs.context import VerbContext
from tests.differential.client import Response
from tests.unit.apiserver_stub.authz.conftest import Memory

ADMIN = User("admin", "admin", ("system:masters", "system:authenticated"))


class InProcessServer:
    """Verbs, subresources and admission plugins over a store in memory; controllers do not run.

    It replaces the connection of :class:`tests.differential.runner.Target` too.
    """

    def __init__(self, *arguments: str) -> None:
        self._options = parse(arguments)
        self._registry = build_registry(self._options)

    async def start(self) -> InProcessServer:
        options, registry, authorizer, stack = self._options, self._registry, Chain([]), AsyncExitStack()
        store: Any = Memory()
        # Instead of controllers, webhooks and tokens.
        absent: Any = SimpleNamespace(start=_discard, with_users=lambda users: None, review=_no_user)
        admission = await build_admission(options, store, registry, authorizer, "", stack, absent, absent, absent)
        context = VerbContext(store, admission, verb_settings(options))
        handlers = bundled_handlers(
            context,
            registry,
            options.gates,
            options.identity,
            authenticator=absent,
            authorizer=authorizer,
            tokens=absent,
            component_checks=dict,
            translations=Counter(),
        )
        self._dispatcher = Dispatcher(context, handlers, [], _fill_nothing)
        await prepare_service_ranges(store, registry, options.identity, None)
        return self

    def connect(self) -> InProcessServer:
        return self

    def close(self) -> None:
        pass

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the response to a request of an administrator; code 0 for a watch."""
        path, _, parameters = path.partition("?")
        query = Query(parameters)
        info = parse_path(method, path, query)
        if info.verb == "watch":
            return Response(0, None, ())
        sent_body = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        identity, resource = self._options.identity, self._registry.find(info.group, info.version, info.resource)
        request = Request(method, info, query, sent, sent_body, ADMIN, PLAIN, identity)
        accepted = {"protobuf": False, "tables": resource is not None and resource.has_table(info.subresource)}
        try:
            request.format = negotiate(sent.get("Accept", ""), identity, watch=False, **accepted)
            rendered = await self._dispatcher.dispatch(request, resource)
        except ApiError as error:
            code, content = error.code, error.body()
        else:
            code, content = rendered.code, objects.decode(b"".join(rendered.pieces))
        warnings = (f"299 - {json.dumps(text, ensure_ascii=False)}" for text in request.warnings)
        return Response(code, content, tuple(warnings))


def _discard(work: Coroutine[Any, Any, None], name: str) -> None:
    work.close()


async def _no_user(token: str, audiences: Sequence[str]) -> None:
    pass


async def _fill_nothing(namespace: str) -> None:
    pass
