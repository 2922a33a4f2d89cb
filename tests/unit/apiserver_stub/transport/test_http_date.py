"""Tests for dates in headers."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from apiserver_stub.transport.http_date import format_http_date


@pytest.mark.parametrize("seconds", [0, 1, 951_827_696, 1_700_000_000.9, 4_102_444_799])
def test_date_has_the_format_of_mail(seconds: float) -> None:
    assert format_http_date(seconds) == formatdate(seconds, usegmt=True)
