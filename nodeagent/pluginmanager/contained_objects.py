"""Objects that third-party plugins provide, such as kinds of volumes: their methods are called as hooks are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

_PREFIX = "nodeagent_provide_"
CONTAINED: Mapping[str, float] = MappingProxyType(
    {
        "nodeagent_provide_volume_kinds": 110.0,  # A pod sync waits 123 s for its volumes.
        "nodeagent_provide_persistent_volume_kinds": 600.0,  # Formatting and repairing take time.
        "nodeagent_provide_credential_providers": 60.0,
        "nodeagent_provide_device_providers": 29.0,  # The device manager waits 30 s.
        "nodeagent_provide_claim_drivers": 45.0,
        "nodeagent_provide_pod_sources": 10.0,
        "nodeagent_provide_background_loops": 10.0,
        "nodeagent_provide_hint_providers": 10.0,
        "nodeagent_provide_resource_reporters": 10.0,
    }
)
"""Provider hooks whose objects are contained, with the time limit in seconds of a call of an async method."""
LASTING = frozenset({"run", "watch", "watch_health"})
"""Async methods that return when they are cancelled, without a time limit."""


class MethodCalls(Protocol):
    """Calls methods of one plugin's objects."""

    async def call(self, method: str, function: Callable[..., Awaitable[Any]], arguments: Sequence[Any]) -> Any:
        """Call an async method.

        :raises PluginError: the call failed or exceeded its deadline.
        :raises NodeAgentError: the method rejected its arguments, which does not count as a failure of the plugin.
        """
        ...

    def call_plain(self, method: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a method that is not async; errors as in :meth:`call`."""
        ...


def method_name(hook: str, method: str) -> str:
    """Return the name of a method in statistics, such as ``volume_kind.setup``."""
    return f"{hook.removeprefix(_PREFIX).removesuffix('s')}.{method}"


def contain(target: Any, calls: MethodCalls) -> Any:
    """Return a proxy of *target* whose public methods are called through *calls*.

    The public attributes belong to the class of the proxy, so that checks against runtime protocols find them.
    """
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__class__": property(lambda _: type(target)),
        "__repr__": lambda _: repr(target),
        "__eq__": lambda self, other: self is other or target == other,
        "__hash__": lambda _: hash(target),
        "__getattr__": lambda _, name: getattr(target, name),
        "__setattr__": lambda _, name, value: setattr(target, name, value),
    }
    for name in dir(target):
        if name.startswith("_"):
            continue
        static = inspect.getattr_static(target, name)
        value = None if isinstance(static, property) else getattr(target, name, None)
        if inspect.iscoroutinefunction(value):
            namespace[name] = _async_method(value, name, calls)
        elif inspect.ismethod(value) or inspect.isfunction(value):
            namespace[name] = _plain_method(value, name, calls)
        else:
            namespace[name] = property(functools.partial(_read, target, name))
    return type(f"Contained{type(target).__name__}", (), namespace)()


def _read(target: Any, name: str, _: Any) -> Any:
    return getattr(target, name)


def _async_method(function: Callable[..., Awaitable[Any]], name: str, calls: MethodCalls) -> Any:
    @functools.wraps(function)
    async def method(_: Any, *arguments: Any, **options: Any) -> Any:
        return await calls.call(name, functools.partial(function, **options), arguments)

    return method


def _plain_method(function: Callable[..., Any], name: str, calls: MethodCalls) -> Any:
    @functools.wraps(function)
    def method(_: Any, *arguments: Any, **options: Any) -> Any:
        return calls.call_plain(name, functools.partial(function, **options), arguments)

    return method
