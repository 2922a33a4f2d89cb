"""Tests for the diff of two runtime listings."""

import pytest

from nodeagent.pleg.diff import changed_pods
from nodeagent.testing import FakeRuntime, make_pod

POD, OTHER = make_pod("web"), make_pod("other")


@pytest.fixture
async def runtime(clock):
    runtime = FakeRuntime(clock)
    for pod in (POD, OTHER):
        for name in ("a", "b"):
            runtime.start(name, pod)
    return runtime


@pytest.fixture
def known(runtime):
    return {pod.uid: runtime.pod(pod.uid) for pod in (POD, OTHER)}


async def changes(runtime, known, *, without=""):
    sandboxes = [each for each in await runtime.list_sandboxes() if each.id != without]
    containers = [each for each in await runtime.list_containers() if each.id != without]
    return changed_pods(known, sandboxes, containers)


async def test_same_listing_has_no_changes(runtime, known):
    assert await changes(runtime, known) == {}


@pytest.mark.parametrize("kind", ["sandboxes", "containers"])
async def test_only_the_pod_of_a_removed_object_has_changed(runtime, known, kind):
    removed = getattr(known[POD.uid], kind)[0].id

    found = await changes(runtime, known, without=removed)

    assert set(found) == {POD.uid}
    assert found[POD.uid].removed and found[POD.uid].changed == set()
    assert removed not in (*found[POD.uid].sandbox_ids, *found[POD.uid].container_ids)


async def test_new_and_exited_objects_have_changed(runtime, known):
    exited = known[POD.uid].containers[0].id
    runtime.exit(exited)
    new = runtime.start("a", make_pod("new"))

    found = await changes(runtime, known)

    assert set(found) == {POD.uid, "uid-new"}
    assert (found[POD.uid].changed, found[POD.uid].removed) == ({exited}, False)
    assert found["uid-new"].changed == {new, *found["uid-new"].sandbox_ids}


async def test_containers_of_other_users_of_the_runtime_are_ignored(runtime, known):
    runtime.start("a", make_pod("x", uid=""), labels={"io.kubernetes.pod.uid": ""})
    sandboxes = [each for each in await runtime.list_sandboxes() if each.uid in known]
    found = changed_pods(known, sandboxes, await runtime.list_containers())
    assert found == {}
