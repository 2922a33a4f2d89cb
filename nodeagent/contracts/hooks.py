"""Hook calls and plugin registration, as plugins use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from nodeagent.base.structs import Struct

T = TypeVar("T")


class HookResult(Struct, Generic[T], frozen=True):
    """A plugin's return value for a hook, never ``None``."""

    plugin: str
    value: T


class PluginHost(Protocol):
    """The agent's plugin manager, as passed to ``nodeagent_configure`` and to providers that call hooks."""

    def register(self, plugin: object, *, name: str, version: str = "", origin: str = "") -> None:
        """Add a plugin object; an object that belongs to a plugin is named ``plugin.component``.

        :param plugin: a module or object with hook implementations.
        :param name: unique name; for an object of a plugin ``plugin.component``.
        :param version: version for display; defaults to that of the plugin.
        :param origin: distribution for display; defaults to that of the plugin.
        :raises PluginError: the name is in use, or the object implements an unknown hook or accepts arguments that the
            hook does not have.
        """
        ...

    def provide_all(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Call a provider hook on every plugin, in the order of plugin names; return results that are not ``None``.

        :param hook: name of a provider hook that the core does not call.
        :param arguments: all arguments of the hook, by name.
        :raises PluginError: an implementation failed.
        """
        ...

    async def call_first(
        self, hook: str, *, subject: str = "", tolerant: bool = False, **arguments: Any
    ) -> HookResult[Any] | None:
        """Call a decision hook on one plugin after the other; return the first result that is not ``None``.

        :param hook: name of an async decision hook.
        :param subject: the object that is decided on, for the record of decisions; defaults to the pod.
        :param tolerant: skip an implementation that fails, as :meth:`notify` does, instead of raising.
        :param arguments: all arguments of the hook, by name.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        ...

    async def notify(self, hook: str, **arguments: Any) -> None:
        """Call a notification hook on every plugin. A failure does not raise; it is logged once, until it recovers.

        :param hook: name of an async notification hook.
        :param arguments: all arguments of the hook, by name.
        """
        ...

    async def gather(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Return every result that is not ``None``. A failure does not raise; it is handled as in :meth:`notify`.

        :param hook: name of an async hook.
        :param arguments: all arguments of the hook, by name.
        """
        ...

    async def call_chain(
        self,
        hook: str,
        name: str,
        value: T,
        *,
        subject: str = "",
        changes: str = "",
        tolerant: bool = False,
        **arguments: Any,
    ) -> T:
        """Pass *value* through every plugin as argument *name*; ``None`` leaves it unchanged.

        :param hook: name of an async hook.
        :param name: the argument that each plugin may replace.
        :param value: the initial value.
        :param subject: the object that is changed, for the record of decisions; defaults to the pod, or *name*.
        :param changes: the changed part of *subject*, for the record of decisions; defaults to *name*.
        :param tolerant: keep *value* unchanged where an implementation fails, instead of raising.
        :param arguments: the other arguments of the hook, by name.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        ...

    def is_implemented(self, hook: str) -> bool:
        """Return whether any plugin implements *hook*, so that a caller can skip preparing the arguments.

        :param hook: name of a hook.
        """
        ...

    def deadline_of(self, hook: str) -> float:
        """Return the time limit in seconds of each call of an async hook.

        :param hook: name of an async hook.
        """
        ...

    def record_failure(self, plugin: str, error: str) -> None:
        """Record a failure of a plugin outside of its hooks, such as the exit of its process; counts for quarantine.

        :param plugin: name of the plugin.
        :param error: the error for display.
        """
        ...

    def record_recovery(self, plugin: str, *, version: str = "") -> None:
        """Record that the condition of earlier failures is over; a quarantined plugin is called again immediately.

        :param plugin: name of the plugin.
        :param version: the plugin's version for display, if it is known only now.
        """
        ...

    def record_decision(self, plugin: str, hook: str, subject: str, decision: str) -> None:
        """Record a decision of a plugin; results of decision hooks are recorded automatically.

        :param plugin: name of the plugin that decided.
        :param hook: the hook that was called, or a name for the plugin's action.
        :param subject: the object that was decided on, such as the full name of a pod.
        :param decision: the decision for display.
        """
        ...
