"""Admission chain: call the plugins that match a request, in order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from apiserver_stub.admission.manifest_reloads import ManifestReloads
from apiserver_stub.admission.metrics import AdmissionMetrics, Durations
from apiserver_stub.admission.plugin import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.gointeger import parse_digits

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_Step = Callable[[AdmissionRequest], Awaitable[None]]


class _Phase:
    """The plugins of a phase, with their durations."""

    __slots__ = ("durations", "steps")

    def __init__(self, durations: Durations, steps: Sequence[tuple[_Step, Durations]]) -> None:
        self.durations, self.steps = durations, steps

    async def run(self, call: AdmissionRequest) -> None:
        started = at = time.perf_counter()
        for step, durations in self.steps:
            try:
                await step(call)
            except ApiError:
                now = time.perf_counter()
                durations.rejected.observe(now - at)
                self.durations.rejected.observe(now - started)
                raise
            now = time.perf_counter()
            durations.accepted.observe(now - at)
            at = now
        self.durations.accepted.observe(at - started)


class AdmissionChain:
    """The enabled plugins, with a cache of those that handle each kind of request."""

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin] = (),
        manifest_reloads: ManifestReloads | None = None,
        metrics: AdmissionMetrics | None = None,
    ) -> None:
        self.plugins = list(plugins)
        self.manifest_reloads = manifest_reloads or ManifestReloads()
        self.metrics = metrics or AdmissionMetrics()
        # Weak, as the resources of custom resource definitions are replaced with each change of these.
        self._chains: WeakKeyDictionary[Resource, dict[tuple[str, str], tuple[_Phase, _Phase]]] = WeakKeyDictionary()

    async def admit(self, call: AdmissionRequest) -> None:
        """Call the mutating plugins, and call them again if a webhook changed the object (reinvocation).

        :raises ApiError: a plugin rejects the request.
        """
        mutating = self._phases(call)[0]
        await mutating.run(call)
        if call.reinvoke:
            call.reinvoking = True
            await mutating.run(call)

    async def validate(self, call: AdmissionRequest) -> None:
        """Call the validating plugins on the mutated object.

        :raises ApiError: a plugin rejects the request.
        """
        await self._phases(call)[1].run(call)

    async def check(self, call: AdmissionRequest) -> None:
        """Call :meth:`admit`, then :meth:`validate`.

        :raises ApiError: a plugin rejects the request.
        """
        await self.admit(call)
        await self.validate(call)

    async def connect(self, request: Request, resource: Resource) -> None:
        """Admit a connection (exec, attach, portforward, proxy); other subresources are not checked.

        :raises ApiError: a plugin rejects the request.
        """
        info = request.info
        subresource = resource.subresource(info.subresource)
        if subresource is None or not subresource.kind:
            return
        options: Object = {"kind": subresource.kind, "apiVersion": subresource.version or resource.version}
        query = request.query
        options |= {name: True for name in _STREAMS if query.flag(name)}
        options |= {name: value for name in ("container", "path") if (value := query.get(name))}
        if command := query.all("command"):
            options["command"] = command
        if ports := [port for port in map(parse_digits, query.all("ports")) if port is not None]:
            options["ports"] = ports
        await self.check(AdmissionRequest("CONNECT", request, resource, options, name=info.name))

    def _phases(self, call: AdmissionRequest) -> tuple[_Phase, _Phase]:
        chains = self._chains.setdefault(call.resource, {})
        key = (call.operation, call.subresource)
        phases = chains.get(key)
        if phases is None:
            matching = [plugin for plugin in self.plugins if plugin.concerns(call.resource, *key)]
            phases = chains[key] = self._phase("admit", matching, call), self._phase("validate", matching, call)
        return phases

    def _phase(self, name: str, plugins: Sequence[AdmissionPlugin], call: AdmissionRequest) -> _Phase:
        steps = [
            (getattr(plugin, name), self.metrics.plugin(plugin.name or type(plugin).__name__, name, call.operation))
            for plugin in plugins
            if _has(plugin, name)
        ]
        return _Phase(self.metrics.phase(name, call.operation), steps)


def _has(plugin: AdmissionPlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
