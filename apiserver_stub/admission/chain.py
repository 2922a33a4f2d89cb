"""Admission chain: call the plugins that match a request, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from apiserver_stub.admission.manifest_reloads import ManifestReloads
from apiserver_stub.admission.plugin import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.gointeger import parse_digits

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_Chain = tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]


class AdmissionChain:
    """The enabled plugins, with a cache of those that handle each kind of request."""

    def __init__(
        self, plugins: Sequence[AdmissionPlugin] = (), manifest_reloads: ManifestReloads | None = None
    ) -> None:
        self.plugins = list(plugins)
        self.manifest_reloads = manifest_reloads or ManifestReloads()
        # Weak, as the resources of custom resource definitions are replaced with each change of these.
        self._chains: WeakKeyDictionary[Resource, dict[tuple[str, str], _Chain]] = WeakKeyDictionary()

    async def admit(self, call: AdmissionRequest) -> None:
        """Call the mutating plugins, and call them again if a webhook changed the object (reinvocation).

        :raises ApiError: a plugin rejects the request.
        """
        mutating = self._chain(call)[0]
        for plugin in mutating:
            await plugin.admit(call)
        if call.reinvoke:
            call.reinvoking = True
            for plugin in mutating:
                await plugin.admit(call)

    async def validate(self, call: AdmissionRequest) -> None:
        """Call the validating plugins on the mutated object.

        :raises ApiError: a plugin rejects the request.
        """
        for plugin in self._chain(call)[1]:
            await plugin.validate(call)

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

    def _chain(self, call: AdmissionRequest) -> _Chain:
        chains = self._chains.setdefault(call.resource, {})
        key = (call.operation, call.subresource)
        chain = chains.get(key)
        if chain is None:
            matching = [plugin for plugin in self.plugins if plugin.concerns(call.resource, *key)]
            chain = chains[key] = (
                tuple(plugin for plugin in matching if _has(plugin, "admit")),
                tuple(plugin for plugin in matching if _has(plugin, "validate")),
            )
        return chain


def _has(plugin: AdmissionPlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
