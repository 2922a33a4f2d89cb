"""Tests for a single provider."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.contracts.images import CredentialLookup
from nodeagent.testing import FakeClock
from nodeagent_plugins.credential_exec.provider import DURATIONS, FAILURES, ExecProvider
from tests.unit.plugins.credential_exec.conftest import V1, Executables, login, make_response

MakeProvider = Callable[..., ExecProvider]


async def call(provider: ExecProvider, *images: str) -> list[CredentialLookup]:
    return list(await asyncio.gather(*(provider.lookup(image) for image in images)))


@pytest.mark.row("credential.matchImages")
@pytest.mark.parametrize(
    ("image", "matching"),
    [
        ("a.registry.io/x", ("*.registry.io",)),
        ("registry.io:8080/path/img", ("registry.io:8080/path",)),
        ("registry.io/path/img", ()),
        ("registry.io:8080/other/img", ()),
        ("a.b.registry.io/x", ()),
        ("a.other.com/x", ("*.other.*",)),
        ("globs.io/team/img", ()),
    ],
)
async def test_provider_runs_only_if_a_pattern_matches(
    make_provider: MakeProvider, executables: Executables, image: str, matching: tuple[str, ...]
) -> None:
    provider = make_provider(match_images=("*.registry.io", "registry.io:8080/path", "*.other.*", "globs.io/*/img"))

    (inquiry,) = await call(provider, image)

    assert inquiry.patterns == matching
    assert executables.images == ([image] if matching else [])


@pytest.mark.row("credential.args", "credential.env", "type.ExecEnvVar.name", "type.ExecEnvVar.value")
async def test_provider_runs_with_arguments_and_environment(
    make_provider: MakeProvider, executables: Executables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HOST", "host")
    monkeypatch.setenv("BOTH", "host")
    provider = make_provider(args=("get", "--region=a b; exit"), env={"BOTH": "own", "OWN": "x"})

    (inquiry,) = await call(provider, "reg.io/x")

    assert executables.last is not None
    assert executables.last.arguments == ("get", "--region=a b; exit")
    assert inquiry.command[1:] == executables.last.arguments
    environment = executables.last.environment
    assert [environment[name] for name in ("FROM_HOST", "BOTH", "OWN")] == ["host", "own", "x"]


@pytest.mark.row("credential.apiVersion")
async def test_request_has_the_configured_version(make_provider: MakeProvider, executables: Executables) -> None:
    beta = V1.replace("/v1", "/v1beta1")
    provider = make_provider(make_response({"reg.io": login("bob")}, apiVersion=beta), api_version=beta)

    (inquiry,) = await call(provider, "reg.io/x")

    assert executables.runs[0][1]["apiVersion"] == beta
    assert inquiry.auth["reg.io"].username == "bob"


@pytest.mark.parametrize(
    ("key_type", "shared"),
    [
        ("Image", {"a.io/x"}),
        ("Registry", {"a.io/x", "a.io/y"}),
        ("Global", {"a.io/x", "a.io/y", "a.io:5000/x", "b.io/x"}),
    ],
)
async def test_cached_response_applies_to_its_key_type(
    make_provider: MakeProvider, executables: Executables, key_type: str, shared: set[str]
) -> None:
    images = ["a.io/x", "a.io/y", "a.io:5000/x", "b.io/x"]
    provider = make_provider(make_response({}, key_type), match_images=("*.io", "*.io:5000"))

    for image in images:
        await call(provider, image)
    for image in images:
        await call(provider, image)

    assert executables.images == ["a.io/x", *(image for image in images if image not in shared)]


@pytest.mark.row("credential.defaultCacheDuration")
@pytest.mark.parametrize(
    ("fields", "hold", "kept_seconds"),
    [({}, "1m", 60), ({"cacheDuration": "5m0s"}, "1m", 300), ({"cacheDuration": None}, "30s", 30)],
)
async def test_response_is_cached_for_its_or_the_default_duration(
    make_provider: MakeProvider,
    executables: Executables,
    clock: FakeClock,
    fields: dict,
    hold: str,
    kept_seconds: float,
) -> None:
    provider = make_provider(make_response({"reg.io": login("bob")}, **fields), hold=hold)
    await call(provider, "reg.io/x")

    await clock.advance(kept_seconds - 1)
    (kept,) = await call(provider, "reg.io/x")
    runs_before = len(executables.runs)
    await clock.advance(1)
    await call(provider, "reg.io/x")

    assert (runs_before, len(executables.runs)) == (1, 2)
    assert kept.auth["reg.io"].password == "secret"
    assert kept.caching == "Registry, for another 1s"


@pytest.mark.row("credential.defaultCacheDuration")
@pytest.mark.parametrize(
    ("fields", "hold"), [({}, "0s"), ({"cacheDuration": "0s"}, "1m"), ({"cacheDuration": "-1s"}, "1m")]
)
async def test_duration_of_zero_disables_caching(
    make_provider: MakeProvider, executables: Executables, fields: dict, hold: str
) -> None:
    provider = make_provider(make_response({}, **fields), hold=hold)

    for _ in range(2):
        await call(provider, "reg.io/x")

    assert len(executables.runs) == 2


async def test_response_by_image_precedes_one_by_registry(
    make_provider: MakeProvider, executables: Executables
) -> None:
    provider = make_provider(make_response({"reg.io": login("image")}, "Image"))
    await call(provider, "reg.io/x")
    executables.responses["keys"] = make_response({"reg.io": login("registry")}, "Registry")
    await call(provider, "reg.io/y")

    inquiries = await call(provider, "reg.io/x", "reg.io/y", "reg.io/z")

    assert [inquiry.auth["reg.io"].username for inquiry in inquiries] == ["image", "registry", "registry"]


async def test_failure_is_not_cached(make_provider: MakeProvider, executables: Executables) -> None:
    provider = make_provider(CommandResult(1, b""))

    (first,) = await call(provider, "reg.io/x")
    executables.responses["keys"] = make_response({"reg.io": login("bob")})
    (second,) = await call(provider, "reg.io/x")

    assert (first.failure, first.auth) == ("exited with code 1", {})
    assert (second.failure, second.auth["reg.io"].username) == ("", "bob")


async def test_concurrent_requests_for_an_image_share_a_process(
    make_provider: MakeProvider, executables: Executables, clock: FakeClock
) -> None:
    provider = make_provider(make_response({"reg.io": login("bob")}, "Image"), hold="0s")
    executables.gate.clear()
    request = [asyncio.ensure_future(provider.lookup("reg.io/x")) for _ in range(5)]
    await clock.settle()
    request[0].cancel()
    await clock.settle()

    executables.gate.set()
    inquiries = await asyncio.gather(*request[1:])

    assert len(executables.runs) == 1
    assert {inquiry.auth["reg.io"].username for inquiry in inquiries} == {"bob"}


async def test_provider_for_a_registry_is_called_once_for_all_images(
    make_provider: MakeProvider, executables: Executables, clock: FakeClock
) -> None:
    provider = make_provider(make_response({}, "Registry"), hold="10s")
    await call(provider, "reg.io/first")
    await clock.advance(10)

    await call(provider, *(f"reg.io/{number}" for number in range(5)), "other.io/x")

    assert sorted(executables.images) == ["other.io/x", "reg.io/0", "reg.io/first"]


async def test_request_with_an_unrelated_shared_response_is_repeated(
    make_provider: MakeProvider, executables: Executables, clock: FakeClock
) -> None:
    provider = make_provider(make_response({}, "Registry"), hold="10s")
    await call(provider, "reg.io/first")
    await clock.advance(10)
    executables.responses["keys"] = make_response({"reg.io": login("bob")}, "Image")

    inquiries = await call(provider, "reg.io/a", "reg.io/b")

    assert sorted(executables.images) == ["reg.io/a", "reg.io/b", "reg.io/first"]
    assert all(inquiry.auth for inquiry in inquiries)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (TimeoutError(), "timed out after 60 s and was killed"),
        (
            FileNotFoundError(2, "No such file or directory"),
            "failed to start: its interpreter or loader is missing on this node",
        ),
        (OSError(8, "Exec format error"), "failed to start: exec format error"),
        (ValueError("embedded null byte"), "failed to start: embedded null byte"),
        (CommandResult(0, None), "printed more than 1024 KiB and was killed"),
    ],
)
async def test_failure_is_returned_and_logged_without_output(
    make_provider: MakeProvider, caplog: pytest.LogCaptureFixture, response: object, text: str
) -> None:
    (inquiry,) = await call(make_provider(response), "reg.io/x")

    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert inquiry.failure == text
    assert (record.provider, record.image, record.err) == ("keys", "reg.io/x", text)


async def test_standard_error_is_returned_and_not_logged(
    make_provider: MakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    (inquiry,) = await call(make_provider(CommandResult(1, b"hunter2", b"+ echo hunter2")), "reg.io/x")

    assert inquiry.detail == "+ echo hunter2"
    assert "hunter2" not in " ".join(str(vars(record)) for record in caplog.records)


async def test_executable_that_became_unusable_is_not_run(
    make_provider: MakeProvider, executables: Executables, tmp_path
) -> None:
    provider = make_provider()
    (tmp_path / "bin" / "keys").chmod(0o777)

    (inquiry,) = await call(provider, "reg.io/x")

    assert inquiry.failure.startswith("is world-writable")
    assert executables.runs == []


async def test_runs_and_failures_are_counted_by_provider(make_provider: MakeProvider) -> None:
    before = FAILURES.value("keys"), DURATIONS.count("keys")

    await call(make_provider(CommandResult(1, b"")), "reg.io/x")

    assert (FAILURES.value("keys") - before[0], DURATIONS.count("keys") - before[1]) == (1, 1)
