"""Tests for SELinux labels of volumes."""

from __future__ import annotations

import pytest

from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.volumes.selinux import volume_label

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


@pytest.mark.parametrize(
    ("levels", "change_policy", "policy", "label"),
    [
        (["s0:c1,c2", "s0:c1,c2"], None, True, LABEL),
        (["s0:c1,c2", "s0:c3,c4"], None, True, ""),
        (["s0:c1,c2", None], None, True, ""),
        (["s0:c1,c2"], "Recursive", True, ""),
        (["s0:c1,c2"], "Recursive", False, LABEL),
    ],
)
def test_label_is_that_of_all_containers(
    levels: list[str | None], change_policy: str | None, policy: bool, label: str
) -> None:
    containers = [
        make_container(
            f"c{index}",
            volume_mounts=[{"name": "v", "mountPath": "/v"}],
            security_context={"seLinuxOptions": {"level": level}} if level else None,
        )
        for index, level in enumerate(levels)
    ]
    pod = make_pod(containers=containers, security_context={"seLinuxChangePolicy": change_policy})
    assert volume_label(pod, "v", policy=policy, enabled=True) == label
    assert volume_label(pod, "v", policy=policy, enabled=False) == ""
