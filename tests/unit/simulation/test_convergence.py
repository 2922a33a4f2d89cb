"""Tests for the convergence of a simulated node: each difference from the desired state is found."""

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.apiserver import CONFIG_MAPS, PODS

from .host import START, api_pod


def running_pod(host, uid="a", **pod):
    container = {"container": {"name": "web"}} | pod
    host.add(uid, **{"phase": "Running", "reported": ("web",), "ready": True} | container)
    host.start(host.container(host.sandbox(uid)))


def static_pod(host, name="s", **mirror):
    (host.manifests / f"{name}.yaml").touch()
    host.server.objects[PODS][("default", f"{name}-node-1")] = api_pod(f"{name}-mirror", mirror_of="hash", **mirror)


def test_node_whose_pods_run_and_are_ready_has_converged(host):
    running_pod(host)
    running_pod(host, "b", policy="OnFailure", ready=False)
    host.add("c", phase="Succeeded", policy="Never")
    static_pod(host)
    host.start(host.container(host.sandbox("hash", "s-node-1")))

    assert not host.difference()


def test_agent_that_does_not_run_differs(host):
    host.process, host.failure = 0, ValueError("x")

    assert host.difference() == "the agent is not running: ValueError('x')"


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"phase": "Pending"}, "pod a has the phase Pending after a time without faults"),
        ({"ready": False}, "pod a is not ready after a time without faults"),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "pod a is not ready after a time without faults",
        ),
        ({"reported": ()}, "1 containers of pod a run, but its status reports []"),
        (
            {"metadata": {"deletionTimestamp": "t"}},
            "pod a is not deleted, although this was requested at t",
        ),
        ({"phase": "Failed"}, "pod a has the phase Failed, but 1 containers run"),
    ],
)
def test_status_that_does_not_match_the_containers_differs(host, pod, text):
    running_pod(host, **pod)

    assert host.difference() == text


def test_pod_whose_containers_do_not_exit_on_their_own_has_to_run(host):
    host.add("a", phase="Succeeded", policy="Never")
    host.add("b", phase="Pending", container={"name": "web", "args": ["exit"]})
    assert not host.difference()

    host.add("c", phase="Pending")

    assert host.difference() == "pod c has the phase Pending after a time without faults"


def test_volume_that_does_not_match_its_config_map_differs(host, tmp_path):
    config = {"volumes": [{"name": "data"}, {"name": "config", "configMap": {"name": "m"}}]}
    running_pod(host, spec=config)
    (container,) = host.runtime.running()
    container.config.mounts.append(cri.Mount(container_path="/config", host_path=str(tmp_path)))
    assert not host.difference(), "neither the config map nor a file exists"

    host.server.objects[CONFIG_MAPS] = {("default", "m"): {"data": {"one": "2", "other": "2"}}}
    assert host.difference() == "/config of container web of pod a contains {} instead of {'one': '2', 'other': '2'}"

    for name in ("one", "other"):
        (tmp_path / name).write_text("2")
    assert not host.difference()


CLAIM = {"volumes": [{"name": "data"}, {"name": "claim", "persistentVolumeClaim": {"claimName": "data-0"}}]}


def test_claims_of_running_pods_are_mounted(host):
    running_pod(host, spec=CLAIM)
    running_pod(host, "b")
    host.driver.staged, host.driver.mounted = ["data-0"], {"a": ["data-0"]}
    assert not host.difference()

    host.driver.mounted = {}
    assert host.difference() == "pod a has the claims ['data-0'], but [] are mounted"

    host.driver.mounted = {"a": ["data-0"], "b": ["data-1"]}
    assert host.difference() == "pod b has the claims [], but ['data-1'] are mounted"


def test_claims_of_deleted_pods_are_not_mounted(host):
    host.add("done", phase="Succeeded", policy="Never", spec=CLAIM)
    host.driver.staged, host.driver.mounted = ["data-0"], {"done": ["data-0"]}
    assert not host.difference()

    host.driver.mounted = {"gone": ["data-0"]}
    assert host.difference() == "volumes of pod gone remain mounted after its deletion"

    host.driver.mounted = {}
    assert host.difference() == "the volumes ['data-0'] are staged, but [] are used"


def limited(milli):
    return {"name": "web", "resources": {"limits": {"cpu": milli}}}


@pytest.mark.parametrize(
    ("desired", "reported", "actual", "pending", "text"),
    [
        ("200m", "200m", 200, False, ""),
        ("2", "2", 2000, False, ""),
        ("200m", "100m", 200, False, "has the CPU limit 200m, but its status reports 100m"),
        ("200m", "100m", 100, False, "has the CPU limit 100m instead of 200m"),
        ("200m", "100m", 100, True, ""),
    ],
)
def test_resized_container_has_the_desired_limit_unless_it_is_pending(host, desired, reported, actual, pending, text):
    running_pod(host, container=limited(desired), reported=())
    (container,) = host.runtime.running()
    container.config.linux.resources.cpu_period, container.config.linux.resources.cpu_quota = 1000, actual
    status = host.server.find(PODS, "default", "a")["status"]
    status["containerStatuses"] = [{**limited(reported), "state": {"running": {}}}]
    if pending:
        status["conditions"].append({"type": "PodResizePending", "status": "True"})

    if text:
        assert host.difference() == f"container web of pod a {text}"
    else:
        assert not host.difference()


def test_limits_are_not_compared_in_a_release_without_resizes(host):
    host.is_latest = False
    running_pod(host, container=limited("200m"))

    assert not host.difference()


def test_sandbox_of_a_deleted_pod_differs(host):
    host.sandbox("gone")

    assert host.difference() == "sandbox s0 of pod gone remains after the deletion of the pod"


def test_static_pod_that_does_not_run_differs(host):
    static_pod(host)

    assert host.difference() == "static pod s does not run"


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "Evicted"])
def test_static_pod_that_was_rejected_or_evicted_need_not_run(host, reason):
    static_pod(host, status={"reason": reason})

    assert not host.difference()


@pytest.mark.parametrize("manifest", [False, True])
def test_mirror_pods_that_do_not_match_the_static_pods_differ(host, manifest):
    if manifest:
        (host.manifests / "s.yaml").touch()
        host.start(host.container(host.sandbox("hash", "s-node-1")))
        assert host.difference() == "mirror pods [] do not match the static pods ['s']"
    else:
        static_pod(host)
        (host.manifests / "s.yaml").unlink()
        assert host.difference() == "mirror pods ['s'] do not match the static pods []"


def test_numbers_of_tasks_and_watches_are_limited(host):
    running_pod(host)
    host.loop.tasks, host.server.watches = 75, [None] * 10
    assert not host.difference()

    host.loop.tasks = 76
    assert host.difference() == "the agent has 76 tasks with 1 pods"

    host.loop.tasks, host.server.watches = 75, [None] * 11
    assert host.difference() == "the agent has 11 watches"


@pytest.mark.parametrize(
    ("now", "phase", "violation"), [(62.1, "Failed", ""), (62.0, "Running", ""), (62.1, "Running", "60 s")]
)
def test_pod_that_outlives_its_deadline_differs(host, now, phase, violation):
    host.add("a", spec={"activeDeadlineSeconds": 60}, phase=phase, status={"startTime": START})
    host.loop.now = now
    host.report(ready="True", renewed="2040-01-01T00:01:00+00:00")

    assert host.difference() == (violation and "pod a runs longer than 60 s")


@pytest.mark.parametrize(
    ("broken", "ready", "violation"),
    [
        (False, True, ""),
        (False, False, "pod a is not ready after a time without faults"),
        (True, False, ""),
        (True, True, "pod a is ready after a time without faults"),
    ],
)
def test_readiness_that_is_not_that_of_the_probes_differs(host, broken, ready, violation):
    web = {"name": "web", "readinessProbe": {}}
    host.add("a", container=web, phase="Running", reported=("web",), ready=ready)
    host.start(host.container(host.sandbox("a"))).broken = broken

    assert host.difference() == violation


@pytest.mark.parametrize(
    ("now", "reported", "violation"),
    [
        (39.9, {"ready": "True"}, ""),
        (40.0, {"ready": "True"}, "the lease of the node was renewed 40 s ago"),
        (0.0, {"ready": "Unknown"}, "the node has the conditions"),
        (0.0, {"ready": "True", "pressures": {"MemoryPressure": "True"}}, "the node has the conditions"),
    ],
)
def test_node_that_is_not_ready_or_has_an_old_lease_differs(host, now, reported, violation):
    host.report(**reported)
    host.loop.now = now

    assert host.difference().startswith(violation)
    assert bool(host.difference()) == bool(violation)
