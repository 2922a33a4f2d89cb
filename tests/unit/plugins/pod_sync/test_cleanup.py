"""Tests for the removal of dead containers and empty sandboxes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod, SandboxStatus
from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync.cleanup import empty_sandboxes, surplus_containers
from nodeagent_plugins.pod_sync.labels import ANNOTATION_SANDBOX

RUNNING, EXITED, CREATED = ContainerState.RUNNING, ContainerState.EXITED, ContainerState.CREATED


def container(
    number: int, state: ContainerState = EXITED, *, name: str = "main", owner: str | None = "s2"
) -> RuntimeContainerStatus:
    notes = {} if owner is None else {ANNOTATION_SANDBOX: owner}
    return RuntimeContainerStatus(
        f"{name}-{number}", name, number, state, number, number, 0, 0, "i", "i", annotations=notes
    )


def observed(*containers: RuntimeContainerStatus, older_ready: bool = False) -> RuntimePod:
    sandboxes = [
        SandboxStatus(f"s{n}", "web", "uid-web", "default", n, ready, n)
        for n, ready in ((2, True), (1, older_ready), (0, False))
    ]
    return RuntimePod("uid-web", "web", "default", sandboxes, containers)


@pytest.mark.parametrize(
    ("states", "keep", "removed"),
    [
        ((RUNNING, EXITED, EXITED), 1, ["main-0"]),
        ((RUNNING, EXITED, EXITED), 2, []),
        ((CREATED, EXITED, EXITED), 1, ["main-0"]),
        ((EXITED, CREATED, RUNNING), 1, ["main-1"]),
    ],
)
def test_latest_dead_containers_are_kept(states: tuple[ContainerState, ...], keep: int, removed: list[str]) -> None:
    found = [container(2 - index, state) for index, state in enumerate(states)]

    assert [each.id for each in surplus_containers(observed(*found), keep)] == removed


def test_dead_containers_are_counted_per_name() -> None:
    found = [container(1), container(1, name="other"), container(0, name="other")]

    assert [each.id for each in surplus_containers(observed(*found))] == ["other-0"]


@pytest.mark.parametrize(
    ("containers", "removed", "older_ready", "empty"),
    [
        ([container(1)], (), False, ["s1", "s0"]),
        ([container(1)], (), True, ["s0"]),
        ([container(1), container(0, owner="s1")], (), False, ["s0"]),
        ([container(1), container(0, owner="s1")], ("main-0",), False, ["s1", "s0"]),
        ([container(1, owner=None)], (), False, []),
        ([container(1, owner=None)], ("main-1",), False, ["s1", "s0"]),
    ],
)
def test_stopped_sandboxes_without_containers_are_removed(
    containers: list[RuntimeContainerStatus], removed: tuple[str, ...], older_ready: bool, empty: list[str]
) -> None:
    assert empty_sandboxes(observed(*containers, older_ready=older_ready), removed) == empty


async def test_dead_containers_are_removed_at_their_minimum_age(make_bench, clock) -> None:  # type: ignore[no-untyped-def]
    bench, pod = make_bench(), make_pod("web")
    bench.context.settings = replace(bench.context.settings, minimum_container_ttl_duration=Duration.of(seconds=60))
    for pause in (20, 30):
        await bench.sync(pod)
        bench.runtime.exit(bench.id_of(pod, "main"), 1)
        await clock.advance(pause)
    await bench.sync(pod)

    left = []
    for pause in (9, 1):
        await clock.advance(pause)
        await bench.sync(pod)
        left.append(len(bench.runtime.pod(pod.uid).containers))

    assert left == [3, 2]
