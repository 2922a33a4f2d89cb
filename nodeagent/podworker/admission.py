"""Admission of pods by plugins, in which a plugin that does not respond delays only the pods that it decides on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

from nodeagent.base.aio import Backoff, Clock, TaskOwner
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import PluginError
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager

HOOK = "nodeagent_admit_pod"
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
_OTHER_PODS = "active"
"""Argument of the hook; an implementation without it decides independently of other pods."""

_log = logging.getLogger(__name__)


class AdmissionPending(Exception):
    """No decision yet: the pod is to be added again when its decision is due."""


class _Delayed(PluginError):
    """A plugin has requested to be called again later."""

    transient = True


class PodAdmission:
    """Consults the plugins about one pod at a time, except for those that decide independently of other pods.

    Those are third-party plugins that do not accept ``active``; they are called first, concurrently for all pods.

    :param due: called with the UID of a pod for which :meth:`decide` is to be called again.
    """

    def __init__(
        self,
        plugins: PluginManager,
        recorder: Callable[[], EventRecorder],
        clock: Clock,
        tasks: TaskOwner,
        due: Callable[[str], None],
    ) -> None:
        self._plugins, self._recorder, self._clock, self._tasks, self._due = plugins, recorder, clock, tasks, due
        self._independent: dict[str, Rejection | None] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._problems: dict[str, str] = {}
        self._waiting: set[str] = set()

    async def decide(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        """Return the rejection of *pod*, or ``None`` if it is admitted.

        :param active: the admitted pods.
        :raises AdmissionPending: a plugin has not decided yet.
        """
        if pod.uid not in self._independent and self._plugins.is_implemented(HOOK, without=_OTHER_PODS):
            self._start(pod, self._consult(pod))
        rejection = self._independent.get(pod.uid)
        if rejection is None:
            try:
                rejection = await self._call(pod, active, with_other=True)
            except PluginError as error:
                self._start(pod, self._retry(pod, error))
        self.forget(pod.uid)
        return rejection

    async def decide_resize(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        """Return the rejection of the new resources of an admitted pod; one by a failing plugin is retried as well."""
        try:
            result = await self._plugins.call_first(HOOK, subject=pod.full_name, pod=pod, active=active)
        except PluginError as error:
            return Rejection("UnexpectedAdmissionError", str(error))
        return None if result is None else result.value

    def rejected_by(self, pod: Pod) -> str:
        """Return the third-party plugin that rejected the pod, empty for a part of the agent."""
        decisions = [
            each for each in self._plugins.decisions.about(pod.full_name) if each.hook == HOOK and not each.skipped
        ]
        return decisions[-1].plugin if decisions and not self._plugins.is_bundled(decisions[-1].plugin) else ""

    def is_pending(self, uid: str) -> bool:
        """Return whether a plugin has not decided about the pod yet."""
        return uid in self._waiting

    def problem(self, uid: str) -> str:
        """Return the reason for a repeated decision, empty if there is none."""
        return self._problems.get(uid, "")

    def forget(self, uid: str) -> None:
        """Discard the state of a pod."""
        self._independent.pop(uid, None)
        self._backoffs.pop(uid, None)
        self._problems.pop(uid, None)
        self._waiting.discard(uid)

    async def _call(self, pod: Pod, active: Sequence[Pod], *, with_other: bool) -> Rejection | None:
        """Call the plugins of one group; a failure other than a missing response is a rejection.

        :raises PluginError: a plugin does not respond, or delays the decision.
        """
        accepting, without = (_OTHER_PODS, "") if with_other else ("", _OTHER_PODS)
        try:
            result = await self._plugins.call_first(
                HOOK, subject=pod.full_name, accepting=accepting, without=without, pod=pod, active=active
            )
        except PluginError as error:
            if error.transient:
                raise
            self._plugins.record_decision(error.plugin, HOOK, pod.full_name, "failed")
            return Rejection("UnexpectedAdmissionError", str(error))
        if result is not None and result.value.retry:
            raise _Delayed(result.plugin, f"{result.value.reason}: {result.value.message}")
        return None if result is None else result.value

    def _start(self, pod: Pod, waits: Coroutine[Any, Any, None]) -> NoReturn:
        self._waiting.add(pod.uid)
        self._tasks.start(waits, f"admission {pod.full_name}")
        raise AdmissionPending

    async def _consult(self, pod: Pod) -> None:
        """Call the plugins that decide independently until they respond."""
        while True:
            try:
                self._independent[pod.uid] = await self._call(pod, (), with_other=False)
            except PluginError as error:
                await self._delay(pod, error)
            else:
                break
            if pod.uid not in self._waiting:
                break
        if pod.uid in self._waiting:
            self._waiting.discard(pod.uid)
            self._due(pod.uid)
        else:
            self.forget(pod.uid)

    async def _retry(self, pod: Pod, error: PluginError) -> None:
        await self._delay(pod, error)
        if pod.uid in self._waiting:
            self._waiting.discard(pod.uid)
            self._due(pod.uid)

    async def _delay(self, pod: Pod, error: PluginError) -> None:
        if pod.uid not in self._problems:
            note = f"Waiting for a plugin to admit the pod: {error}"
            self._recorder().record(pod.reference(), EventType.WARNING, "AdmissionDelayed", note)
            _log.warning("Delaying admission of pod", extra={"pod": pod.full_name, "podUID": pod.uid, "err": error})
        self._problems[pod.uid] = str(error)
        backoff = self._backoffs.setdefault(pod.uid, Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
        await self._clock.sleep(backoff.next())
