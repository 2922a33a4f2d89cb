"""A provider is asked for the images it matches, as configured, and its answers are kept as long as they hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.contracts.images import CredentialLookup
from nodeagent.testing import FakeClock
from nodeagent_plugins.credential_exec.provider import DURATIONS, FAILURES, ExecProvider
from tests.unit.plugins.credential_exec.conftest import V1, Programs, login, response

MakeProvider = Callable[..., ExecProvider]


async def ask(provider: ExecProvider, *images: str) -> list[CredentialLookup]:
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
async def test_runs_only_when_a_pattern_matches(
    make_provider: MakeProvider, programs: Programs, image: str, matching: tuple[str, ...]
) -> None:
    provider = make_provider(match_images=("*.registry.io", "registry.io:8080/path", "*.other.*", "globs.io/*/img"))

    (inquiry,) = await ask(provider, image)

    assert inquiry.patterns == matching
    assert programs.images == ([image] if matching else [])


@pytest.mark.row("credential.args", "credential.env", "type.ExecEnvVar.name", "type.ExecEnvVar.value")
async def test_runs_with_its_arguments_in_the_hosts_environment_and_its_own(
    make_provider: MakeProvider, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HOST", "host")
    monkeypatch.setenv("BOTH", "host")
    provider = make_provider(args=("get", "--region=a b; exit"), env={"BOTH": "own", "OWN": "x"})

    (inquiry,) = await ask(provider, "reg.io/x")

    assert programs.last is not None
    assert programs.last.arguments == ("get", "--region=a b; exit")
    assert inquiry.command[1:] == programs.last.arguments
    environment = programs.last.environment
    assert [environment[name] for name in ("FROM_HOST", "BOTH", "OWN")] == ["host", "own", "x"]


@pytest.mark.row("credential.apiVersion")
async def test_is_asked_in_its_version(make_provider: MakeProvider, programs: Programs) -> None:
    beta = V1.replace("/v1", "/v1beta1")
    provider = make_provider(response({"reg.io": login("bob")}, apiVersion=beta), api_version=beta)

    (inquiry,) = await ask(provider, "reg.io/x")

    assert programs.runs[0][1]["apiVersion"] == beta
    assert inquiry.auth["reg.io"].username == "bob"


@pytest.mark.parametrize(
    ("key_type", "shared"),
    [
        ("Image", {"a.io/x"}),
        ("Registry", {"a.io/x", "a.io/y"}),
        ("Global", {"a.io/x", "a.io/y", "a.io:5000/x", "b.io/x"}),
    ],
)
async def test_an_answer_serves_those_it_is_for(
    make_provider: MakeProvider, programs: Programs, key_type: str, shared: set[str]
) -> None:
    images = ["a.io/x", "a.io/y", "a.io:5000/x", "b.io/x"]
    provider = make_provider(response({}, key_type), match_images=("*.io", "*.io:5000"))

    for image in images:
        await ask(provider, image)
    for image in images:
        await ask(provider, image)

    assert programs.images == ["a.io/x", *(image for image in images if image not in shared)]


@pytest.mark.row("credential.defaultCacheDuration")
@pytest.mark.parametrize(
    ("fields", "hold", "kept_seconds"),
    [({}, "1m", 60), ({"cacheDuration": "5m0s"}, "1m", 300), ({"cacheDuration": None}, "30s", 30)],
)
async def test_an_answer_is_kept_as_long_as_it_says_or_else_by_default(
    make_provider: MakeProvider, programs: Programs, clock: FakeClock, fields: dict, hold: str, kept_seconds: float
) -> None:
    provider = make_provider(response({"reg.io": login("bob")}, **fields), hold=hold)
    await ask(provider, "reg.io/x")

    await clock.advance(kept_seconds - 1)
    (kept,) = await ask(provider, "reg.io/x")
    runs_before = len(programs.runs)
    await clock.advance(1)
    await ask(provider, "reg.io/x")

    assert (runs_before, len(programs.runs)) == (1, 2)
    assert kept.auth["reg.io"].password == "secret"
    assert kept.caching == "Registry, for another 1s"


@pytest.mark.row("credential.defaultCacheDuration")
@pytest.mark.parametrize(
    ("fields", "hold"), [({}, "0s"), ({"cacheDuration": "0s"}, "1m"), ({"cacheDuration": "-1s"}, "1m")]
)
async def test_a_length_of_zero_keeps_nothing(
    make_provider: MakeProvider, programs: Programs, fields: dict, hold: str
) -> None:
    provider = make_provider(response({}, **fields), hold=hold)

    for _ in range(2):
        await ask(provider, "reg.io/x")

    assert len(programs.runs) == 2


async def test_an_answer_for_the_image_comes_before_one_for_its_registry(
    make_provider: MakeProvider, programs: Programs
) -> None:
    provider = make_provider(response({"reg.io": login("image")}, "Image"))
    await ask(provider, "reg.io/x")
    programs.answers["keys"] = response({"reg.io": login("registry")}, "Registry")
    await ask(provider, "reg.io/y")

    inquiries = await ask(provider, "reg.io/x", "reg.io/y", "reg.io/z")

    assert [inquiry.auth["reg.io"].username for inquiry in inquiries] == ["image", "registry", "registry"]


async def test_a_failure_is_not_kept(make_provider: MakeProvider, programs: Programs) -> None:
    provider = make_provider(CommandResult(1, b""))

    (first,) = await ask(provider, "reg.io/x")
    programs.answers["keys"] = response({"reg.io": login("bob")})
    (second,) = await ask(provider, "reg.io/x")

    assert (first.failure, first.auth) == ("ended with exit code 1", {})
    assert (second.failure, second.auth["reg.io"].username) == ("", "bob")


async def test_all_who_ask_for_one_image_share_one_process(
    make_provider: MakeProvider, programs: Programs, clock: FakeClock
) -> None:
    provider = make_provider(response({"reg.io": login("bob")}, "Image"), hold="0s")
    programs.gate.clear()
    asking = [asyncio.ensure_future(provider.lookup("reg.io/x")) for _ in range(5)]
    await clock.settle()
    asking[0].cancel()
    await clock.settle()

    programs.gate.set()
    inquiries = await asyncio.gather(*asking[1:])

    assert len(programs.runs) == 1
    assert {inquiry.auth["reg.io"].username for inquiry in inquiries} == {"bob"}


async def test_one_that_answers_for_a_registry_is_asked_once_for_all_its_images(
    make_provider: MakeProvider, programs: Programs, clock: FakeClock
) -> None:
    provider = make_provider(response({}, "Registry"), hold="10s")
    await ask(provider, "reg.io/first")
    await clock.advance(10)

    await ask(provider, *(f"reg.io/{number}" for number in range(5)), "other.io/x")

    assert sorted(programs.images) == ["other.io/x", "reg.io/0", "reg.io/first"]


async def test_whoever_shared_an_answer_that_is_not_theirs_asks_again(
    make_provider: MakeProvider, programs: Programs, clock: FakeClock
) -> None:
    provider = make_provider(response({}, "Registry"), hold="10s")
    await ask(provider, "reg.io/first")
    await clock.advance(10)
    programs.answers["keys"] = response({"reg.io": login("bob")}, "Image")

    inquiries = await ask(provider, "reg.io/a", "reg.io/b")

    assert sorted(programs.images) == ["reg.io/a", "reg.io/b", "reg.io/first"]
    assert all(inquiry.auth for inquiry in inquiries)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (TimeoutError(), "did not answer within 60 s and was killed"),
        (
            FileNotFoundError(2, "No such file or directory"),
            "cannot be started: the interpreter that its first line names, or its loader, is not on this node",
        ),
        (OSError(8, "Exec format error"), "cannot be started: exec format error"),
        (ValueError("embedded null byte"), "cannot be started: embedded null byte"),
        (CommandResult(0, None), "printed more than 1024 KiB and was killed"),
    ],
)
async def test_a_failure_is_told_and_logged_without_what_the_program_wrote(
    make_provider: MakeProvider, caplog: pytest.LogCaptureFixture, answer: object, text: str
) -> None:
    (inquiry,) = await ask(make_provider(answer), "reg.io/x")

    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert inquiry.failure == text
    assert (record.provider, record.image, record.err) == ("keys", "reg.io/x", text)


async def test_standard_error_goes_to_the_operator_and_not_into_the_log(
    make_provider: MakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    (inquiry,) = await ask(make_provider(CommandResult(1, b"hunter2", b"+ echo hunter2")), "reg.io/x")

    assert inquiry.detail == "+ echo hunter2"
    assert "hunter2" not in " ".join(str(vars(record)) for record in caplog.records)


async def test_a_program_that_was_exchanged_for_a_bad_one_is_not_run(
    make_provider: MakeProvider, programs: Programs, tmp_path
) -> None:
    provider = make_provider()
    (tmp_path / "bin" / "keys").chmod(0o777)

    (inquiry,) = await ask(provider, "reg.io/x")

    assert inquiry.failure.startswith("is writable for everybody")
    assert programs.runs == []


async def test_runs_and_failures_are_counted_by_provider(make_provider: MakeProvider) -> None:
    before = FAILURES.value("keys"), DURATIONS.count("keys")

    await ask(make_provider(CommandResult(1, b"")), "reg.io/x")

    assert (FAILURES.value("keys") - before[0], DURATIONS.count("keys") - before[1]) == (1, 1)
