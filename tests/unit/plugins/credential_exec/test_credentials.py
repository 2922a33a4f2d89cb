"""Tests for the combination of several providers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.contracts.images import CredentialProvider, DiagnosableCredentialProvider
from nodeagent.testing import FakeClock
from nodeagent_plugins.credential_exec.credentials import ExecCredentials
from nodeagent_plugins.credential_exec.provider import ExecProvider
from tests.unit.plugins.credential_exec.conftest import Executables, login, make_response

MakeProvider = Callable[..., ExecProvider]


async def users(credentials: CredentialProvider, image: str) -> list[str]:
    return [f"{found.source}:{found.username}" for found in await credentials.credentials(image)]


@pytest.mark.row("credential.providers")
async def test_results_are_combined_and_the_first_provider_wins(make_provider: MakeProvider) -> None:
    later_name = make_provider(
        make_response({"reg.io": login("z"), "reg.io/team": login("team")}), "zz-first-of-the-list"
    )
    earlier_name = make_provider(
        make_response({"https://reg.io/v2/": login("a"), "reg.io/team/app": login("app"), "else.io": login("no")}), "aa"
    )

    credentials = ExecCredentials([later_name, earlier_name])

    assert await users(credentials, "reg.io/team/app") == [
        "aa:app",
        "zz-first-of-the-list:team",
        "zz-first-of-the-list:z",
    ]
    assert isinstance(credentials, DiagnosableCredentialProvider)


async def test_credentials_apply_only_to_their_registry(make_provider: MakeProvider) -> None:
    provider = make_provider(
        make_response({"*.reg.io": login("sub"), "other.io": login("other")}), match_images=("*.*", "*.*.*")
    )

    assert await users(ExecCredentials([provider]), "a.reg.io/x") == ["keys:sub"]
    assert await users(ExecCredentials([provider]), "reg.io/x") == []


async def test_providers_run_in_parallel(
    make_provider: MakeProvider, executables: Executables, clock: FakeClock
) -> None:
    providers = [make_provider(make_response({"reg.io": login(name)}), name) for name in ("a", "b", "c")]
    executables.gate.clear()
    request = asyncio.ensure_future(ExecCredentials(providers).credentials("reg.io/x"))
    await clock.settle()

    assert executables.running == 3
    executables.gate.set()
    assert len(await request) == 1


@pytest.mark.parametrize(
    "response", [TimeoutError(), CommandResult(1, b""), CommandResult(0, b"garbage"), CommandResult(0, None)]
)
async def test_failed_provider_does_not_affect_the_others(make_provider: MakeProvider, response: object) -> None:
    bad = make_provider(response, "bad")
    good = make_provider(make_response({"reg.io": login("bob")}), "good")

    responded = await ExecCredentials([bad, good]).lookup("reg.io/x")

    assert [found.username for found in responded.credentials] == ["bob"]
    assert [(inquiry.source, bool(inquiry.failure)) for inquiry in responded.lookups] == [
        ("bad", True),
        ("good", False),
    ]
