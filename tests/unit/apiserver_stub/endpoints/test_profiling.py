"""Tests for the endpoints of the profiler and of the log verbosity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints import profiling as module
from apiserver_stub.endpoints.profiling import Profiling
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.identity import Identity
from nodeagent.base.logging import LoggingError
from nodeagent.base.profiling.profiles import InvalidParameter
from nodeagent.base.profiling.sampling import Busy


class FakeProfiles:
    """Profiles with the name ``heap``; requests for other names return ``None``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.taken: list[tuple[str, Any]] = []

    async def take(self, name: str, query: Any) -> Any:
        self.taken.append((name, query))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(body=b"x", content_type="a/b", headers={"A": "b"}) if name == "heap" else None


async def send(
    path: str, query: str = "", method: str = "GET", body: bytes = b"", profiles: Any = None
) -> Reply | None:
    request = Request(method, RequestInfo("get", path), Query(query), {}, body, ANONYMOUS, PLAIN, Identity())
    return await Profiling(profiles or FakeProfiles()).respond(request)


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/pprof"])
async def test_profiles_are_listed(path: str) -> None:
    reply = await send(path)

    assert reply is not None and reply.body is not None
    assert (reply.code, reply.content_type) == (200, "text/html; charset=utf-8")
    assert b'<a href="heap">heap</a>' in reply.body


async def test_profile_is_sent_with_its_type() -> None:
    profiles = FakeProfiles()

    reply = await send("/debug/pprof/heap", "seconds=1&gc=1&x=y", profiles=profiles)

    assert reply is not None
    assert (reply.code, reply.body, reply.content_type, reply.headers) == (200, b"x", "a/b", {"A": "b"})
    assert profiles.taken == [("heap", {"seconds": "1", "debug": "", "gc": "1"})]


@pytest.mark.parametrize("path", ["/debug/pprof/unknown", "/debug/pproof", "/debug", "/debug/flags"])
async def test_other_paths_are_not_those_of_the_profiler(path: str) -> None:
    assert await send(path) is None


@pytest.mark.parametrize(("error", "code"), [(InvalidParameter("no"), 400), (Busy("busy"), 409)])
async def test_profile_that_cannot_be_taken_is_an_error(error: Exception, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        await send("/debug/pprof/heap", profiles=FakeProfiles(error))

    assert (raised.value.code, raised.value.message) == (code, str(error))


async def test_log_verbosity_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []

    def set_verbosity(level: int) -> None:
        if level > 10:
            raise LoggingError("too high")
        levels.append(level)

    async def put(body: bytes, method: str = "PUT") -> tuple[int, bytes | None]:
        reply = await send("/debug/flags/v", method=method, body=body)
        assert reply is not None
        return reply.code, reply.body

    monkeypatch.setattr(module.logging, "active", lambda: SimpleNamespace(set_verbosity=set_verbosity))
    assert await put(b" 4\n") == (200, b"successfully set klog.logging.verbosity to 4")
    assert (await put(b"x"))[0] == (await put(b"11"))[0] == 400
    assert await put(b"4", "GET") == (406, b"unsupported http method")
    assert levels == [4]
    monkeypatch.setattr(module.logging, "active", lambda: None)
    assert (await put(b"5"))[0] == 200
