"""Tests for the selection of sandboxes."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import ContainerInfo, ContainerState, SandboxInfo
from nodeagent_plugins.container_gc.selection import PodGcState, surplus_sandboxes


def sandbox(attempt, *, ready=False, uid="a"):
    return SandboxInfo(f"{uid}-{attempt}", "web", uid, "default", attempt, ready, attempt)


def container(sandbox_id):
    return ContainerInfo("c", sandbox_id, "main", 0, "i", "i", ContainerState.EXITED, 1)


@pytest.mark.parametrize(
    ("state", "removed"),
    [(PodGcState.EVICTED, ["a-3", "a-0"]), (PodGcState.ENDED, ["a-0"]), (PodGcState.LIVES, ["a-0"])],
)
def test_empty_sandboxes_that_are_not_ready_are_removed(state, removed):
    sandboxes = [sandbox(0), sandbox(1, ready=True), sandbox(2), sandbox(3), sandbox(0, uid="unknown")]

    found = surplus_sandboxes(sandboxes, [container("a-2")], {"a": state})

    assert [each.id for each in found] == removed
