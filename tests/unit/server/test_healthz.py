"""Tests for the check of dropped log lines."""

from types import SimpleNamespace

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
