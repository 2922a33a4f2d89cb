"""Fixtures: providers whose executables are functions of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.aio.command import Command, CommandResult, Limits
from nodeagent.base.duration import Duration
from nodeagent.contracts.configuration import CredentialProvider, ExecEnvVar
from nodeagent.testing import FakeApi, FakeClock
from nodeagent_plugins.credential_exec.provider import ExecProvider

V1 = "credentialprovider.kubelet.k8s.io/v1"


def make_response(auth: dict[str, Any] | None = None, key_type: str = "Registry", **fields: Any) -> dict[str, Any]:
    """Return a response as an executable writes it."""
    kind = {"kind": "CredentialProviderResponse", "apiVersion": V1}
    return {**kind, "cacheKeyType": key_type, "auth": auth, **fields}


def login(username: str, password: str = "secret") -> dict[str, str]:
    return {"username": username, "password": password}


class Executables:
    """Replaces the executables: returns responses by name and records each run."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.runs: list[tuple[str, dict[str, Any]]] = []
        self.last: Command | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = self.most_running = 0

    async def run(self, executable: Command, request: bytes, limits: Limits) -> CommandResult:
        name, self.last = Path(executable.path).name, executable
        self.runs.append((name, json.loads(request)))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        response = self.responses[name]
        if isinstance(response, Exception):
            raise response
        return response if isinstance(response, CommandResult) else CommandResult(0, json.dumps(response).encode())

    @property
    def images(self) -> list[str]:
        """Return the requested images, in order."""
        return [request["image"] for _, request in self.runs]


@pytest.fixture
def executables() -> Executables:
    return Executables()


@pytest.fixture
async def make_provider(
    clock: FakeClock, executables: Executables, tmp_path: Path
) -> AsyncIterator[Callable[..., ExecProvider]]:
    """Return a function that creates a provider from a response; keywords are fields of its configuration."""
    directory = tmp_path / "bin"
    directory.mkdir()
    async with TaskOwner("test") as tasks:

        def make(
            response: Any = None, name: str = "keys", *, hold: str = "1m", api: FakeApi | None = None, **fields: Any
        ) -> ExecProvider:
            (directory / name).touch(0o755)
            executables.responses[name] = make_response({}) if response is None else response
            env = tuple(ExecEnvVar(name=key, value=value) for key, value in fields.pop("env", {}).items())
            settings = CredentialProvider(
                name=name,
                match_images=fields.pop("match_images", ("*.io",)),
                default_cache_duration=Duration.parse(hold),
                api_version=fields.pop("api_version", V1),
                env=env,
                **fields,
            )
            return ExecProvider(settings, directory, clock, tasks, api=api, run=executables.run)

        yield make
