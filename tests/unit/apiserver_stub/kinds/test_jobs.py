"""Tests for updates of Jobs and CronJobs by release and subresource."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.jobs import resources
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings

POLICY = {"rules": [{"succeededCount": 1}]}


def of(kind: str, *arguments: str) -> Resource:
    return next(item for item in resources(kind_settings(parse(list(arguments)))) if item.kind == kind)


def cron_job(spec: Any = None, **status: Any) -> dict[str, Any]:
    template = {"metadata": {}, "spec": spec or {}}
    return {"metadata": {"name": "c"}, "spec": {"jobTemplate": template}, "status": status}


DISABLED = ("--compatibility-version=1.31", "--feature-gates=JobSuccessPolicy=false")


def test_disabled_fields_are_dropped_from_cron_jobs_unless_stored() -> None:
    strategy = of("CronJob", *DISABLED).strategy
    new, same = (cron_job({"successPolicy": POLICY, "template": {}}) for _ in range(2))

    strategy.prepare_update(new, cron_job({"template": {}}), "")
    strategy.prepare_update(same, cron_job({"successPolicy": POLICY, "template": {}}), "")

    assert new["spec"]["jobTemplate"]["spec"] == {"template": {}}
    assert same["spec"]["jobTemplate"]["spec"] == {"template": {}, "successPolicy": POLICY}


def test_status_of_a_cron_job_is_updated_alone() -> None:
    old = cron_job({"successPolicy": POLICY, "template": {}})
    new = {**cron_job({"other": 1}, active=[]), "metadata": {"name": "c"}}

    of("CronJob", *DISABLED).strategy.prepare_update(new, old, "status")

    assert (new["spec"], new["status"]) == (old["spec"], {"active": []})
    assert of("CronJob").strategy.validate_update(new, old, "status") == []


def finished(**status: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": []}}, "successPolicy": POLICY, "completionMode": "Indexed"}
    return {"metadata": {"name": "j", "resourceVersion": "1"}, "spec": spec, "status": status}


@pytest.mark.parametrize(("release", "is_checked"), [("1.29", False), ("1.30", True)])
def test_success_criteria_are_checked_since_1_30(release: str, *, is_checked: bool) -> None:
    strategy = of("Job", f"--compatibility-version={release}").strategy
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Failed")]

    causes = strategy.validate_update(finished(conditions=conditions), finished(), "status")

    assert bool([cause for cause in causes if cause.message.endswith("and Failed=true conditions")]) is is_checked


@pytest.mark.parametrize(
    ("gates", "is_checked"),
    [
        ("JobManagedBy=false,JobPodReplacementPolicy=false", True),
        ("JobManagedBy=true,JobPodReplacementPolicy=false", False),
        ("JobManagedBy=false,JobPodReplacementPolicy=true", False),
    ],
)
def test_criteria_need_a_success_policy_unless_they_are_of_all_jobs(gates: str, *, is_checked: bool) -> None:
    strategy = of("Job", "--compatibility-version=1.31", f"--feature-gates={gates}").strategy
    new, old = finished(conditions=[{"type": "SuccessCriteriaMet", "status": "True"}]), finished()
    for obj in (new, old):
        del obj["spec"]["successPolicy"]

    causes = strategy.validate_update(new, old, "status")

    assert bool([cause for cause in causes if cause.message.endswith("for Job without SuccessPolicy")]) is is_checked
