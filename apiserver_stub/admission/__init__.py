"""Rules about requests rather than kinds: plugins first change, then judge new objects, changes and deletions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest, Operation

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

_STREAMS = ("stdin", "stdout", "stderr", "tty")


class AdmissionPlugin:
    """One plugin; it says what concerns it, may change the new object, then may refuse the request."""

    name = ""
    resources: Collection[str] | None = None
    """``plural.group`` or ``plural.group/subresource``, the core group without a name; ``None`` means everything."""
    operations: Collection[str] = ("CREATE", "UPDATE")

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        """Return whether the plugin has to be asked; the answer is remembered."""
        if operation not in self.operations:
            return False
        if self.resources is None:
            return True
        label = qualified(resource.plural, resource.group)
        return (f"{label}/{subresource}" if subresource else label) in self.resources

    async def admit(self, call: AdmissionRequest) -> None:
        """Change ``call.new``, before the rules of its kind are checked; may refuse already.

        :raises ApiError: the request is refused.
        """

    async def validate(self, call: AdmissionRequest) -> None:
        """Judge the object after the rules of its kind; it may not be changed any more.

        :raises ApiError: the request is refused.
        """


_Chain = tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]


class AdmissionChain:
    """Asks every plugin that is concerned, in order; who is concerned is found out once."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self.plugins = list(plugins)
        self._chains: dict[tuple[Resource, str, str], _Chain] = {}

    async def admit(self, call: AdmissionRequest) -> None:
        """Let plugins change the object; once more when a later one did and wants the others to see it.

        :raises ApiError: one refuses.
        """
        changing = self._chain(call)[0]
        for plugin in changing:
            await plugin.admit(call)
        if call.reinvoke:
            call.reinvoking = True
            for plugin in changing:
                await plugin.admit(call)

    async def validate(self, call: AdmissionRequest) -> None:
        """Let plugins judge what came out.

        :raises ApiError: one refuses.
        """
        for plugin in self._chain(call)[1]:
            await plugin.validate(call)

    async def check(self, call: AdmissionRequest) -> None:
        """Do both, where nothing is between them.

        :raises ApiError: one refuses.
        """
        await self.admit(call)
        await self.validate(call)

    async def connect(self, request: Request, resource: Resource) -> None:
        """Ask about a connection to what *resource* names (exec, attach, portforward, proxy); logs are only read.

        :raises ApiError: one refuses.
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
        if ports := [int(text) for text in query.all("ports") if text.isdecimal()]:
            options["ports"] = ports
        await self.check(AdmissionRequest("CONNECT", request, resource, options, name=info.name))

    def _chain(self, call: AdmissionRequest) -> _Chain:
        key = (call.resource, call.operation, call.subresource)
        chain = self._chains.get(key)
        if chain is None:
            asked = [plugin for plugin in self.plugins if plugin.concerns(*key)]
            chain = self._chains[key] = (
                tuple(plugin for plugin in asked if _has(plugin, "admit")),
                tuple(plugin for plugin in asked if _has(plugin, "validate")),
            )
        return chain


def _has(plugin: AdmissionPlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)


def combined(problems: Sequence[str]) -> str:
    """Return several problems as one text: different ones in brackets, a single one as it is."""
    different = list(dict.fromkeys(problems))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"


def own_copy(obj: Object) -> Object:
    """Return a copy that may be changed at any depth."""
    copy: Object = objects.decode(objects.encode(obj))
    return copy
