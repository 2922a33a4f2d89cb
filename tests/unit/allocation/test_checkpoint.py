"""Tests for the state files of pod resources, which the kubelet can read as well."""

import pytest

from nodeagent.allocation.checkpoint import CorruptCheckpoint, PodResources, checksum, decode, encode
from nodeagent.allocation.state import ResourceState
from nodeagent.model.pod import ResourceRequirements

KUBELET_FILE = (
    rb'{"data":"{\"entries\":{\"pod1\":{\"ContainerResources\":{\"container1\":{\"requests\":'
    rb'{\"cpu\":\"1Ki\",\"memory\":\"1Ki\"}}}}}}","checksum":1178570812}'
)
ONE = PodResources({"main": ResourceRequirements(requests={"cpu": "100m"}, limits={"cpu": "1"})})


def test_file_of_the_kubelet_is_read():
    resources = ResourceRequirements(requests={"cpu": "1Ki", "memory": "1Ki"})

    assert decode(KUBELET_FILE) == {"pod1": PodResources({"container1": resources})}


def test_written_file_is_read_again():
    pod_level = ResourceRequirements(limits={"memory": "1Gi"})
    entries = {"a": ONE, "b": PodResources({}, pod_level)}

    assert decode(encode(entries)) == entries


def test_written_file_has_the_layout_of_the_kubelet():
    data = (
        '{"entries":{"a":{"ContainerResources":{"main":{"limits":{"cpu":"1"},"requests":{"cpu":"100m"}}},'
        '"PodLevelResources":null}}}'
    )
    escaped = data.replace('"', '\\"')

    assert encode({"a": ONE}).decode() == f'{{"data":"{escaped}","checksum":{checksum(data)}}}'


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", KUBELET_FILE.replace(b"100", b"200")[:-2] + b"3}"])
def test_corrupt_file_is_rejected(content):
    with pytest.raises(CorruptCheckpoint):
        decode(content)


async def test_state_survives_a_restart(tmp_path):
    state = ResourceState(tmp_path / "state")
    await state.set("a", ONE)
    await state.set_container("b", "main", ONE.containers["main"])
    await state.retain({"b"}.__contains__)

    restarted = ResourceState(tmp_path / "state")
    assert restarted.load() == ""
    assert restarted.get("a") is None
    assert restarted.get("b") == ONE


async def test_corrupt_state_file_is_moved_aside(tmp_path):
    (tmp_path / "state").write_text("no checkpoint")
    state = ResourceState(tmp_path / "state")

    assert "state.corrupt" in state.load()

    assert (tmp_path / "state.corrupt").read_text() == "no checkpoint"
    await state.set("a", ONE)
    assert decode((tmp_path / "state").read_bytes()) == {"a": ONE}


async def test_forced_change_is_written_with_the_next_one(tmp_path):
    state = ResourceState(tmp_path / "state")
    (tmp_path / "state").mkdir()

    with pytest.raises(OSError):
        await state.set("a", ONE, forced=True)
    assert state.get("a") == ONE
    (tmp_path / "state").rmdir()
    await state.set("b", ONE)

    assert decode((tmp_path / "state").read_bytes()) == {"a": ONE, "b": ONE}


async def test_unwritable_state_keeps_the_previous_resources(tmp_path):
    (tmp_path / "file").write_text("")
    state = ResourceState(tmp_path / "file" / "state")

    with pytest.raises(OSError):
        await state.set("a", ONE)

    assert state.get("a") is None
