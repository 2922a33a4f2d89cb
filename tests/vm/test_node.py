"""Tests of the documented installation, on a virtual machine with systemd and cgroup v2.

The tests share one virtual machine and run in the order of this file; the last one restarts it.
"""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

import pytest

from nodeagent_plugins.shutdown.manager import STATE_FILE
from tests.integration.programs import simple_pod, wait_until
from tests.vm.conftest import HUGE_PAGES
from tests.vm.machine import NODE, Measures, Stopwatch, VirtualNode, main_container, pod_slice

pytestmark = pytest.mark.timeout(900)

MIB = 1 << 20
STEADY = ("guaranteed", "burstable", "besteffort")
_WAIT_FOR_END = "trap 'exit 0' TERM; while :; do sleep 1; done"
_PRINT_AT_END = "trap 'echo ending; sleep 4; echo ended; exit 0' TERM; echo running; while :; do sleep 0.5; done"
# Each dd fills its buffer and then blocks, because its output is not read.
_EAT = "while :; do (dd if=/dev/zero bs=80M count=1 2>/dev/null | sleep 100000) & sleep 0.5; done"

# Waits until the last process of the cgroup has exited; prints when free and reclaimable memory first was below the
# threshold, and how long after that it took.
_WATCH_EVICTION = """
import sys, time
def available():
    found = dict(line.split(":") for line in open("/proc/meminfo"))
    return sum(int(found[name].split()[0]) * 1024 for name in ("MemFree", "Inactive(file)"))
def populated():
    try:
        return "populated 1" in open(sys.argv[1] + "/cgroup.events").read()
    except OSError:
        return False
until, crossed = time.monotonic() + 240, 0.0
while time.monotonic() < until and populated():
    if not crossed and available() < int(sys.argv[2]):
        crossed = time.time()
    time.sleep(0.02)
print(crossed, time.time() - crossed if crossed and not populated() else -1)
"""


def vm_pod(name: str, command: str = _WAIT_FOR_END, **spec: Any) -> dict[str, Any]:
    return simple_pod(name, command, **{"nodeName": NODE, **spec})


def limited(**limits: str) -> dict[str, Any]:
    return {"resources": {"requests": limits, "limits": limits}}


@pytest.fixture(scope="module")
def steady(node: VirtualNode) -> dict[str, Any]:
    """One pod per QoS class, which tests of other pods must not affect."""
    burstable = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "250m", "memory": "64Mi"}}
    node.create(
        vm_pod("guaranteed", container=limited(cpu="200m", memory="48Mi")),
        vm_pod("burstable", container={"resources": burstable}),
        vm_pod("besteffort"),
    )
    return node.wait_for_running(*STEADY)


def untouched(steady: dict[str, Any], now: dict[str, Any]) -> bool:
    return all(main_container(now[name]) == main_container(steady[name]) for name in STEADY)


def test_virtual_machine_has_systemd_and_cgroup_v2(booted: VirtualNode) -> None:
    assert booted.run("cat /proc/1/comm").strip() == "systemd"
    assert booted.run("stat --file-system --format=%T /sys/fs/cgroup").strip() == "cgroup2fs"


def test_unit_starts_and_node_is_ready(node: VirtualNode, measures: Measures) -> None:
    watch = Stopwatch()
    wait_until(lambda: node.condition("Ready") == "True", "node is Ready", 120, 1.0)
    measures.note("from the unit's start to Ready as kubectl shows it, s", watch.seconds())

    shown = node.run("systemctl show nodeagent --property=ActiveState,Type,StatusText,NRestarts")
    assert {"ActiveState=active", "Type=notify", "NRestarts=0"} <= set(shown.splitlines())
    assert "the runtime is healthy" in shown
    assert node.run("systemctl is-active nodeagent-apiserver").strip() == "active"
    assert node.run("systemctl is-active nodeagent-runtime", check=False).strip() == "inactive", "containerd is there"
    assert node.run("systemctl --failed --no-legend").strip() == ""
    issued = "test -e /var/lib/kubelet/pki/kubelet-client-current.pem && echo issued"
    wait_until(lambda: "issued" in node.run(issued, check=False), "the node has a client certificate", 120, 1.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("guaranteed", {"memory.max": 48 * MIB, "cpu.max": "20000 100000", "cpu.weight": 8, "pids.max": 100}),
        ("burstable", {"memory.max": 64 * MIB, "cpu.max": "25000 100000", "cpu.weight": 4, "pids.max": 100}),
        ("besteffort", {"memory.max": "max", "cpu.max": "max 100000", "cpu.weight": 1, "pids.max": 100}),
    ],
)
def test_pod_has_its_limits_in_its_slice(
    node: VirtualNode, steady: dict[str, Any], name: str, expected: dict[str, object]
) -> None:
    cgroup = pod_slice(steady[name])
    scope = f"{cgroup}/cri-containerd-{main_container(steady[name])[0]}.scope"
    files = " ".join(f"{cgroup}/{file}" for file in expected)
    assert node.run(f"cat {files}").splitlines() == [str(value) for value in expected.values()]
    of_container = [file for file in expected if file != "pids.max"]
    files = " ".join(f"{scope}/{file}" for file in of_container)
    assert node.run(f"cat {files}").splitlines() == [str(expected[file]) for file in of_container]
    assert node.run(f"cat {scope}/cgroup.procs").split(), "the container's processes are there"
    assert node.run(f"systemctl show --property=ActiveState {cgroup.rsplit('/', 1)[1]}").strip() == "ActiveState=active"


def test_pods_are_limited_to_the_nodes_resources(node: VirtualNode, steady: dict[str, Any]) -> None:
    total = int(node.run("awk '/^MemTotal:/ {print $2}' /proc/meminfo")) * 1024
    assert int(node.run("cat /sys/fs/cgroup/kubepods.slice/memory.max")) == total // 4096 * 4096
    assert node.run("cat /sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/cpu.weight").strip() == "4"


def test_requested_memory_is_protected(node: VirtualNode, steady: dict[str, Any]) -> None:
    page = 4096
    total = int(node.run("awk '/^MemTotal:/ {print $2}' /proc/meminfo")) * 1024 // page * page
    root = "/sys/fs/cgroup/kubepods.slice"
    cgroups = {name: pod_slice(steady[name]) for name in STEADY}
    scopes = {
        name: f"{cgroup}/cri-containerd-{main_container(steady[name])[0]}.scope" for name, cgroup in cgroups.items()
    }
    expected: dict[str, object] = {
        f"{scopes['guaranteed']}/memory.min": 48 * MIB,
        f"{scopes['guaranteed']}/memory.high": "max",
        f"{scopes['burstable']}/memory.min": 32 * MIB,
        f"{scopes['burstable']}/memory.high": int((32 + 32 * 0.9) * MIB) // page * page,
        f"{cgroups['burstable']}/memory.min": 32 * MIB,
        f"{root}/memory.min": 80 * MIB,
        f"{root}/kubepods-burstable.slice/memory.min": 32 * MIB,
        f"{root}/kubepods-burstable.slice/memory.max": total - 24 * MIB,
        f"{root}/kubepods-besteffort.slice/memory.max": total - 40 * MIB,
    }
    expected |= {f"{scope}/memory.swap.max": 0 for scope in scopes.values()}
    found = node.run(f"cat {' '.join(expected)}").splitlines()
    assert dict(zip(expected, found, strict=True)) == {file: str(value) for file, value in expected.items()}


def test_huge_pages_are_limited_to_their_requests(node: VirtualNode, steady: dict[str, Any]) -> None:
    assert node.node()["status"]["capacity"]["hugepages-2Mi"] == f"{2 * HUGE_PAGES}Mi"
    requesting = limited(memory="32Mi", cpu="10m", **{"hugepages-2Mi": "4Mi"})
    node.create(vm_pod("huge", container=requesting))
    cgroup = pod_slice(node.wait_for_running("huge")["huge"])
    limits = node.run(f"cat {cgroup}/hugetlb.2MB.max {pod_slice(steady['burstable'])}/hugetlb.2MB.max")
    assert limits.split() == [str(4 * MIB), "0"]
    node.delete("huge")
    node.wait_for_end("huge")


def test_limits_survive_a_daemon_reload(node: VirtualNode, steady: dict[str, Any]) -> None:
    files = " ".join(f"{pod_slice(steady['burstable'])}/{file}" for file in ("memory.max", "cpu.max", "pids.max"))
    before = node.run(f"cat {files}")
    node.run("systemctl daemon-reload")
    assert node.run(f"cat {files}") == before


def test_stats_are_those_of_the_slices(node: VirtualNode, steady: dict[str, Any]) -> None:
    def summary() -> Any:
        found = json.loads(node.raw(f"/api/v1/nodes/{NODE}/proxy/stats/summary"))
        pods = {pod["podRef"]["name"]: pod for pod in found["pods"]}
        complete = all("usageNanoCores" in pods.get(name, {}).get("cpu", {}) for name in STEADY)
        return (found["node"], pods) if complete else None

    of_node, pods = wait_until(summary, "stats of every pod", 120, 2.0)
    for name in STEADY:
        cgroup = pod_slice(steady[name])
        used, microseconds = map(
            int, node.run(f"cat {cgroup}/memory.current; sed -n 's/^usage_usec //p' {cgroup}/cpu.stat").split()
        )
        assert abs(pods[name]["memory"]["usageBytes"] - used) < 8 * MIB
        assert 0 < pods[name]["memory"]["workingSetBytes"] <= pods[name]["memory"]["usageBytes"]
        assert 0 < pods[name]["cpu"]["usageCoreNanoSeconds"] <= microseconds * 1000
        assert pods[name]["process_stats"]["process_count"] >= 2
    assert 0 < of_node["memory"]["workingSetBytes"] < 2048 * MIB
    assert of_node["cpu"]["usageCoreNanoSeconds"] > 0


def test_logs_and_exec_through_the_api_server(node: VirtualNode, steady: dict[str, Any]) -> None:
    node.create(vm_pod("talker", "echo here I am; exec sleep 100000"))
    node.wait_for_running("talker")
    assert node.kubectl("logs", "talker") == "here I am\n"
    assert node.kubectl("exec", "talker", "--", "hostname") == "talker\n"
    node.delete("talker")
    node.wait_for_end("talker")


def test_service_log_is_queried_through_the_node(node: VirtualNode) -> None:
    node.run("echo a mark of ours | systemd-cat --identifier=mark")
    node.run("systemd-run --wait --unit=marked.service echo marked by a unit", check=False)
    found = node.raw(f"/api/v1/nodes/{NODE}/proxy/logs/?query=marked&tailLines=20")
    assert "marked by a unit" in found
    assert "a mark of ours" not in found
    assert "marked by a unit" not in node.raw(f"/api/v1/nodes/{NODE}/proxy/logs/?query=containerd&tailLines=20")


def test_only_the_container_over_its_limit_is_oom_killed(node: VirtualNode, steady: dict[str, Any]) -> None:
    node.create(vm_pod("greedy", "sleep 2; tail /dev/zero", restartPolicy="Never", container=limited(memory="40Mi")))

    def ended() -> Any:
        statuses = node.pods()["greedy"]["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("terminated")

    killed = wait_until(ended, "container is killed", 240, 1.0)
    # On a slow host, containerd may observe the exit before it is notified of the kill.
    assert (killed["exitCode"], killed["reason"] in ("OOMKilled", "Error")) == (137, True)

    def recorded() -> bool:
        events = json.loads(node.kubectl("get", "events", "--output=json"))["items"]
        return any(
            event["reason"] == "OOMKilled"
            and event["involvedObject"]["name"] == "greedy"
            and "Container main" in event["message"]
            for event in events
        )

    wait_until(recorded, "event of the pod", 60, 2.0)
    assert "SystemOOM" not in node.kubectl("get", "events"), "the node has enough memory"
    assert untouched(steady, node.pods())
    node.delete("greedy")
    node.wait_for_end("greedy")


def test_memory_pressure_evicts_only_the_greedy_pod(
    node: VirtualNode, steady: dict[str, Any], measures: Measures
) -> None:
    node.create(vm_pod("eater", _EAT, container={"resources": {"requests": {"memory": "16Mi"}}}))
    cgroup = pod_slice(node.wait_for_running("eater")["eater"])
    watch = shlex.join(["python3", "-c", _WATCH_EVICTION, cgroup, str(400 * MIB)])
    crossed, seconds = map(float, node.run(watch, seconds=300).split())
    assert crossed, "memory never ran short"
    assert seconds >= 0, "the pod was not evicted"
    recorded = node.run(
        "journalctl --unit=nodeagent --output=short-unix --no-pager | grep 'is evicted.*default/eater' | head -n 1"
    )
    measures.note("from crossing the memory threshold to the decision, s", float(recorded.split()[0]) - crossed)
    measures.note("from crossing the memory threshold to the exit of the pod's last process, s", seconds)

    evicted = wait_until(
        lambda: (pod := node.pods()["eater"])["status"]["phase"] == "Failed" and pod, "pod is Failed", 120, 1.0
    )
    assert evicted["status"]["reason"] == "Evicted"
    assert "memory" in evicted["status"]["message"]
    assert not node.run(f"ls -d {cgroup}", check=False).strip() or not node.run(f"cat {cgroup}/cgroup.procs").strip()
    wait_until(lambda: node.condition("MemoryPressure") == "False", "the pressure is over", 120, 2.0)
    assert untouched(steady, node.pods())
    kills = node.run("journalctl --dmesg --boot --no-pager | grep 'oom-kill:constraint=' || true")
    assert kills.count("oom-kill:") == 1, "the one that outgrew its limit, and nobody else, was killed by the kernel"
    node.delete("eater")
    node.wait_for_end("eater")


def test_containers_survive_a_stop_of_the_unit(node: VirtualNode, steady: dict[str, Any]) -> None:
    scopes = " ".join(
        f"{pod_slice(steady[name])}/cri-containerd-{main_container(steady[name])[0]}.scope" for name in STEADY
    )
    first = f"for scope in {scopes}; do head -n 1 $scope/cgroup.procs; done"
    before = node.run(first).split()
    assert len(before) == len(STEADY)
    node.run("systemctl stop nodeagent")
    assert node.run("systemctl is-active nodeagent", check=False).strip() == "inactive"
    time.sleep(5)
    assert node.run(first).split() == before
    node.run("systemctl start nodeagent", seconds=300)
    assert node.run(first).split() == before
    assert untouched(steady, node.wait_for_running(*STEADY))


def test_reload_applies_a_valid_configuration_only(node: VirtualNode, steady: dict[str, Any]) -> None:
    def most() -> str:
        return str(node.node()["status"]["capacity"]["pods"])

    show = "systemctl show nodeagent --property=NRestarts,MainPID,ActiveState"
    before, file = node.run(show), "/etc/nodeagent/config.yaml"
    node.run(f"cp -p {file} {file}.kept && echo 'maxPods: 77' >> {file}")
    node.run("systemctl reload nodeagent", seconds=300)
    wait_until(lambda: most() == "77", "the change is in force", 120, 2.0)

    node.run(f"cp -p {file}.kept {file} && echo 'maxPods: -1' >> {file}")
    node.run("systemctl reload nodeagent", check=False, seconds=300)
    assert "maxPods" in node.run("journalctl --no-pager --unit=nodeagent --boot --lines=20")
    assert (most(), node.run(show)) == ("77", before)

    node.run(f"mv {file}.kept {file} && systemctl reload nodeagent", seconds=300)
    wait_until(lambda: most() == "110", "what was is in force again", 120, 2.0)
    wait_until(lambda: node.run(show) == before, "the unit is no longer reloading", 120, 2.0)
    assert untouched(steady, node.wait_for_running(*STEADY))


def test_hanging_agent_is_restarted(node: VirtualNode, steady: dict[str, Any]) -> None:
    show = "systemctl show nodeagent --property=NRestarts,MainPID,ActiveState"
    before = dict(line.split("=") for line in node.run(show).split())
    node.run(f"kill -STOP {before['MainPID']}")

    def again() -> bool:
        now = dict(line.split("=") for line in node.run(show).split())
        restarted = now["NRestarts"] == "1" and now["MainPID"] not in ("0", before["MainPID"])
        return restarted and now["ActiveState"] == "active"

    wait_until(again, "systemd starts the agent again", 400, 2.0)
    assert "Watchdog timeout" in node.run("journalctl --no-pager --unit=nodeagent --boot")
    assert untouched(steady, node.wait_for_running(*STEADY))


def test_idle_agent_uses_few_resources(node: VirtualNode, steady: dict[str, Any], measures: Measures) -> None:
    seconds = 60
    time.sleep(15)  # Until the work of the start has completed.
    show = "systemctl show nodeagent --property=MainPID --value"
    measure = (
        f"pid=$({show}); cat /proc/$pid/schedstat; sleep {seconds}; cat /proc/$pid/schedstat; cat /proc/$pid/status"
    )
    lines = node.run(measure).splitlines()
    used = (int(lines[1].split()[0]) - int(lines[0].split()[0])) / 1e9
    rss = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
    measures.note("agent at rest with 3 pods, % of an emulated core", 100 * used / seconds)
    measures.note("memory of the agent at rest (RSS), MiB", rss)
    assert rss < 100
    assert used / seconds < 0.5


def test_shutdown_terminates_pods_in_order_and_static_pods_return(
    node: VirtualNode, steady: dict[str, Any], measures: Measures
) -> None:
    node.write("/etc/nodeagent/manifests/static.yaml", json.dumps(simple_pod("static", _WAIT_FOR_END)))
    grace: dict[str, Any] = {"terminationGracePeriodSeconds": 25}
    node.create(
        vm_pod("ordinary", _PRINT_AT_END, **grace),
        vm_pod("critical", _PRINT_AT_END, priorityClassName="system-node-critical", **grace),
    )
    before = node.wait_for_running("ordinary", "critical", f"static-{NODE}")
    rehearsed = node.run("nodeagent shutdown rehearse --config /etc/nodeagent/config.yaml")
    assert rehearsed.index("ordinary") < rehearsed.index("critical")
    held = node.run("systemd-inhibit --list --no-legend --no-pager")
    assert "shutdown" in held
    assert "delay" in held

    boot = node.boot_id()
    watch = Stopwatch()
    node.run("systemctl reboot", check=False)
    node.wait_for_boot(boot)
    measures.note("reboot until ssh answers, with pods that take 4 s to end, s", watch.seconds())
    booted_at = float(node.run("awk '/^btime/ {print $2}' /proc/stat"))

    ends = {}
    for name in ("ordinary", "critical"):
        lines = node.run(f"cat /var/log/pods/default_{name}_*/main/0.log").splitlines()
        ends[name] = {line.split(" ", 3)[3]: line.split(" ", 1)[0] for line in lines}
        assert list(ends[name]) == ["running", "ending", "ended"], "each had the time it needed"
    assert ends["ordinary"]["ended"] < ends["critical"]["ending"]
    state = json.loads(node.run(f"cat /var/lib/kubelet/{STATE_FILE}"))
    assert state["startTime"] < state["endTime"], "the shutdown continued after all pods had ended"
    wait_until(lambda: node.run("systemctl is-active nodeagent", check=False).strip() == "active", "unit", 300, 2.0)

    def back() -> Any:
        pods = node.pods()
        static = pods.get(f"static-{NODE}")
        if static is None or not static["status"].get("containerStatuses"):
            return None
        return pods if main_container(static)[0] not in ("", main_container(before[f"static-{NODE}"])[0]) else None

    now = wait_until(back, "static pod is back", 300, 1.0)
    node.wait_for_running(f"static-{NODE}")
    measures.note("reboot until the static pod is Ready, s", watch.seconds())
    for name in ("ordinary", "critical"):
        status = now[name]["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
        ended = status["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        assert ended < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(booted_at))
