"""State files are written whole, and what they do not vouch for is refused."""

from __future__ import annotations

import json

import pytest

from nodeagent_plugins.resource_managers.checkpoint import Checkpoint
from nodeagent_plugins.resource_managers.errors import StaleState


def test_what_is_written_is_read_again(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state", "static")
    assert checkpoint.read() is None
    checkpoint.write({"defaultCpuSet": "0-1"})
    assert checkpoint.read() == {"policyName": "static", "defaultCpuSet": "0-1"}
    assert set(json.loads((tmp_path / "state").read_text())) == {"policyName", "defaultCpuSet", "checksum"}


def test_a_state_of_another_policy_is_refused_with_what_to_do(tmp_path):
    Checkpoint(tmp_path / "state", "static").write({})
    with pytest.raises(StaleState) as refused:
        Checkpoint(tmp_path / "state", "none").read()
    assert 'configured policy "none" differs from state checkpoint policy "static"' in str(refused.value)
    assert f'drain this node and delete the checkpoint file "{tmp_path}/state"' in str(refused.value)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"policyName": "static"', '{"policyName": "static", "defaultCpuSet": "0", "checksum": 1}']
)
def test_a_damaged_state_is_refused(tmp_path, content):
    (tmp_path / "state").write_text(content)
    with pytest.raises(StaleState, match="delete the checkpoint file"):
        Checkpoint(tmp_path / "state", "static").read()
