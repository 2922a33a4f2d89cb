"""Rules about requests rather than kinds: plugins first change, then judge new objects, changes and deletions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, forbidden, qualified

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

_STREAMS = ("stdin", "stdout", "stderr", "tty")

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Call:
    """What plugins are asked about."""

    operation: Operation
    request: Request
    resource: Resource
    new: Object | None = None
    """The object as it would be stored, or what an action was given; ``None`` for deletions."""
    old: Object | None = None
    name: str = ""
    options: Object = field(default_factory=dict)
    """Options of a deletion."""
    dry_run: bool = False
    reinvoking: bool = False
    """Plugins are asked a second time, as a webhook changed the object after they saw it."""
    reinvoke: bool = False
    """Set by a plugin that changed the object in a way that others should see."""
    seen: dict[str, bytes] = field(default_factory=dict)
    """What webhooks left behind, by their names."""

    @property
    def subresource(self) -> str:
        return self.request.info.subresource

    @property
    def namespace(self) -> str:
        return self.request.info.namespace

    @property
    def obj(self) -> Object:
        """The new object; empty for a deletion."""
        return self.new if self.new is not None else {}

    def refuse(self, message: str) -> ApiError:
        """Return the 403 that says why this may not be."""
        name = self.name
        if not name:
            metadata = self.obj.get("metadata") or {}
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.resource.group, self.resource.plural, name, message)


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

    async def admit(self, call: Call) -> None:
        """Change ``call.new``, before the rules of its kind are checked; may refuse already.

        :raises ApiError: the request is refused.
        """

    async def validate(self, call: Call) -> None:
        """Judge the object after the rules of its kind; it may not be changed any more.

        :raises ApiError: the request is refused.
        """


_Chain = tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]


class Admission:
    """Asks every plugin that is concerned, in order; who is concerned is found out once."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self.plugins = list(plugins)
        self._chains: dict[tuple[Resource, str, str], _Chain] = {}

    async def admit(self, call: Call) -> None:
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

    async def validate(self, call: Call) -> None:
        """Let plugins judge what came out.

        :raises ApiError: one refuses.
        """
        for plugin in self._chain(call)[1]:
            await plugin.validate(call)

    async def check(self, call: Call) -> None:
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
        await self.check(Call("CONNECT", request, resource, options, name=info.name))

    def _chain(self, call: Call) -> _Chain:
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
