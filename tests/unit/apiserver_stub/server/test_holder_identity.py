"""Tests for the identity of a server in leader election."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

from apiserver_stub.server.holder_identity import holder_identity


async def test_restarted_server_keeps_its_identity(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        async with AsyncExitStack() as stack:
            found.append(holder_identity(tmp_path, stack))
    assert found[0] == found[1]


async def test_servers_that_run_at_the_same_time_have_different_identities(tmp_path: Path) -> None:
    one, other, copied = tmp_path / "one", tmp_path / "other", tmp_path / "copied"
    one.mkdir()
    other.mkdir()
    async with AsyncExitStack() as stack:
        found = [holder_identity(one, stack), holder_identity(one, stack), holder_identity(other, stack)]
        shutil.copytree(one, copied)
        found.append(holder_identity(copied, stack))
    assert len(set(found)) == 4
