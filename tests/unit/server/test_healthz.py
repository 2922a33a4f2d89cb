"""Tests for ``/healthz`` and the check of dropped log lines."""

from types import SimpleNamespace

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.server import healthz


def test_dropped_log_lines_fail_the_next_check_only(monkeypatch):
    log = SimpleNamespace(dropped=2)
    monkeypatch.setattr(healthz, "active", lambda: log)
    check = healthz._LogCheck()

    assert [check(), check()] == ["2 log lines were dropped", ""]
    log.dropped = 5
    assert [check(), check()] == ["3 log lines were dropped", ""]


def test_logs_of_another_process_are_not_checked(monkeypatch):
    monkeypatch.setattr(healthz, "active", lambda: None)
    assert healthz._LogCheck()() == ""


@pytest.mark.parametrize(
    ("check", "status", "text"),
    [
        ("ping", 200, "ok"),
        ("loop", 500, "internal server error: stuck\n"),
        ("none", 404, "no such check\n"),
    ],
)
async def test_one_check_has_its_own_path(check, status, text):
    _, one = healthz.health_routes({"loop": lambda: "stuck"})

    response = await one.handler(make_mocked_request("GET", f"/healthz/{check}", match_info={"check": check}))

    assert (response.status, response.text) == (status, text)


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 500, "[+]ping ok\n[-]loop failed: reason withheld\nhealthz check failed\n"),
        ("?exclude=loop", 200, "ok"),
        ("?exclude=loop&verbose", 200, "[+]ping ok\nhealthz check passed\n"),
    ],
)
async def test_all_checks_are_performed_except_excluded_ones(monkeypatch, query, status, text):
    monkeypatch.setattr(healthz, "_LogCheck", lambda: lambda: "")
    every, _ = healthz.health_routes({"loop": lambda: "stuck"})

    response = await every.handler(make_mocked_request("GET", f"/healthz{query}{'&' if query else '?'}exclude=log"))

    assert (response.status, response.text) == (status, text)
