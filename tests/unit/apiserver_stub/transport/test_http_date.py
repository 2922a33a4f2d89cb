"""Tests for dates in headers."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from apiserver_stub.transport.http_date import format_http_date, http_date


@pytest.mark.parametrize("seconds", [0, 1, 951_827_696, 1_700_000_000.9, 4_102_444_799])
def test_date_has_the_format_of_mail(seconds: float) -> None:
    assert format_http_date(seconds) == formatdate(seconds, usegmt=True)


def test_current_date_changes_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (1_700_000_000.1, 1_700_000_000.9, 1_700_000_001.0, 1_700_000_000.0):
        monkeypatch.setattr("time.time", lambda now=seconds: now)
        assert http_date() == formatdate(int(seconds), usegmt=True)
