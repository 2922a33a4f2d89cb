"""API server without connections: the request handler over a store in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.apimachinery.request import User
from apiserver_stub.authz import Chain
from apiserver_stub.kinds import Registry
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import parse
from apiserver_stub.pipeline.authorization import Authorization
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.pipeline.handler import RequestHandler
from apiserver_stub.pipeline.limits import Limits, LimitSettings
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.pipeline.watch_response import WatchResponder
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.subresources.bundled import bundled_handlers
from apiserver_stub.verbs.context import UnsafeDeletions, VerbContext, VerbSettings
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

ADMIN = User("admin", "admin", ("system:masters", "system:authenticated"))
Object = dict[str, Any]


class Response:
    """Response to a request."""

    def __init__(self, http: FakeHttpRequest) -> None:
        self.code, self.headers, self.body = http.status, http.sent_headers, http.sent

    @property
    def obj(self) -> Any:
        """The JSON value of the body."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """Message of a Status."""
        return str(self.obj.get("message") or "")

    @property
    def names(self) -> list[str]:
        """Names of the objects in a list."""
        return [item["metadata"]["name"] for item in self.obj["items"]]

    @property
    def events(self) -> list[tuple[str, Object]]:
        """Type and object of each event of a watch."""
        return [(item["type"], item["object"]) for item in map(json.loads, self.body.splitlines())]

    @property
    def warnings(self) -> list[str]:
        return [text.partition('"')[2].removesuffix('"') for text in self.headers.getall("Warning", [])]


class Api:
    """The server with *arguments*; every client is an administrator unless *user* is set."""

    def __init__(
        self,
        *arguments: str,
        plugins: Sequence[AdmissionPlugin] = (),
        admission: AdmissionChain | None = None,
        registry: Registry | None = None,
        settings: VerbSettings | None = None,
        authorizer: Chain | None = None,
        release: str = "",
        store: Memory | None = None,
        unsafe_deletions: UnsafeDeletions | None = None,
        **handler: Any,
    ) -> None:
        options = parse([*arguments, *([f"--compatibility-version={release}"] if release else [])])
        self.store: Any = store or Memory()
        self.user, admission = ADMIN, admission or AdmissionChain(plugins)
        self.registry, self.lifecycle = registry or build_registry(options), Lifecycle()
        self.context = VerbContext(self.store, admission, settings or VerbSettings(), unsafe_deletions)
        self.filled: list[str] = []
        """Namespaces whose default objects were created."""
        self.metrics = RequestMetrics()
        chain, authenticator = authorizer or Chain([]), handler.pop("authenticator", self)
        handlers = bundled_handlers(
            self.context,
            self.registry,
            options.gates,
            options.identity,
            authenticator=authenticator,
            authorizer=chain,
            tokens=handler.pop("tokens", None),
            component_checks=dict,
            translations=self.metrics.translations,
        )
        dispatcher = Dispatcher(self.context, handlers, handler.pop("endpoints", ()), self._fill)
        self.limits = Limits(handler.pop("limits", LimitSettings()), dispatcher, self.metrics)
        self.handler = RequestHandler(
            identity=options.identity,
            lifecycle=self.lifecycle,
            authenticator=authenticator,
            authorization=Authorization(chain, self.metrics, options.identity, constrains=False),
            audit=handler.pop("audit", None),
            registry=self.registry,
            remotes=handler.pop("remotes", Remotes(options.identity)),
            admission=admission,
            dispatcher=dispatcher,
            limits=self.limits,
            watches=WatchResponder(self.context, self.lifecycle, self.metrics, None, 0),
            streams=handler.pop("streams", None),
            aggregation=handler.pop("aggregation", None),
            metrics=self.metrics,
            **handler,
        )

    async def authenticate(
        self, headers: Mapping[str, str], certificates: object, annotations: object, *, path: str
    ) -> User:
        return self.user

    async def _fill(self, namespace: str) -> None:
        self.filled.append(namespace)

    async def request(
        self, method: str, target: str, body: Any = None, *, content_type: str = "application/json", **headers: str
    ) -> Response:
        """Return the response to a request; underscores in names of *headers* are hyphens."""
        http = self.http(method, target, body, content_type=content_type, **headers)
        await self.handler.handle(http)
        return Response(http)

    def http(
        self, method: str, target: str, body: Any = None, *, content_type: str = "application/json", **headers: str
    ) -> FakeHttpRequest:
        fields = {"Content-Type": content_type, **{name.replace("_", "-"): text for name, text in headers.items()}}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return FakeHttpRequest(method, target, fields, content)

    async def get(self, target: str, **headers: str) -> Response:
        return await self.request("GET", target, **headers)

    async def create(self, target: str, body: Any, **headers: str) -> Object:
        """Create an object and return it."""
        response = await self.request("POST", target, body, **headers)
        assert response.code == 201, response.body
        found: Object = response.obj
        return found

    async def watch(self, target: str, *actions: tuple[str, str, Any], **headers: str) -> Response:
        """Return the events of a watch while *actions*, methods with paths and bodies, are performed."""
        http = self.http("GET", target, **headers)
        task = asyncio.ensure_future(self.handler.handle(http))
        await _turns()
        for method, path, body in actions:
            response = await self.request(method, path, body)
            assert response.code < 300, response.body
        await _turns()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return Response(http)


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def config_map(name: str, data: Mapping[str, str] | None = None, **labels: str) -> Object:
    """Return a ConfigMap."""
    metadata: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": dict(data or {})}
