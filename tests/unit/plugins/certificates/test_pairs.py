"""Tests for the helper process that creates and reads certificates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nodeagent_plugins.certificates.managers import client_certificate
from nodeagent_plugins.certificates.pairs import CertificateError, describe, make_request
from tests.unit.plugins.certificates.signing import START
from tests.unit.plugins.certificates.test_manager import make_pair


@pytest.fixture
def in_process() -> None:
    """Start the helper process, unlike other tests."""


def test_helper_process_creates_a_key_and_reads_a_certificate() -> None:
    desired = client_certificate("node-1")
    held = describe(make_pair(desired))
    assert held is not None
    assert held.satisfies(desired)
    assert held.not_before == START


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo Traceback >&2; echo 'MemoryError: 1' >&2; exit 1", "certificate helper failed: MemoryError: 1"),
        ("exit 3", "certificate helper failed: unknown"),
        (None, "certificate helper failed: FileNotFoundError"),
    ],
)
def test_failure_of_the_helper_process_is_reported_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, error: str
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\ncat >/dev/null\n{script}\n")
        python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(CertificateError, match=f"^{error}$"):
        make_request(client_certificate("node-1"))
