"""Pods with resources, and an allocation manager with fakes."""

import msgspec
import pytest

from nodeagent.allocation.decision import ResizeRules
from nodeagent.allocation.manager import AllocationManager
from nodeagent.model.pod import ResourceRequirements
from nodeagent.testing import FakeRecorder, make_container, make_pod


def sized_container(name="main", *, requests=None, limits=None, **fields):
    container = make_container(name, **fields)
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests=requests, limits=limits))


def sized_pod(name="web", *, cpu="100m", memory="64Mi", limits=None, generation=1, **fields):
    container = sized_container(requests={"cpu": cpu, "memory": memory}, limits=limits)
    pod = make_pod(name, containers=[container], **fields)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, generation=generation))


@pytest.fixture
def recorder():
    return FakeRecorder()


@pytest.fixture
def make_manager(tmp_path, clock, recorder):
    def make(**rules):
        manager = AllocationManager(
            tmp_path,
            ResizeRules(**rules),
            recorder=lambda: recorder,
            may_swap=lambda pod, container: False,
            now=clock.wall,
        )
        manager.load()
        return manager

    return make
