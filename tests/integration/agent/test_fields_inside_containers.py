"""Tests for the table of docs/pod-fields.md: each pod of docs/pod-fields.yaml, verified inside on every runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeagent_plugins.pod_admission.apparmor import is_enabled
from tests.integration.agent.conftest import Node, _ready
from tests.integration.cdi_specs import SCRIPT, SEEN, write_spec
from tests.integration.containerd import CONTAINERD_2, LATER, Containerd
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.plugins.test_example_policy import Environment
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

DOCS = Path(__file__).parents[3] / "docs"
EXECUTABLES = {"containerd 1.6": None, "containerd 1.7": LATER, "containerd 2.1": CONTAINERD_2}
RUNTIMES = (*EXECUTABLES, "embedded")
INSTALLED = [name for name in RUNTIMES if name != "containerd 2.1" or CONTAINERD_2.exists()]
GATES = {"ContainerStopSignals": True, "EventedPLEG": True}
IDS_PER_POD = 131072
MI = 1 << 20
CDI_PLUGIN = """
    import dataclasses

    from nodeagent import hookimpl


    @hookimpl
    async def nodeagent_mutate_container(pod, settings):
        names = (pod.metadata.annotations or {}).get("example.com/cdi")
        return dataclasses.replace(settings, cdi_devices=(names,)) if names else None
"""


def documented() -> dict[str, dict[str, str]]:
    """Return the results in the table by pod and runtime: ``works``, or the reason of the rejection."""
    found: dict[str, dict[str, str]] = {}
    for line in (DOCS / "pod-fields.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 + len(RUNTIMES) and re.fullmatch("`[a-z-]+`", cells[0]):
            results = [re.sub(r"^rejected: `(.*)`.*$", r"\1", cell) for cell in cells[3:]]
            found[cells[0].strip("`")] = dict(zip(RUNTIMES, results, strict=True))
    return found


RESULTS = documented()


class FieldsNode(Node):
    """Node with all pods of the page."""

    name = ""
    runtime_directory = Path()


@pytest.fixture(scope="module", params=INSTALLED)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FieldsNode]:
    """Node of release 1.36 on one of the runtimes, after the pods were created."""
    directory = tmp_path_factory.mktemp("fields")
    with ExitStack() as stack:
        runtime: Any
        if request.param == "embedded":
            runtime = stack.enter_context(closing(EmbeddedRuntime()))
            runtime.start()
        else:
            runtime = stack.enter_context(Containerd(executables=EXECUTABLES[request.param]))
        environment = Environment(directory / "venv")
        environment.add_module("cdi_by_annotation", CDI_PLUGIN)
        api, agent = ApiServer(directory), NodeAgent(directory, runtime.endpoint)
        agent.api, agent.python = api, str(environment.python)
        agent.arguments += ["--compatibility-version", "1.36"]
        node = FieldsNode(runtime, api, agent)
        node.name, node.runtime_directory = request.param, runtime.directory
        stack.callback(api.stop)
        api.start("--compatibility-version=1.36", "--feature-gates=ContainerStopSignals=true")
        stack.callback(agent.stop)
        agent.start(failCgroupV1=False, featureGates=GATES, userNamespaces={"idsPerPod": IDS_PER_POD})
        wait_until(lambda: _ready(api), "the node is Ready")
        write_spec(runtime.directory / "cdi")
        for pod in yaml.safe_load_all((DOCS / "pod-fields.yaml").read_text()):
            pod["spec"] = {"nodeName": "node-1", "terminationGracePeriodSeconds": 1, **pod["spec"]}
            pod["spec"]["automountServiceAccountToken"] = False
            api.create_pod(pod)
        annotations = {"example.com/cdi": "example.com/sensor=left"}
        api.create_pod(simple_pod("cdi-device", SCRIPT, metadata={"annotations": annotations}, restartPolicy="Never"))
        yield node
        for pod in api.get("/api/v1/namespaces/default/pods")["items"]:
            api.delete_pod(pod["metadata"]["name"], grace=0)
        wait_until(lambda: not api.get("/api/v1/namespaces/default/pods")["items"], "all pods are deleted", 60)


def waiting_reason(pod: Any) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    return str((statuses[0].get("state") or {}).get("waiting", {}).get("reason", ""))


def lines_of(node: FieldsNode, name: str, count: int, container: str = "main") -> list[str]:
    """Return the output of a container once it has *count* lines."""
    pod = node.until(name, lambda pod: pod["status"].get("containerStatuses"), "the pod has a status", 60)

    def written() -> list[str]:
        lines = node.log(pod, container).splitlines()
        return lines if len(lines) >= count else []

    try:
        return list(wait_until(written, f"the container has written {count} lines", 60))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{node.api.pod(name)['status']}\n{node.agent.tail()}") from None


def main_status(node: FieldsNode, name: str) -> Any:
    """Return the status of a container that has started."""
    statuses = node.phase(name, "Running", 60)["status"]["containerStatuses"]
    return next(status for status in statuses if status["name"] == "main")


# --- what a pod has inside, where it works ----------------------------------------------------------------------


def has_exact_groups(node: FieldsNode) -> None:
    assert lines_of(node, "supplemental-groups", 2) == ["1000", "500 2000"]
    user = main_status(node, "supplemental-groups")["user"]["linux"]
    assert user == {"uid": 1000, "gid": 500, "supplementalGroups": [500, 2000]}


def has_only_read_only_mounts(node: FieldsNode) -> None:
    mounts, writable = map(int, lines_of(node, "recursive-read-only", 2))
    assert (mounts > 1, writable) == (True, 0)
    (mount,) = main_status(node, "recursive-read-only")["volumeMounts"]
    assert (mount["readOnly"], mount["recursiveReadOnly"]) == (True, "Enabled")


def has_mapped_users(node: FieldsNode) -> None:
    mapping, owner = lines_of(node, "user-namespace", 2)
    inside, outside, count = map(int, mapping.split())
    assert (inside, outside >= IDS_PER_POD, count, owner) == (0, True, IDS_PER_POD, "0")


def has_unmasked_proc(node: FieldsNode) -> None:
    assert lines_of(node, "proc-mount", 1) == ["0"]


def has_image_content(node: FieldsNode) -> None:
    assert {"/image/bin/sh", "read-only"} <= set(lines_of(node, "image-volume", 3))


def has_variables(node: FieldsNode) -> None:
    assert lines_of(node, "environment", 2) == ["hello there", "1 odd.name=yes"]


def has_hostname(node: FieldsNode) -> None:
    assert lines_of(node, "hostname-override", 1) == ["other.example.org"]


def has_profile(node: FieldsNode) -> None:
    assert lines_of(node, "apparmor", 1)[0].endswith("(enforce)")


def output_until_deleted(node: FieldsNode, name: str) -> list[str]:
    """Delete a pod and return the output of its container until its log is removed."""
    pod = node.phase(name, "Running", 60)
    output = node.log(pod)
    node.api.delete_pod(name)

    def deleted() -> bool:
        nonlocal output
        output = node.log(pod) or output
        return node.api.pod(name) is None

    wait_until(deleted, "the pod is deleted", 40)
    return output.splitlines()


def stops_after_its_sleep(node: FieldsNode) -> None:
    before = len(lines_of(node, "sleep-hook", 1))
    lines = output_until_deleted(node, "sleep-hook")
    assert lines[-1] == "stopped"
    assert len(lines) >= before + 5  # A stop without the hook ends the output immediately.


def stops_by_its_signal(node: FieldsNode) -> None:
    node.phase("stop-signal", "Running", 60)
    assert main_status(node, "stop-signal")["stopSignal"] == "SIGUSR1"
    assert output_until_deleted(node, "stop-signal") == ["stopped by SIGUSR1"]


def keeps_running_when_resized(node: FieldsNode) -> None:
    assert lines_of(node, "resize", 1)[0] == str(64 * MI)
    larger = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "96Mi"}}
    patch = {"spec": {"containers": [{"name": "main", "resources": larger}]}}
    path, kind = "/api/v1/namespaces/default/pods/resize/resize", "application/strategic-merge-patch+json"
    node.api.request("PATCH", path, patch, kind)
    pod = node.until("resize", lambda _: main_status(node, "resize").get("resources") == larger, "it is resized")
    wait_until(lambda: node.log(pod).splitlines()[-1] == str(96 * MI), "the limit is in effect")
    assert main_status(node, "resize")["restartCount"] == 0


def has_the_limit_of_the_pod(node: FieldsNode) -> None:
    assert lines_of(node, "pod-level-resources", 1) == [str(64 * MI)]


def restarts_by_its_rule(node: FieldsNode) -> None:
    pod = node.phase("restart-rules", "Failed", 60)  # Its other container has failed.
    statuses = {status["name"]: status for status in pod["status"]["containerStatuses"]}
    counts = {name: status["restartCount"] for name, status in statuses.items()}
    codes = {name: status["state"]["terminated"]["exitCode"] for name, status in statuses.items()}
    assert (counts, codes) == ({"main": 1, "once": 0}, {"main": 0, "once": 3})
    assert statuses["main"]["lastState"]["terminated"]["exitCode"] == 3
    wait_until(lambda: node.log(pod) == "second run", "the second run has written")


def restarts_all_containers(node: FieldsNode) -> None:
    pod = node.phase("restart-all-containers", "Succeeded", 60)
    wait_until(lambda: node.log(pod) == "initialized\ninitialized", "the init container has run twice")


def has_its_device(node: FieldsNode) -> None:
    assert lines_of(node, "cdi-device", len(SEEN)) == SEEN


CHECKS: dict[str, Callable[[FieldsNode], None]] = {
    "supplemental-groups": has_exact_groups,
    "apparmor": has_profile,
    "recursive-read-only": has_only_read_only_mounts,
    "user-namespace": has_mapped_users,
    "proc-mount": has_unmasked_proc,
    "image-volume": has_image_content,
    "environment": has_variables,
    "hostname-override": has_hostname,
    "sleep-hook": stops_after_its_sleep,
    "stop-signal": stops_by_its_signal,
    "resize": keeps_running_when_resized,
    "pod-level-resources": has_the_limit_of_the_pod,
    "restart-rules": restarts_by_its_rule,
    "restart-all-containers": restarts_all_containers,
    "cdi-device": has_its_device,
}


@pytest.mark.parametrize("name", CHECKS)
def test_pod_has_the_documented_result(node: FieldsNode, name: str) -> None:
    expected = RESULTS[name][node.name]
    if name == "apparmor" and not is_enabled():
        expected = "AppArmor"  # Of a host without AppArmor, on every runtime.
    if expected == "works":
        CHECKS[name](node)
        return

    def is_rejected(pod: Any) -> bool:
        events = {event["reason"] for event in node.api.events(name)}
        return expected in {pod["status"].get("reason"), waiting_reason(pod), *events}

    pod = node.until(name, is_rejected, f"the pod is rejected with {expected}", 60)
    assert not any(status.get("started") for status in pod["status"].get("containerStatuses") or ())


def test_status_has_the_observed_generation(node: FieldsNode) -> None:
    pod = node.phase("environment", "Running", 60)

    assert pod["metadata"]["generation"] == pod["status"]["observedGeneration"] == 1
    assert {condition["observedGeneration"] for condition in pod["status"]["conditions"]} == {1}


def test_exit_is_detected_by_events_if_the_runtime_reports_them(node: FieldsNode) -> None:
    node.api.create_pod(simple_pod("brief", "sleep 3; exit 0", restartPolicy="Never"))
    node.phase("brief", "Running")

    listings = node.listings()
    node.phase("brief", "Succeeded")

    # With events, one may have been due before the first event; without events there is one per second.
    assert (node.listings() <= listings + 1) is (node.name != "containerd 1.6")


def test_every_pod_and_check_is_documented() -> None:
    manifest = {pod["metadata"]["name"] for pod in yaml.safe_load_all((DOCS / "pod-fields.yaml").read_text())}

    assert set(RESULTS) == set(CHECKS) == manifest | {"cdi-device"}
