"""One configured provider: whether it is asked, asking it once for all who want the same, keeping what it answered.

spec: credential.matchImages, credential.args, credential.env, type.ExecEnvVar.name, type.ExecEnvVar.value
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from nodeagent.base.duration import Duration
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.contracts.configuration import CredentialProvider as ProviderSettings
from nodeagent.contracts.images import CredentialLookup
from nodeagent.model.registry import matches
from nodeagent_plugins.credential_exec.cache import AnswerCache, Kept, Key, cache_key
from nodeagent_plugins.credential_exec.executables import find_program
from nodeagent_plugins.credential_exec.protocol import (
    Answer,
    CacheKeyType,
    ProviderFailure,
    encode_request,
    read_answer,
)

_log = logging.getLogger(__name__)

FAILURES = Counter("credential_provider_plugin_errors", "Runs of credential providers that failed.", ("plugin_name",))
DURATIONS = Histogram(
    "credential_provider_plugin_duration",
    "How long credential providers ran.",
    ("plugin_name",),
)

Run = Callable[[Command, bytes, Limits], Awaitable[CommandResult]]


@dataclass(frozen=True, slots=True)
class _Flight:
    """A question under way."""

    image: str
    task: asyncio.Task[tuple[Answer | None, CredentialLookup]]


class ExecProvider:
    """Asks one executable.

    :param directory: where it lies, as ``find_directory`` returned it.
    :param run: starts the program and waits for its end.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        directory: Path,
        clock: Clock,
        tasks: TaskOwner,
        *,
        limits: Limits | None = None,
        run: Run = run_command,
    ) -> None:
        self.name = settings.name
        self._settings, self._directory, self._clock, self._tasks = settings, directory, clock, tasks
        self._limits, self._run = limits or Limits(), run
        self._cache = AnswerCache(clock, settings.default_cache_duration or Duration())
        self._usual_key = CacheKeyType.IMAGE
        self._flights: dict[Key, _Flight] = {}

    async def lookup(self, image: str) -> CredentialLookup:
        """Return what the provider says about *image*, if a pattern matches it; never raises.

        Whoever asks while an answer to the same question is under way shares it. Which questions are the same is told
        by the answer before: a provider that answers for a registry is asked once for all of its images.
        """
        patterns = tuple(pattern for pattern in self._settings.match_images if matches(pattern, image))
        if not patterns:
            return CredentialLookup(self.name)
        while True:
            kept = self._cache.get(image)
            if kept is not None:
                return self._from_cache(kept, patterns)
            flight = self._flight(image)
            answer, inquiry = await asyncio.shield(flight.task)
            if answer is None or cache_key(answer.key_type, image) == cache_key(answer.key_type, flight.image):
                return replace(inquiry, patterns=patterns)

    def _from_cache(self, kept: Kept, patterns: tuple[str, ...]) -> CredentialLookup:
        left = Duration.of(seconds=round(kept.until - self._clock.now()))
        caching = f"{kept.answer.key_type}, for another {left}"
        return CredentialLookup(self.name, patterns, auth=kept.answer.auth, caching=caching)

    def _flight(self, image: str) -> _Flight:
        key = cache_key(self._usual_key, image)
        flight = self._flights.get(key)
        if flight is None:
            task = self._tasks.start(self._ask(image), f"credentials/{self.name}/{image}")
            flight = self._flights[key] = _Flight(image, task)
            task.add_done_callback(lambda _: self._flights.pop(key, None))
        return flight

    async def _ask(self, image: str) -> tuple[Answer | None, CredentialLookup]:
        request = encode_request(self._settings.api_version, image)
        command = (str(self._directory / self.name), *self._settings.args)
        inquiry = CredentialLookup(self.name, command=command, request=request.decode().rstrip())
        started = self._clock.now()
        try:
            answer = await self._run_once(request)
        except ProviderFailure as failure:
            FAILURES.inc(self.name)
            # What it wrote stays out of the log: a traced script writes its secrets there.
            _log.warning(
                "Credential provider failed", extra={"provider": self.name, "image": image, "err": str(failure)}
            )
            failed = replace(inquiry, failure=str(failure), detail=failure.detail)
            return None, replace(failed, seconds=self._clock.now() - started)
        self._usual_key = answer.key_type
        duration = self._cache.put(image, answer)
        caching = f"{answer.key_type}, for {duration}" if duration > Duration() else "not kept"
        seconds = self._clock.now() - started
        return answer, replace(inquiry, auth=answer.auth, caching=caching, seconds=seconds)

    async def _run_once(self, request: bytes) -> Answer:
        """Start the executable as the configuration says and read its answer.

        :raises ProviderFailure: there is none.
        """
        limits, settings = self._limits, self._settings
        try:
            path = await asyncio.to_thread(find_program, self._directory, self.name)
        except ValueError as error:
            raise ProviderFailure(str(error)) from error
        environment = os.environ | {variable.name: variable.value for variable in settings.env}
        try:
            with DURATIONS.time(self._clock.now, self.name):
                finished = await self._run(Command(str(path), settings.args, environment), request, limits)
        except TimeoutError:
            raise ProviderFailure(f"did not answer within {limits.seconds:g} s and was killed") from None
        except (OSError, ValueError) as error:  # ValueError: an argument with a null byte
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reason = reason.lower()
            if isinstance(error, FileNotFoundError):  # the file was there a moment ago: what runs it is not
                reason = "the interpreter that its first line names, or its loader, is not on this node"
            raise ProviderFailure(f"cannot be started: {reason}") from error
        return read_answer(finished, self.name, settings.api_version, limits.output_bytes)
