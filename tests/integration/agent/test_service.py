"""The units are good ones, the programs tell systemd how they do, and stopping one leaves containers running."""

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

from tests.integration.agent.service import PROGRAMS, UNITS, NotifySocket, Service, Unit
from tests.integration.containerd import Network
from tests.integration.programs import free_port, simple_pod, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.systemd")]
SERVICES = ("nodeagent.service", "nodeagent-apiserver.service", "nodeagent-runtime.service")


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    for unit in SERVICES:
        text = (UNITS / unit).read_text().replace("/usr/local/bin/", f"{PROGRAMS}/")
        (tmp_path / unit).write_text(text)

    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize(("name", "exposure"), [("nodeagent.service", 6.5), ("nodeagent-apiserver.service", 1.5)])
def test_a_unit_is_no_more_exposed_than_it_must(name: str, exposure: float) -> None:
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
def test_a_unit_is_restarted_watched_and_waited_for(name: str) -> None:
    settings = Unit(name).settings

    assert (settings["Type"], settings["Restart"]) == ("notify", "always")
    assert settings["WatchdogSec"] == "60s"
    assert settings.get("KillMode") == ("process" if "apiserver" not in name else None)
    assert settings.get("Delegate") == ("yes" if "apiserver" not in name else None)


class Machine:
    """A node whose agent is a service that brings the embedded runtime along: all in one control group."""

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
        """Return what the pod's container has written, of all its starts."""
        files = sorted(self.directory.glob("logs/pods/*/main/*.log"))
        return [int(line.split()[3]) for file in files for line in file.read_text().splitlines()]

    def goes_on(self) -> None:
        """Wait until the container that ran before writes more."""
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
        for point in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if point.startswith(f"{self.directory}/"):
                subprocess.run(["umount", "--lazy", point], check=False)
        subprocess.run(
            ["nft", "delete", "table", "ip", f"nodeagent_{self._network.bridge}"], check=False, capture_output=True
        )
        self._network.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, document: object) -> None:
        (self.directory / name).write_text(yaml.safe_dump(document))


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    machine = Machine()
    try:
        machine.service.start()
        machine.service.notify.until("READY=1")
        yield machine
    finally:
        machine.close()


def test_ready_is_told_once_the_first_sync_is_done(machine: Machine) -> None:
    assert "STATUS=1 pods; the runtime is healthy" in machine.service.notify.heard
    wait_until(machine.numbers, "the static pod runs")


def test_stopping_leaves_containers_and_the_next_start_adopts_them(machine: Machine) -> None:
    wait_until(machine.numbers, "the static pod runs")

    assert machine.service.stop() == 0

    machine.service.notify.until("STOPPING=1", 1)
    machine.goes_on()
    machine.service.start()
    machine.service.notify.until("READY=1")
    machine.goes_on()


def test_a_service_that_hangs_falls_silent_and_its_containers_outlive_its_end(machine: Machine) -> None:
    wait_until(machine.numbers, "the static pod runs")
    machine.service.stop()
    machine.service.start(watchdog_seconds=1.0)
    machine.service.notify.until("READY=1")
    machine.service.notify.until("WATCHDOG=1")
    machine.service.notify.until("WATCHDOG=1")

    assert machine.service.process is not None
    machine.service.process.send_signal(signal.SIGSTOP)
    while machine.service.notify.heard.pop() != "WATCHDOG=1":
        pass
    machine.service.notify.listen(0.1)
    machine.service.notify.heard.clear()
    machine.service.notify.listen(1.0)
    assert machine.service.notify.heard == []

    machine.service.stop(signal.SIGKILL)  # what systemd does when it has waited long enough
    machine.goes_on()
    machine.service.start()
    machine.service.notify.until("READY=1")
    machine.goes_on()


def test_the_api_server_tells_where_it_serves_by_a_path_too(tmp_path: Path) -> None:
    notify = NotifySocket(str(tmp_path / "notify"))
    unit = Unit("nodeagent-apiserver.service")
    flags = {"NODEAGENT_APISERVER_FLAGS": "--bind-address=127.0.0.1 --secure-port=0"}
    command = unit.command(flags, {"/var/lib/nodeagent-apiserver": str(tmp_path / "data")})
    process = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": notify.address}, stdout=subprocess.DEVNULL)
    try:
        notify.until("READY=1")
        url = json.loads((tmp_path / "data/ready.json").read_text())["url"]
        assert f"STATUS=Serving on {url}" in notify.heard
        process.send_signal(signal.SIGTERM)
        notify.until("STOPPING=1")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        notify.close()


def test_the_embedded_runtime_is_a_service_of_its_own(tmp_path: Path) -> None:
    notify = NotifySocket()
    unit = Unit("nodeagent-runtime.service")
    directory = Path(tempfile.mkdtemp(prefix="service-"))
    paths = {"/var/lib/nodeagent-runtime": str(directory), "/run/nodeagent/cri.sock": f"{directory}/cri.sock"}
    command = unit.command({"NODEAGENT_RUNTIME_FLAGS": "--network=host"}, paths)
    process = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": notify.address}, stderr=subprocess.DEVNULL)
    try:
        notify.until("READY=1")
        assert (directory / "cri.sock").is_socket()
        assert "STATUS=0 sandboxes, 0 containers" in notify.heard
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        notify.close()
        shutil.rmtree(directory)
