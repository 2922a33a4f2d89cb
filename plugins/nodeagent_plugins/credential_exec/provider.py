"""Exec credential provider: matches images, runs the executable once per concurrent request, and caches responses.

spec: credential.matchImages, credential.args, credential.env, type.ExecEnvVar.name, type.ExecEnvVar.value
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from nodeagent.base.duration import Duration
from nodeagent.base.metrics import Counter, Gauge, Histogram
from nodeagent.base.secret import MASK
from nodeagent.base.structs import Struct
from nodeagent.contracts.api import Api
from nodeagent.contracts.configuration import CredentialProvider as ProviderSettings
from nodeagent.contracts.images import CredentialLookup
from nodeagent.contracts.runtime import CredentialOwner, OwnerKind
from nodeagent.model.pod import Pod
from nodeagent.model.registry import matches
from nodeagent_plugins.credential_exec.accounts import PodAccount, PodAccounts, ProviderSkipped
from nodeagent_plugins.credential_exec.cache import Kept, Key, ResponseCache, cache_key
from nodeagent_plugins.credential_exec.executables import find_executable
from nodeagent_plugins.credential_exec.protocol import (
    CacheKeyType,
    ProviderFailure,
    ProviderResponse,
    encode_request,
    read_response,
)

_log = logging.getLogger(__name__)

FAILURES = Counter(
    "credential_provider_plugin_errors", "Number of errors from credential provider plugin", ("plugin_name",)
)
DURATIONS = Histogram(
    "credential_provider_plugin_duration",
    "Duration of execution in seconds for credential provider plugin",
    ("plugin_name",),
)
CONFIG_INFO = Gauge(
    "credential_provider_config_info",
    "Information about the last applied credential provider configuration with hash as label",
    ("hash",),
)

Run = Callable[[Command, bytes, Limits], Awaitable[CommandResult]]


class _Flight(Struct, frozen=True):
    """A request in flight."""

    image: str
    task: asyncio.Task[tuple[ProviderResponse | None, CredentialLookup]]


class ExecProvider:
    """Runs one executable.

    :param directory: directory of the executable, which ``find_directory`` returned.
    :param api: the API client for service accounts and their tokens; ``None`` if there is none.
    :param run: starts the process and waits for its exit.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        directory: Path,
        clock: Clock,
        tasks: TaskOwner,
        *,
        api: Api | None = None,
        limits: Limits | None = None,
        run: Run = run_command,
    ) -> None:
        self.name = settings.name
        self._settings, self._directory, self._clock, self._tasks = settings, directory, clock, tasks
        self._limits, self._run = limits or Limits(), run
        self._cache = ResponseCache(clock, settings.default_cache_duration or Duration())
        attributes = settings.token_attributes
        self._accounts = PodAccounts(attributes, api, clock) if attributes is not None else None
        self._usual_key = CacheKeyType.IMAGE
        self._flights: dict[Key, _Flight] = {}

    async def lookup(self, image: str, pod: Pod | None = None) -> CredentialLookup:
        """Return the provider's credentials for *image* if a pattern matches it; never raises.

        Concurrent equal requests share one process. The previous response defines which requests are equal: a provider
        that returns credentials for a registry is called once for all of its images.

        :param pod: the pod whose service account the provider receives, if it is configured to.
        """
        patterns = tuple(pattern for pattern in self._settings.match_images if matches(pattern, image))
        if not patterns:
            return CredentialLookup(self.name)
        try:
            account = await self._accounts.read(pod) if self._accounts is not None else None
        except ProviderSkipped as skipped:
            return CredentialLookup(self.name, skipped=str(skipped))
        except ProviderFailure as failure:
            self._log_failure(image, failure)
            return CredentialLookup(self.name, patterns, failure=str(failure))
        scope = account.scope if account is not None else None
        while True:
            kept = self._cache.get(image, scope)
            if kept is not None:
                return self._from_cache(kept, patterns)
            flight = self._flight(image, account)
            response, inquiry = await asyncio.shield(flight.task)
            if response is None or cache_key(response.key_type, image) == cache_key(response.key_type, flight.image):
                return replace(inquiry, patterns=patterns)

    def _from_cache(self, kept: Kept, patterns: tuple[str, ...]) -> CredentialLookup:
        left = Duration.of(seconds=round(kept.until - self._clock.now()))
        caching = f"{kept.response.key_type}, for another {left}"
        return CredentialLookup(self.name, patterns, auth=kept.response.auth, caching=caching)

    def _flight(self, image: str, account: PodAccount | None) -> _Flight:
        key = cache_key(self._usual_key, image, account.scope if account is not None else None)
        flight = self._flights.get(key)
        if flight is None:
            task = self._tasks.start(self._run_provider(image, account), f"credentials/{self.name}/{image}")
            flight = self._flights[key] = _Flight(image, task)
            task.add_done_callback(lambda _: self._flights.pop(key, None))
        return flight

    async def _run_provider(
        self, image: str, account: PodAccount | None
    ) -> tuple[ProviderResponse | None, CredentialLookup]:
        command = (str(self._directory / self.name), *self._settings.args)
        shown = self._request(image, account.masked() if account is not None else None)
        inquiry = CredentialLookup(self.name, command=command, request=shown.decode().rstrip())
        started = self._clock.now()
        try:
            response = await self._run_once(self._request(image, account))
            self._check_passwords(response, account)
            response = _owned(response, account)
        except ProviderFailure as failure:
            FAILURES.inc(self.name)
            self._log_failure(image, failure)
            detail = failure.detail.replace(account.token, MASK) if account is not None else failure.detail
            failed = replace(inquiry, failure=str(failure), detail=detail)
            return None, replace(failed, seconds=self._clock.now() - started)
        self._usual_key = response.key_type
        duration = self._cache.put(image, response, account.scope if account is not None else None)
        caching = f"{response.key_type}, for {duration}" if duration > Duration() else "not cached"
        seconds = self._clock.now() - started
        return response, replace(inquiry, auth=response.auth, caching=caching, seconds=seconds)

    def _request(self, image: str, account: PodAccount | None) -> bytes:
        if account is None:
            return encode_request(self._settings.api_version, image)
        annotations = dict(account.annotations)
        return encode_request(self._settings.api_version, image, token=account.token, annotations=annotations)

    def _check_passwords(self, response: ProviderResponse, account: PodAccount | None) -> None:
        """Check that a response for all pods of a service account does not contain the token of one pod.

        :raises ProviderFailure: a password is the token.
        """
        if account is None or self._accounts is None or self._accounts.is_token_password:
            return
        if any(credentials.password == account.token for credentials in response.auth.values()):
            raise ProviderFailure("returned the service account token as password, which requires cacheType Token")

    def _log_failure(self, image: str, failure: ProviderFailure) -> None:
        # The output is not logged, because a script with tracing writes its secrets to standard error.
        _log.warning(
            "Failed getting credential from external registry credential provider",
            extra={"provider": self.name, "image": image, "err": str(failure)},
        )

    async def _run_once(self, request: bytes) -> ProviderResponse:
        """Run the executable and parse its output.

        :raises ProviderFailure: the executable failed or its output is invalid.
        """
        limits, settings = self._limits, self._settings
        try:
            path = await asyncio.to_thread(find_executable, self._directory, self.name)
        except ValueError as error:
            raise ProviderFailure(str(error)) from error
        environment = os.environ | {variable.name: variable.value for variable in settings.env}
        try:
            with DURATIONS.time(self._clock.now, self.name):
                finished = await self._run(Command(str(path), settings.args, environment), request, limits)
        except TimeoutError:
            raise ProviderFailure(f"timed out after {limits.seconds:g} s and was killed") from None
        except (OSError, ValueError) as error:  # ValueError is raised for an argument with a null byte.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reason = reason.lower()
            if isinstance(error, FileNotFoundError):  # The executable exists, but its interpreter or loader does not.
                reason = "its interpreter or loader is missing on this node"
            raise ProviderFailure(f"failed to start: {reason}") from error
        return read_response(finished, self.name, settings.api_version, limits.output_bytes)


def _owned(response: ProviderResponse, account: PodAccount | None) -> ProviderResponse:
    """Return *response* with credentials that belong to *account*; without one, they belong to the node."""
    if account is None:
        return response
    owner = CredentialOwner(OwnerKind.SERVICE_ACCOUNT, account.namespace, account.name, account.uid)
    return replace(response, auth={where: replace(found, owner=owner) for where, found in response.auth.items()})
