"""Plugin manager: call the hooks of the registered plugins.

Provider hooks are called through
:meth:`PluginManager.provide` and :meth:`~PluginManager.provide_all`; async hooks through
:meth:`~PluginManager.call_first`, :meth:`~PluginManager.notify`, :meth:`~PluginManager.call_chain` and
:meth:`~PluginManager.gather`, which await one implementation after the other, so that every result, failure and
duration is attributed to a plugin.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pluggy

from nodeagent.contracts.context import ComponentUnavailable, ConfigContext
from nodeagent.contracts.hooks import HookResult
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import ConfigError, NodeAgentError, PluginError
from nodeagent.hook_context import narrow_context
from nodeagent.hook_deadlines import deadline_of
from nodeagent.hook_results import validate_result
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager.contained_calls import SKIPPED, ContainedCalls
from nodeagent.pluginmanager.decisions import DecisionLog
from nodeagent.pluginmanager.quarantine import QuarantinePolicy
from nodeagent.pluginmanager.records import Decision, Withdrawn
from nodeagent.pluginmanager.registry import PluginRegistry
from nodeagent.pluginmanager.source_location import error_location

_log = logging.getLogger(__name__)
T = TypeVar("T")


class PluginManager(PluginRegistry):
    """The plugins of one agent; implements :class:`~nodeagent.contracts.hooks.PluginHost`.

    :param deadline_seconds: time limit of each call of an async hook; defaults to the one in the hook's declaration.
    """

    def __init__(self, *, deadline_seconds: float | None = None) -> None:
        super().__init__()
        self._provided: dict[tuple[str, str], Any] = {}
        self._deadline = deadline_seconds
        self._required: frozenset[str] = frozenset()
        self.calls = ContainedCalls(self.is_bundled, self.is_required)
        self.narrow: Callable[[str, ConfigContext], ConfigContext] = lambda plugin, context: context
        """Returns the context for a plugin, with separate owners of its tasks and callbacks."""
        self.decisions = DecisionLog()
        self.on_decision: Callable[[Decision, Pod], None] = lambda decision, pod: None
        """Called when the decision of a third-party plugin about a pod changes."""
        self.on_skip: Callable[[str, str, Pod], None] = lambda plugin, hook, pod: None
        """Called when a pod is decided on without a plugin that is in quarantine, with the hook."""

    def with_same_hooks(self) -> PluginManager:
        """Return a manager without plugins in which the same hooks are declared, to check a plugin."""
        manager = PluginManager()
        manager.declare_hooks_of(self)
        return manager

    def contain(self, policy: QuarantinePolicy, required: Iterable[str] = (), declared: Container[str] = ()) -> None:
        """Set the quarantine policy and the plugins without which no pod may run.

        :param declared: plugins that another plugin registers later.
        :raises PluginError: a required plugin is disabled, not installed or failed to load.
        """
        self.calls.policy, self._required = policy, frozenset(required)
        for name in sorted(self._required):
            info = self._infos.get(name)
            if info is None:
                if name in declared:
                    continue
                raise PluginError(name, "is required, but not installed")
            if info.state != "loaded":
                raise PluginError(name, f"is required, but {info.state}")

    # --- changes at runtime -------------------------------------------------------------------------------

    def withdraw(self, plugin: str, state: str) -> Withdrawn:
        """Remove all objects of a plugin, which is then listed with *state*; calls in progress continue."""
        objects, infos = self.remove(plugin, state)
        provided = {key: value for key, value in self._provided.items() if key[1].partition(".")[0] == plugin}
        for key in provided:
            del self._provided[key]
        return Withdrawn(objects, infos, provided, self.calls.withdraw(plugin))

    def restore(self, plugin: str, withdrawn: Withdrawn) -> None:
        """Add the objects that :meth:`withdraw` removed, after :meth:`withdraw` of those that replaced them."""
        self.put_back(plugin, withdrawn.objects, withdrawn.infos)
        self._provided |= withdrawn.provided
        self.calls.restore(plugin, withdrawn.quarantine)

    def provide_from(self, plugin: str, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Call a provider hook on the objects of one plugin.

        :raises NodeAgentError: an implementation failed.
        """
        results = []
        for implementation in self.implementations(hook):
            if implementation.plugin_name.partition(".")[0] == plugin:
                result = self._call(hook, implementation, arguments)
                if result is not None:
                    results.append(HookResult(implementation.plugin_name, result))
        return results

    def provided(self, plugin: str, hook: str) -> list[Any]:
        """Return the objects that the plugin returned from a provider hook for sequences."""
        found = ((key, value) for key, value in self._provided.items() if key[0] == hook)
        return [each for key, value in found if key[1].partition(".")[0] == plugin for each in value]

    def is_required(self, plugin: str) -> bool:
        """Return whether pods wait while the plugin fails: it is bundled, or listed as required."""
        return plugin.partition(".")[0] in self._required or self.is_bundled(plugin)

    def is_listed_as_required(self, plugin: str) -> bool:
        """Return whether the configuration lists the plugin as required."""
        return plugin in self._required

    def record_failure(self, plugin: str, error: str) -> None:
        """Record a failure outside of a hook's result, such as a blocked event loop."""
        info = self._infos.get(plugin)
        if info is not None:
            self.calls.record_failure(info, error)

    def record_recovery(self, plugin: str, *, version: str = "") -> None:
        """Record that the condition of earlier failures is over; a quarantined plugin is called again immediately.

        :param version: the plugin's version for display, if it is known only now.
        """
        info = self._infos.get(plugin)
        if info is not None and version:
            info.version = version
        self.calls.record_recovery(plugin)

    def deadline_of(self, hook: str) -> float:
        """Return the time limit in seconds of each call of an async hook."""
        return self._deadline or deadline_of(self.specifications[hook])

    # --- provider hooks -----------------------------------------------------------------------------------

    def provide_all(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Call a provider hook on every plugin, in order of name, and return the results that are not ``None``.

        A plugin that fails is skipped and listed as failed, unless it is required.

        :raises PluginError: an implementation of a required plugin failed; another :class:`NodeAgentError` is passed on
            unchanged.
        :raises ConfigError: a plugin does not support the configuration.
        """
        results = []
        for implementation in self.implementations(hook):
            if not self.is_registered(implementation.plugin_name):
                continue  # It was skipped because another of its objects failed.
            try:
                result = self._call(hook, implementation, arguments)
            except ConfigError:
                raise
            except NodeAgentError as error:
                if self.is_required(implementation.plugin_name):
                    raise
                self.skip(implementation.plugin_name.partition(".")[0], error)
                continue
            if result is not None:
                results.append(HookResult(implementation.plugin_name, result))
        return results

    def provide(self, hook: str, **arguments: Any) -> Any:
        """Call a provider hook until a plugin returns an object; third-party plugins run before bundled ones.

        :raises PluginError: no plugin returned an object, or an implementation failed.
        """
        result = self.provide_optional(hook, **arguments)
        if result is None:
            raise PluginError("-", f"no plugin provides {hook.removeprefix('nodeagent_provide_')}")
        return result

    def provide_optional(self, hook: str, **arguments: Any) -> Any:
        """Call a provider hook as :meth:`provide` does; return ``None`` if no plugin returns an object.

        :raises PluginError: an implementation failed.
        """
        for implementation in self.implementations(hook, third_party_first=True):
            result = self._call(hook, implementation, arguments)
            if result is not None:
                self.record_decision(implementation.plugin_name, hook, "agent", type(result).__name__)
                return result
        return None

    def _call(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        name = implementation.plugin_name
        context = arguments.get("context")
        if isinstance(context, ConfigContext):
            arguments = {**arguments, "context": self.narrow(name.partition(".")[0], context)}
        arguments = narrow_context(self.specifications[hook], arguments)
        try:
            with self.load_costs.measured(name.partition(".")[0]):
                result = implementation.function(*(arguments[argument] for argument in implementation.argnames))
        except ComponentUnavailable as error:
            raise PluginError(name, f"{error}{error_location(error)}") from error
        except NodeAgentError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(name, f"{hook} failed: {error!r}{error_location(error)}") from error
        if problem := validate_result(self.specifications[hook], result):
            raise PluginError(name, f"{hook} {problem}")
        if isinstance(result, Sequence):
            result = self._provided[hook, name] = self.calls.contain(self._infos[name], hook, result)
        return result

    # --- async hooks --------------------------------------------------------------------------------------

    async def call_first(
        self,
        hook: str,
        *,
        subject: str = "",
        tolerant: bool = False,
        without: str = "",
        accepting: str = "",
        **arguments: Any,
    ) -> HookResult[Any] | None:
        """Call a decision hook on one plugin after the other; return the first result that is not ``None``.

        :param subject: the object that is decided on, for the record of decisions; defaults to the pod.
        :param without: call only third-party plugins that do not accept the argument of this name.
        :param accepting: call only the other plugins.
        :param tolerant: skip an implementation that fails, as :meth:`notify` does, instead of raising.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        call = self._tolerate if tolerant else self._await
        subject = subject or _subject_of(arguments)
        for implementation in self.implementations(hook):
            if (argument := without or accepting) and self._does_without(implementation, argument) != bool(without):
                continue
            value = await call(hook, implementation, arguments, subject)
            if value is SKIPPED:
                self._skipped(implementation.plugin_name, hook, subject, arguments)
                continue
            if value is not None:
                self._decided(implementation.plugin_name, hook, subject, _text_of(value), arguments)
                return HookResult(implementation.plugin_name, value)
            self.decisions.end(implementation.plugin_name, hook, subject)
        return None

    async def notify(self, hook: str, **arguments: Any) -> None:
        """Call a notification hook on every plugin. A failure does not raise; it is logged once, until it recovers."""
        for implementation in self.implementations(hook):
            await self._tolerate(hook, implementation, arguments)

    async def gather(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Return every result that is not ``None``; failures are handled as in :meth:`notify`."""
        results = []
        for implementation in self.implementations(hook):
            value = await self._tolerate(hook, implementation, arguments)
            if value is not None and value is not SKIPPED:
                results.append(HookResult(implementation.plugin_name, value))
        return results

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

        :param subject: the object that is changed, for the record of decisions; defaults to the pod, or *name*.
        :param changes: the changed part of *subject*, for the record of decisions; defaults to *name*.
        :param tolerant: keep *value* unchanged where an implementation fails, instead of raising.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        call = self._tolerate if tolerant else self._await
        subject = subject or _subject_of(arguments) or name
        for implementation in self.implementations(hook):
            changed = await call(hook, implementation, {**arguments, name: value}, subject)
            if changed is SKIPPED:
                self._skipped(implementation.plugin_name, hook, subject, arguments)
            elif changed is not None and changed != value:
                self._decided(implementation.plugin_name, hook, subject, f"changed the {changes or name}", arguments)
                value = changed
        return value

    def is_implemented(self, hook: str, *, without: str = "", third_party: bool = False) -> bool:
        """Return whether any plugin implements *hook*, so that a caller can skip preparing the arguments.

        :param without: count only third-party plugins that do not accept the argument of this name.
        :param third_party: count only third-party plugins.
        """
        return any(
            (not without or self._does_without(each, without))
            and not (third_party and self.is_bundled(each.plugin_name))
            for each in self.implementations(hook)
        )

    def _does_without(self, implementation: pluggy.HookImpl, argument: str) -> bool:
        return argument not in implementation.argnames and not self.is_bundled(implementation.plugin_name)

    def record_decision(self, plugin: str, hook: str, subject: str, decision: str) -> None:
        """Record a decision of a plugin; results of decision hooks are recorded automatically.

        :param hook: the hook that was called, or a name for the plugin's action.
        """
        self.decisions.record(plugin, hook, subject, decision, time.time())

    def _decided(self, plugin: str, hook: str, subject: str, text: str, arguments: Mapping[str, Any]) -> None:
        decision = self.decisions.record(plugin, hook, subject, text, time.time())
        pod = arguments.get("pod")
        if decision is not None and isinstance(pod, Pod) and not self.is_bundled(plugin):
            fields = {"plugin": plugin, "hook": hook, "pod": pod.full_name, "decision": text}
            _log.info("Plugin decided about pod", extra=fields)
            self.on_decision(decision, pod)

    async def _tolerate(
        self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any], subject: str = ""
    ) -> Any:
        """Call an implementation; a failure returns ``None``."""
        try:
            return await self._await(hook, implementation, arguments, subject)
        except PluginError:
            return None

    async def _await(
        self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any], subject: str = ""
    ) -> Any:
        """Call an implementation; return :data:`SKIPPED` without a call while its plugin is in quarantine.

        :raises PluginUnavailable: the plugin is required and in quarantine.
        :raises PluginError: the call failed or exceeded its deadline.
        """
        name = implementation.plugin_name
        info = self._infos.get(name)
        if info is None or not self.is_registered(name, implementation.plugin):
            return None  # It was disabled or replaced since the implementations were listed.
        specification = self.specifications[hook]
        subject = subject or _subject_of(arguments)
        return await self.calls.call_hook(
            info,
            hook,
            implementation.function,
            [arguments[argument] for argument in implementation.argnames],
            deadline_seconds=self.deadline_of(hook),
            problem_of=lambda result: validate_result(specification, result),
            subject=subject,
        )

    def _skipped(self, plugin: str, hook: str, subject: str, arguments: Mapping[str, Any]) -> None:
        """Record that a pod is decided on without a plugin."""
        pod = arguments.get("pod")
        text = "skipped because it is quarantined"
        decision = self.decisions.record(plugin, hook, subject, text, time.time(), skipped=True)
        if decision is not None and isinstance(pod, Pod):
            self.on_skip(plugin, hook, pod)


def _subject_of(arguments: Mapping[str, Any]) -> str:
    """Return the pod in the arguments of a hook, empty if there is none."""
    pod = arguments.get("pod")
    return pod.full_name if isinstance(pod, Pod) else ""


def _text_of(value: Any) -> str:
    """Return a decision for display."""
    return f"{value.reason}: {value.message}" if isinstance(value, Rejection) else str(value)
