"""Tests for warnings about deletions."""

from __future__ import annotations

import pytest

from nodeagent.testing.apiserver import started_apiserver
from tests.differential.runner import Target

_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_SPEC = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}


@pytest.mark.timeout(120)
async def test_deletion_of_a_job_without_a_policy_warns_that_pods_stay() -> None:
    with started_apiserver("--controllers=-job-controller") as server:
        connection = Target(server.url, str(server.ca_file), server.token).connect()
        warnings = {}
        for query in ("", "?propagationPolicy=Background", "?orphanDependents=true"):
            await connection.request("POST", _JOBS, {"metadata": {"name": "a"}, "spec": _SPEC})
            warnings[query] = (await connection.request("DELETE", f"{_JOBS}/a{query}")).warnings
            await connection.request("PATCH", f"{_JOBS}/a", {"metadata": {"finalizers": None}})
        connection.close()

    assert [bool(found) for found in warnings.values()] == [True, False, False]
    assert "child pods are preserved by default" in warnings[""][0]
