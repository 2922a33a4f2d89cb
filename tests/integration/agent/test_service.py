"""Tests for the systemd units: validity, notifications, and containers that survive a stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodeagent_plugins.embedded_runtime.passable_root import alias_of
from tests.integration.agent.service import PROGRAMS, UNITS, NotifySocket, Service, Unit
from tests.integration.containerd import Network
from tests.integration.programs import free_port, simple_pod, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.systemd")]
SERVICES = ("nodeagent.service", "nodeagent-apiserver.service", "nodeagent-runtime.service")


@pytest.mark.parametrize("name", SERVICES)
def test_unit_is_valid(name: str, tmp_path: Path) -> None:
    for unit in SERVICES:
        text = (UNITS / unit).read_text().replace("/usr/local/bin/", f"{PROGRAMS}/")
        (tmp_path / unit).write_text(text)

    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_unit_of_the_kubelet_is_valid_with_its_drop_in(tmp_path: Path) -> None:
    for name in ("kubelet.service", "kubelet.service.d/10-kubeadm.conf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (UNITS / "kubelet" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/local/bin/kubelet", f"{PROGRAMS}/nodeagent"))

    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "kubelet.service")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize(("name", "exposure"), [("nodeagent.service", 6.5), ("nodeagent-apiserver.service", 1.5)])
def test_exposure_of_a_unit_is_limited(name: str, exposure: float) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={int(exposure * 10)}"]
    result = subprocess.run(
        [*command, str(UNITS / name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )

    assert result.returncode == 0, result.stdout[-400:]


@pytest.mark.parametrize("name", SERVICES)
def test_unit_has_restart_watchdog_and_notify_settings(name: str) -> None:
    settings = Unit(name).settings

    assert (settings["Type"], settings["Restart"]) == ("notify", "always")
    assert settings["WatchdogSec"] == "60s"
    assert settings.get("KillMode") == ("process" if "apiserver" not in name else None)
    assert settings.get("Delegate") == ("yes" if "apiserver" not in name else None)


class ServiceNode:
    """Node whose agent is a service that includes the embedded runtime, in one control group."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="service-"))
        self.directory.chmod(0o755)
        self._network = Network()
        manifests = self.directory / "manifests"
        manifests.mkdir()
        self.health = free_port()
        config = {
            "apiVersion": "nodeagent.config.k8s.io/v1beta1",
            "kind": "NodeAgentConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.directory}/cri.sock",
            "staticPodPath": str(manifests),
            "healthzPort": self.health,
            "address": "127.0.0.1",
            "port": free_port(),
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
        }
        runtime = {"enabled": True, "bridge": self._network.bridge, "podCIDR": self._network.subnet}
        plugins = {"embedded_runtime": runtime, "pod_sync": {"log_root": str(self.directory / "logs")}}
        self._write("config.yaml", config)
        self._write("plugins.yaml", {"plugins": plugins})
        script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done"
        self._write("manifests/steady.yaml", simple_pod("steady", script))
        root, names = self.directory / "root", ("--root-dir", "--cert-dir")
        flags = [f"{name}={path}" for name, path in zip(names, (root, root / "pki"), strict=True)]
        flags += [f"--plugin-config={self.directory}/plugins.yaml", "--disable-plugin=kernel_tunables"]
        self.service = Service(
            "nodeagent.service",
            self.directory,
            flags={"NODEAGENT_FLAGS": " ".join(flags)},
            paths={"/etc/nodeagent/config.yaml": str(self.directory / "config.yaml")},
        )

    def numbers(self) -> list[int]:
        """Return the output of the pod's container, of all its runs."""
        files = sorted(self.directory.glob("logs/pods/*/main/*.log"))
        return [int(line.split()[3]) for file in files for line in file.read_text().splitlines()]

    def keeps_writing(self) -> None:
        """Wait until the same container writes more."""
        before = len(self.numbers())
        wait_until(lambda: len(self.numbers()) > before + 2, "the container goes on")
        numbers = self.numbers()
        assert numbers == list(range(1, len(numbers) + 1))

    def close(self) -> None:
        self.service.close()
        for state in (self.directory / "root").glob("**/containers/*/pid"):
            with_pid = state.read_text().strip()
            if with_pid:
                subprocess.run(["kill", "-KILL", with_pid], check=False, capture_output=True)
        alias = alias_of(self.directory / "root/embedded-runtime")
        for point in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if point.startswith((f"{self.directory}/", str(alias))):
                subprocess.run(["umount", "--lazy", point], check=False)
        if alias.exists():
            alias.rmdir()
        subprocess.run(
            ["nft", "delete", "table", "ip", f"nodeagent_{self._network.bridge}"], check=False, capture_output=True
        )
        self._network.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, document: object) -> None:
        (self.directory / name).write_text(yaml.safe_dump(document))


@pytest.fixture(scope="module")
def node() -> Iterator[ServiceNode]:
    node = ServiceNode()
    try:
        node.service.start()
        node.service.notify.until("READY=1")
        yield node
    finally:
        node.close()


def test_readiness_is_notified_after_the_first_sync(node: ServiceNode) -> None:
    assert "STATUS=1 pods; the runtime is healthy" in node.service.notify.messages
    wait_until(node.numbers, "the static pod runs")


def test_containers_survive_a_stop_and_are_adopted(node: ServiceNode) -> None:
    wait_until(node.numbers, "the static pod runs")

    assert node.service.stop() == 0

    node.service.notify.until("STOPPING=1", 1)
    node.keeps_writing()
    node.service.start()
    node.service.notify.until("READY=1")
    node.keeps_writing()


def test_hanging_service_sends_no_pings_and_its_containers_survive(node: ServiceNode) -> None:
    wait_until(node.numbers, "the static pod runs")
    node.service.stop()
    node.service.start(watchdog_seconds=1.0)
    node.service.notify.until("READY=1")
    node.service.notify.until("WATCHDOG=1")
    node.service.notify.until("WATCHDOG=1")

    assert node.service.process is not None
    node.service.process.send_signal(signal.SIGSTOP)
    while node.service.notify.messages.pop() != "WATCHDOG=1":
        pass
    node.service.notify.listen(0.1)
    node.service.notify.messages.clear()
    node.service.notify.listen(1.0)
    assert node.service.notify.messages == []

    node.service.stop(signal.SIGKILL)  # As systemd does after its stop timeout.
    node.keeps_writing()
    node.service.start()
    node.service.notify.until("READY=1")
    node.keeps_writing()


def test_api_server_notifies_its_address_on_a_path_socket(tmp_path: Path) -> None:
    notify = NotifySocket(str(tmp_path / "notify"))
    unit = Unit("nodeagent-apiserver.service")
    flags = {"NODEAGENT_APISERVER_FLAGS": "--bind-address=127.0.0.1 --free-port"}
    command = unit.command(flags, {"/var/lib/nodeagent-apiserver": str(tmp_path / "data")})
    process = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": notify.address}, stdout=subprocess.DEVNULL)
    try:
        notify.until("READY=1")
        url = json.loads((tmp_path / "data/ready.json").read_text())["url"]
        assert f"STATUS=Serving on {url}" in notify.messages
        process.send_signal(signal.SIGTERM)
        notify.until("STOPPING=1")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        notify.close()


def test_embedded_runtime_is_a_separate_service(tmp_path: Path) -> None:
    notify = NotifySocket()
    unit = Unit("nodeagent-runtime.service")
    directory = Path(tempfile.mkdtemp(prefix="service-"))
    paths = {"/var/lib/nodeagent-runtime": str(directory), "/run/nodeagent/cri.sock": f"{directory}/cri.sock"}
    command = unit.command({"NODEAGENT_RUNTIME_FLAGS": "--network=host"}, paths)
    process = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": notify.address}, stderr=subprocess.DEVNULL)
    try:
        notify.until("READY=1")
        assert (directory / "cri.sock").is_socket()
        assert "STATUS=0 sandboxes, 0 containers" in notify.messages
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        notify.close()
        shutil.rmtree(directory)
