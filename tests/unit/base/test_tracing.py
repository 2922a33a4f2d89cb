"""Tests for disabled tracing: no calls and no imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodeagent.base import tracing


def test_disabled_tracing_computes_no_attributes_and_sends_no_headers() -> None:
    def never() -> dict[str, str]:
        raise AssertionError("asked")

    with tracing.span("syncPod", never):
        assert tracing.outgoing() == {}
    assert tracing.span("a") is tracing.span("b")
    with tracing.child("Create", never):
        tracing.event("About to store object in database")
        tracing.annotate(never, failed=True)


async def test_disabled_tracing_returns_awaitables_unchanged() -> None:
    async def work() -> str:
        return "done"

    awaited = work()
    assert tracing.during("Get", awaited, dict) is awaited
    assert await awaited == "done"


def test_exception_leaves_a_span_unchanged() -> None:
    with pytest.raises(LookupError), tracing.span("syncPod"):
        raise LookupError


def test_disabled_tracing_imports_no_library() -> None:
    code = "import nodeagent.base.tracing, nodeagent_plugins.tracing, sys; print('opentelemetry' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
