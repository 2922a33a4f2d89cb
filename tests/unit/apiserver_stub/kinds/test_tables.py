"""Tests for table columns as kubectl prints them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import pod_status
from apiserver_stub.kinds.tables import short, since, table
from apiserver_stub.options import Options, parse
from apiserver_stub.server.kinds import build_registry


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (123, "2m3s"),
        (120, "2m"),
        (-1, "0s"),
        (-2, "<invalid>"),
        (599, "9m59s"),
        (605, "10m"),
        (179 * 60, "179m"),
        (180 * 60 + 60, "3h1m"),
        (7 * 3600 + 59 * 60, "7h59m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (48 * 3600, "2d"),
        (191 * 3600, "7d23h"),
        (193 * 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (8 * 365 * 86400 + 86400, "8y"),
        (37 * 60, "37m"),
        (3 * 3600 + 5 * 60, "3h5m"),
        (20 * 3600, "20h"),
        (76 * 3600, "3d4h"),
        (40 * 86400, "40d"),
        (740 * 86400, "2y10d"),
        (10 * 365 * 86400, "10y"),
    ],
)
def test_durations_are_printed_as_by_kubectl(seconds: int, text: str) -> None:
    assert short(seconds) == text


def test_missing_time_is_unknown() -> None:
    assert since(None) == "<unknown>"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}, "Pending"),
        ({"phase": "Pending", "conditions": [{"type": "Other", "reason": "SchedulingGated"}]}, "Pending"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "ImagePullBackOff"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, "ExitCode:3"),
        ({"initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}, "Init:0/1"),
        (
            {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
            "Init:Error",
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"state": {"running": {}}, "ready": True},
                ],
            },
            "NotReady",
        ),
    ],
)
def test_pod_status_column(status: Any, expected: str) -> None:
    pod = {"metadata": {}, "spec": {"initContainers": [{"name": "i"}]}, "status": status}

    assert pod_status.shown_status(pod) == expected


def test_deleted_pod_is_terminating() -> None:
    pod = {"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}, "status": {"phase": "Running"}}

    assert pod_status.shown_status(pod) == "Terminating"


def test_columns_of_each_kind_accept_an_empty_object() -> None:
    for resource in build_registry(Options()):
        if "list" not in resource.verbs:
            continue
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": "x"}}
        shown = table(resource, [obj], {}, "Metadata", "v1")
        names = [column["name"] for column in shown["columnDefinitions"]]
        assert "Name" in names, resource.plural
        assert shown["rows"][0]["cells"][names.index("Name")] == "x"


def pod(statuses: dict[str, Any]) -> dict[str, Any]:
    init = [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]
    return {"metadata": {}, "spec": {"initContainers": init, "containers": [{"name": "a"}]}, "status": statuses}


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        (
            {
                "initContainerStatuses": [
                    {"name": "i", "restartCount": 9, "state": {"terminated": {"exitCode": 0}}},
                    {"name": "s", "restartCount": 3, "started": True, "ready": True, "state": {"running": {}}},
                ],
                "containerStatuses": [{"restartCount": 1, "ready": True, "state": {"running": {}}}],
                "phase": "Running",
            },
            ("2/2", "Running", "4"),
        ),
        (
            {
                "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"running": {}}}],
                "containerStatuses": [{"restartCount": 1, "ready": True, "state": {"running": {}}}],
            },
            ("0/2", "Init:0/2", "2"),
        ),
        (
            {
                "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"running": {}}}],
                "containerStatuses": [{"restartCount": 1, "ready": True, "state": {"running": {}}}],
                "conditions": [{"type": "Initialized", "status": "True"}],
            },
            ("1/2", "Init:0/2", "1"),
        ),
    ],
)
def test_init_containers_count_until_initialized(status: dict[str, Any], cells: tuple[str, str, str]) -> None:
    found = pod(status)

    assert (pod_status.ready_containers(found), pod_status.shown_status(found), pod_status.restarts(found)) == cells


@pytest.mark.parametrize(("phase", "reasons"), [("Succeeded", ["Succeeded"]), ("Failed", ["Failed"]), ("Running", [])])
def test_row_of_completed_pod_has_a_condition(phase: str, reasons: list[str]) -> None:
    found = pod_status.row_conditions({"status": {"phase": phase}})

    assert [(item["type"], item["reason"]) for item in found] == [("Completed", reason) for reason in reasons]


@pytest.mark.parametrize(("plural", "rows"), [("roles", None), ("rolebindings", [])])
def test_empty_table_has_upstream_rows(plural: str, rows: object) -> None:
    registry = build_registry(Options())
    (resource,) = (item for item in registry if item.plural == plural)

    assert table(resource, [], {}, "None", "v1")["rows"] == rows


def test_row_without_object_has_null() -> None:
    registry = build_registry(Options())
    (resource,) = (item for item in registry if item.plural == "configmaps")

    (row,) = table(resource, [{"metadata": {"name": "a"}}], {}, "None", "v1")["rows"]

    assert row["object"] is None


@pytest.mark.parametrize(
    ("group", "plural", "release", "expected"),
    [
        ("", "serviceaccounts", "1.34", ["Name", "Secrets", "Age"]),
        ("", "serviceaccounts", "1.35", ["Name", "Age"]),
        ("", "resourcequotas", "1.32", ["Name", "Age", "Request", "Limit"]),
        ("", "resourcequotas", "1.33", ["Name", "Request", "Limit", "Age"]),
        ("scheduling.k8s.io", "priorityclasses", "1.31", ["Name", "Value", "Global-Default", "Age"]),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            "1.32",
            ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
        ),
    ],
)
def test_columns_follow_the_release(group: str, plural: str, release: str, expected: list[str]) -> None:
    registry = build_registry(parse([f"--compatibility-version={release}"]))
    resource = registry.find(group, "v1", plural)
    assert resource is not None

    assert [(column.name, column.wide) for column in resource.columns] == [(name, False) for name in expected]


def cells(group: str, version: str, plural: str, release: str, obj: dict[str, Any]) -> dict[str, Any]:
    resource = build_registry(parse([f"--compatibility-version={release}"])).find(group, version, plural)
    assert resource is not None
    return {column.name: column.cell(obj) for column in resource.columns}


@pytest.mark.parametrize(("release", "targets"), [("1.29", "<unknown>/50%"), ("1.30", "cpu: <unknown>/50%")])
def test_targets_of_autoscalers_have_names_since_1_30(release: str, targets: str) -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "h"},
        "spec": {"minReplicas": 2, "metrics": [metric]},
    }

    shown = cells("autoscaling", "v2", "horizontalpodautoscalers", release, scaler)

    assert (shown["Targets"], shown["MinPods"]) == (targets, "2")


@pytest.mark.parametrize(("release", "kernel"), [("1.35", "6.1"), ("1.36", "6.1 (amd64)")])
def test_kernels_of_nodes_have_an_architecture_since_1_36(release: str, kernel: str) -> None:
    node = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64"}}}

    assert cells("", "v1", "nodes", release, node)["Kernel-Version"] == kernel


def test_storage_capacities_have_the_default_columns() -> None:
    capacity = {"metadata": {"name": "c", "creationTimestamp": "2024-01-02T03:04:05Z"}}

    shown = cells("storage.k8s.io", "v1", "csistoragecapacities", "1.36", capacity)

    assert shown == {"Name": "c", "Created At": "2024-01-02T03:04:05Z"}


@pytest.mark.covers("apiserver_stub.kinds")
def test_cells_of_jobs() -> None:
    def job(spec: dict[str, Any], *conditions: str, **status: Any) -> dict[str, Any]:
        found = [{"type": name, "status": "True"} for name in conditions]
        return {"metadata": {"name": "j"}, "spec": spec, "status": {**status, "conditions": found}}

    ended = {"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:07Z"}
    deleted = {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}
    pending = {"status": {"conditions": [{"type": "Failed", "status": "False"}]}}
    cases: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
        (job({}), ("Running", "0/1", "")),
        (job({}) | pending, ("Running", "0/1", "")),
        (job({"completions": 0}, "Suspended"), ("Suspended", "0/0", "")),
        (job({"completions": 3}, "FailureTarget", "Failed", succeeded=2), ("Failed", "2/3", "")),
        (job({"parallelism": 1}, "SuccessCriteriaMet", succeeded=1), ("SuccessCriteriaMet", "1/1", "")),
        (job({"parallelism": 2}), ("Running", "0/1 of 2", "")),
        (job({}, "Complete", **ended), ("Complete", "0/1", "7s")),
        (job({}, "Suspended") | deleted, ("Terminating", "0/1", "")),
        (job({}, "Complete") | deleted, ("Complete", "0/1", "")),
    ]
    for obj, expected in cases:
        found = cells("batch", "v1", "jobs", "1.36", obj)
        assert (found["Status"], found["Completions"], found["Duration"]) == expected, obj
    running = job({}, startTime="2024-01-01T00:00:00Z")
    assert cells("batch", "v1", "jobs", "1.36", running)["Duration"]


@pytest.mark.covers("apiserver_stub.kinds")
def test_cells_of_cron_jobs() -> None:
    template = {"spec": {"selector": {"matchLabels": {"a": "b"}}}}
    full = {
        "metadata": {},
        "spec": {"timeZone": "UTC", "suspend": True, "schedule": "@hourly", "jobTemplate": template},
        "status": {"active": [{}, {}], "lastScheduleTime": "2024-01-01T00:00:00Z"},
    }

    found, empty = (cells("batch", "v1", "cronjobs", "1.36", obj) for obj in (full, {"metadata": {}, "spec": {}}))

    names = ("Timezone", "Suspend", "Active", "Selector")
    assert [found[name] for name in names] == ["UTC", "True", 2, "a=b"]
    assert [empty[name] for name in names] == ["<none>", "False", 0, "<none>"]
    assert found["Last Schedule"] != empty["Last Schedule"] == "<none>"


@pytest.mark.covers("apiserver_stub.kinds")
def test_cells_show_the_condition_of_their_kind() -> None:
    other: dict[str, Any] = {"type": "Other", "status": "True"}
    levels = [([other, {"type": "Dangling", "status": "False"}], "False"), ([other], "?")]
    for conditions, level in levels:
        schema = {"metadata": {}, "spec": {}, "status": {"conditions": conditions}}
        assert cells("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "1.36", schema)["MissingPL"] == level
    states = [
        ([other, {"type": "Healthy", "status": "True", "message": "ok"}], ["Healthy", "ok", ""]),
        ([{"type": "Healthy", "status": "False", "error": "timeout"}], ["Unhealthy", "", "timeout"]),
        ([other], ["Unknown", "", ""]),
    ]
    for conditions, expected in states:
        found = cells("", "v1", "componentstatuses", "1.36", {"metadata": {}, "conditions": conditions})
        assert [found[name] for name in ("Status", "Message", "Error")] == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        (None, "<none>"),
        ([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}], "<none>"),
        ([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}], "daemonset.apps/d"),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}], "pod/p"),
    ],
)
def test_controller_of_a_revision_is_its_controlling_owner(owners: Any, expected: str) -> None:
    resource = build_registry(parse([])).find("apps", "v1", "controllerrevisions")
    assert resource is not None
    column = next(column for column in resource.columns if column.name == "Controller")

    assert column.cell({"metadata": {"name": "r", **({"ownerReferences": owners} if owners else {})}}) == expected
