"""Tracing that is off costs nothing, and imports nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodeagent.base import tracing


def test_off_nothing_is_asked_and_nothing_is_handed_on() -> None:
    def never() -> dict[str, str]:
        raise AssertionError("asked")

    with tracing.span("syncPod", never):
        assert tracing.outgoing() == {}
    assert tracing.span("a") is tracing.span("b")


def test_an_error_passes_through() -> None:
    with pytest.raises(LookupError), tracing.span("syncPod"):
        raise LookupError


def test_the_library_is_not_imported_by_the_seam() -> None:
    code = "import nodeagent.base.tracing, nodeagent_plugins.tracing, sys; print('opentelemetry' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
