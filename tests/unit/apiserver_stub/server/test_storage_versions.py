"""Tests for the reporter of storage versions: it needs two feature gates and its API."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.storage_versions import build_storage_versions
from tests.unit.apiserver_stub.authz.conftest import Memory

SERVED = "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"


@pytest.mark.parametrize(
    ("versions", "identity", "arguments", "reported", "warned"),
    [
        (True, True, [SERVED], True, False),
        (False, True, [SERVED], False, False),
        (True, False, [SERVED], False, False),
        (True, True, [], False, True),
        (False, False, [], False, False),
    ],
)
def test_storage_versions_are_reported_with_both_gates_and_the_api(
    versions: bool,
    identity: bool,
    arguments: list[str],
    reported: bool,
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gates = [f"StorageVersionAPI={str(versions).lower()}", f"APIServerIdentity={str(identity).lower()}"]
    options = parse([f"--feature-gates={','.join(gates)}", *arguments])
    store: Any = Memory()

    found = build_storage_versions(options, store, build_registry(options))

    assert (found is not None) is reported
    assert ("Skipped storage versions, since their API is disabled" in caplog.messages) is warned
