"""Tests of AppArmor profiles and swap limits, which need the kernel and the cgroups of the virtual machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.programs import simple_pod, wait_until
from tests.vm.machine import NODE, VirtualNode, main_container, pod_slice

pytestmark = pytest.mark.timeout(1500)

MIB = 1 << 20
SWAP_MIB = 256
PROFILE = "profile deny-write flags=(attach_disconnected) { file, capability, network, signal, deny /tmp/** w, }\n"
_SETTINGS = "memorySwap: {swapBehavior: LimitedSwap}\nfailSwapOn: false\n"
_SERVER, _AGENT, _CONFIG = (f"/etc/nodeagent/{name}" for name in ("apiserver.env", "nodeagent.env", "config.yaml"))
_RELEASE = "--compatibility-version=1.36"
_RESTART = "systemctl restart nodeagent-apiserver && systemctl restart nodeagent"


@pytest.fixture(scope="module")
def latest(node: VirtualNode) -> Iterator[VirtualNode]:
    """Virtual node at release 1.36 with swap space, which pods can use."""
    node.run(f"cp {_SERVER} {_AGENT} {_CONFIG} /root")
    for file, variable in ((_SERVER, "NODEAGENT_APISERVER_FLAGS"), (_AGENT, "NODEAGENT_FLAGS")):
        node.run(f". {file}; echo \"{variable}='${variable} {_RELEASE}'\" >> {file}")
    node.run(f"cat >> {_CONFIG}", text=_SETTINGS)
    node.run(f"fallocate -l {SWAP_MIB}M /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile")
    node.run(_RESTART, seconds=1200)
    wait_until(lambda: node.condition("Ready") == "True", "node is Ready", 300, 1.0)
    yield node
    node.run(f"swapoff /swapfile && cp /root/*.env /root/config.yaml /etc/nodeagent && {_RESTART}", seconds=1200)
    wait_until(lambda: node.condition("Ready") == "True", "node is Ready", 300, 1.0)


def apparmor_pod(name: str, kind: str, profile: str = "") -> dict[str, Any]:
    requested = {"type": kind, **({"localhostProfile": profile} if profile else {})}
    command = "cat /proc/self/attr/current; (echo text > /tmp/file) 2>/dev/null || echo denied; exec sleep 1000000"
    security = {"appArmorProfile": requested}
    return simple_pod(name, command, nodeName=NODE, container={"securityContext": security})


def test_apparmor_profile_of_a_container_is_enforced(latest: VirtualNode) -> None:
    latest.run("cat > /etc/apparmor.d/deny-write && apparmor_parser --replace /etc/apparmor.d/deny-write", text=PROFILE)
    latest.create(
        apparmor_pod("profile-default", "RuntimeDefault"),
        apparmor_pod("profile-none", "Unconfined"),
        apparmor_pod("profile-own", "Localhost", "deny-write"),
        apparmor_pod("profile-missing", "Localhost", "not-loaded"),
    )
    names = ("profile-default", "profile-none", "profile-own")
    latest.wait_for_running(*names)

    found = {name: latest.kubectl("logs", name).splitlines() for name in names}

    assert found["profile-default"] == ["cri-containerd.apparmor.d (enforce)"]
    assert found["profile-none"] == ["unconfined"]
    assert found["profile-own"][0] == "deny-write (enforce)"
    assert found["profile-own"][-1] == "denied"
    wait_until(lambda: "not-loaded" in waiting(latest, "profile-missing"), "the runtime rejects the profile", 120, 1.0)
    latest.delete(*names, "profile-missing")
    latest.wait_for_end(*names, "profile-missing")


def waiting(node: VirtualNode, name: str) -> str:
    """Return why the container of a pod waits, as JSON."""
    statuses = node.pods()[name]["status"].get("containerStatuses") or ()
    return json.dumps([status["state"].get("waiting") for status in statuses])


def test_burstable_pod_has_its_part_of_the_swap_space(latest: VirtualNode) -> None:
    def resources(requested: str, limit: str) -> dict[str, Any]:
        requests, limits = {"cpu": "10m", "memory": requested}, {"cpu": "10m", "memory": limit}
        return {"resources": {"requests": requests, "limits": limits}}

    latest.create(
        simple_pod("swapping", nodeName=NODE, container=resources("64Mi", "128Mi")),
        simple_pod("not-swapping", nodeName=NODE, container=resources("64Mi", "64Mi")),
    )
    pods = latest.wait_for_running("swapping", "not-swapping")

    limits = {}
    for name in ("swapping", "not-swapping"):
        scope = f"{pod_slice(pods[name])}/cri-containerd-{main_container(pods[name])[0]}.scope"
        limits[name] = latest.run(f"cat {scope}/memory.swap.max").strip()
    total = int(latest.run("awk '/^MemTotal:/ {print $2}' /proc/meminfo")) * 1024
    swap = int(latest.run("awk '/^SwapTotal:/ {print $2}' /proc/meminfo")) * 1024
    page = 4096
    assert limits["not-swapping"] == "0"
    assert int(limits["swapping"]) == int(64 * MIB / total * swap) // page * page
    assert latest.node()["status"]["nodeInfo"]["swap"]["capacity"] == swap
    latest.delete("swapping", "not-swapping")
    latest.wait_for_end("swapping", "not-swapping")
