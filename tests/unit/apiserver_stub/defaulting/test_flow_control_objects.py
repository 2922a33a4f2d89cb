"""Tests for the suggested objects of priority and fairness."""

from __future__ import annotations

import pytest

from apiserver_stub.defaulting.flow_control_objects import suggested_schemas
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST, OLDEST, Release

OF_ENDPOINTS = {"endpoint-controller"}


@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_schemas_of_all_releases_exist(release: Release) -> None:
    found = suggested_schemas(Identity(), release)

    assert {"global-default", "service-accounts", "kube-system-service-accounts"} <= found.keys()
    assert found["global-default"]["rules"][0]["nonResourceRules"]
