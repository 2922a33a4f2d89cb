"""Tests for the owner of projected files."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.volumes.payload import common_user, fs_group


@pytest.mark.parametrize(
    ("default", "users", "expected"),
    [
        (None, [None], None),
        (5, [None], 5),
        (5, [None, 5], 5),
        (5, [None, 6], None),
        (5, [6, 6], 6),
        (None, [6, None], None),
        (5, [0], 0),
    ],
)
def test_files_belong_to_the_user_of_all_containers(
    default: int | None, users: list[int | None], expected: int | None
) -> None:
    containers = [
        make_container(f"c{index}", security_context={"runAsUser": user} if user is not None else None)
        for index, user in enumerate(users)
    ]
    security: dict[str, Any] | None = {"runAsUser": default} if default is not None else None

    assert common_user(make_pod(containers=containers, security_context=security)) == expected


@pytest.mark.parametrize(("security", "group"), [(None, None), ({}, None), ({"fsGroup": 0}, 0), ({"fsGroup": 7}, 7)])
def test_group_is_that_of_the_pod(security: dict[str, Any] | None, group: int | None) -> None:
    assert fs_group(make_pod(security_context=security)) == group
