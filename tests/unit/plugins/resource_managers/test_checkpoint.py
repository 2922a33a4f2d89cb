"""Tests for state files."""

from __future__ import annotations

import json

import pytest

from nodeagent_plugins.resource_managers.checkpoint import Checkpoint
from nodeagent_plugins.resource_managers.checksum import of_cpus, of_memory
from nodeagent_plugins.resource_managers.errors import StaleState


def test_written_state_is_read(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state", "static", of_cpus)
    assert checkpoint.read() is None
    checkpoint.write({"defaultCpuSet": "0-1"})
    assert checkpoint.read() == {"policyName": "static", "defaultCpuSet": "0-1"}
    assert set(json.loads((tmp_path / "state").read_text())) == {"policyName", "defaultCpuSet", "checksum"}


def test_state_of_another_policy_is_rejected_with_instructions(tmp_path):
    Checkpoint(tmp_path / "state", "static", of_cpus).write({"defaultCpuSet": "0"})
    with pytest.raises(StaleState) as rejected:
        Checkpoint(tmp_path / "state", "none", of_cpus).read()
    assert 'configured policy "none" differs from state checkpoint policy "static"' in str(rejected.value)
    assert f'drain this node and delete the checkpoint file "{tmp_path}/state"' in str(rejected.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"policyName": "static"',
        '{"policyName": "static", "checksum": 1}',
        '{"policyName": "static", "defaultCpuSet": "0", "entries": 1, "checksum": 1}',
        '{"policyName": "static", "defaultCpuSet": "0", "checksum": 1}',
    ],
)
def test_damaged_state_is_rejected(tmp_path, content):
    (tmp_path / "state").write_text(content)
    with pytest.raises(StaleState, match="delete the checkpoint file"):
        Checkpoint(tmp_path / "state", "static", of_cpus).read()


def test_state_file_of_a_kubelet_is_accepted(tmp_path):
    cpus, memory = tmp_path / "cpu_manager_state", tmp_path / "memory_manager_state"
    cpus.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    memory.write_text('{"policyName":"None","machineState":{},"checksum":4236770233}')
    assert Checkpoint(cpus, "none", of_cpus).read() is not None
    assert Checkpoint(memory, "None", of_memory).read() is not None
