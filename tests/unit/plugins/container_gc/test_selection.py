"""Tests for the selection of sandboxes."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import LABEL_POD_UID, ContainerInfo, ContainerState, SandboxInfo
from nodeagent_plugins.container_gc.selection import PodGcState, Policy, surplus_containers, surplus_sandboxes


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


@pytest.mark.parametrize(
    ("total", "removed"),
    [(-1, []), (4, []), (3, ["a-0", "a-1"]), (0, ["a-0", "a-1", "a-2", "b-3"])],
)
def test_containers_are_removed_only_above_the_limit_of_the_node(total, removed):
    dead = [
        ContainerInfo(f"{u}-{n}", "s", "main", n, "i", "i", ContainerState.EXITED, n, {LABEL_POD_UID: u})
        for n, u in enumerate("aaab")
    ]
    policy = Policy(per_container=-1, total=total)

    found = surplus_containers(dead, dict.fromkeys("ab", PodGcState.ENDED), policy, 10**18)

    assert [one.id for one in found] == removed
