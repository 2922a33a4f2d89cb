"""Tests for ``nodeagent demo``, which ``make run`` starts: output, runtimes and cleanup."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from tests.integration.embedded_runtime.test_unprivileged import AS_UNPRIVILEGED, UNPRIVILEGED_UID, python_of_all
from tests.integration.kubectl import DEBIAN

pytestmark = pytest.mark.integration
CHECKOUT = Path(__file__).parents[3]


class Demo:
    """Command with a private directory, as root or as an unprivileged user."""

    def __init__(self, *, as_root: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="demo-"))
        self.directory.chmod(0o755)
        self.words = [sys.executable]
        self.environment = {**os.environ}
        if not as_root:
            os.chown(self.directory, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
            self.words = [*AS_UNPRIVILEGED, python_of_all()]
            parts = [str(CHECKOUT), str(CHECKOUT / "plugins"), sysconfig.get_path("purelib")]
            self.environment |= {"PYTHONPATH": os.pathsep.join(parts), "XDG_STATE_HOME": str(self.directory)}
        self.root = self.directory / "nodeagent-demo"

    def command(self, *arguments: str) -> list[str]:
        return [*self.words, "-m", "nodeagent", "demo", "--dir", str(self.root), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=110, check=False
        )

    def run_until(self, text: str, *arguments: str) -> str:
        """Send Ctrl-C once *text* was printed; return the complete output."""
        output = ""
        with subprocess.Popen(
            self.command(*arguments), env=self.environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                output += line
                if text in line:
                    process.send_signal(signal.SIGINT)
        assert process.returncode == 0, output
        return output

    def processes(self) -> dict[int, str]:
        """Return the command lines of processes that use the demo's directory, and of its containers."""
        found = {}
        name = os.fsencode(self.directory)
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    line = (entry / "cmdline").read_bytes()
                    mounts = (entry / "mountinfo").read_bytes().splitlines()
                except OSError:
                    continue
                if name in line or any(mount.split()[4] == b"/" and name in mount for mount in mounts):
                    found[int(entry.name)] = line.replace(b"\0", b" ").decode()
        return found

    def close(self) -> None:
        """Remove everything that a failed test left."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for point in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if point.startswith(f"{self.directory}/"):
                subprocess.run(["umount", "--lazy", point], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(params=[True, False], ids=["root", "ordinary user"])
def demo(request: pytest.FixtureRequest) -> Iterator[Demo]:
    demo = Demo(as_root=request.param)
    yield demo
    demo.close()


@pytest.mark.row("card.embedded-runtime")
def test_pod_runs_without_a_runtime_and_everything_is_stopped(demo: Demo) -> None:
    result = demo.run("--once", "--endpoint", "embedded")

    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("demo-node  Ready=True", "Sandbox", "tick 1 from demo", "read: tick", "Container started"):
        assert text in result.stdout
    assert "terminated and deleted" in result.stdout
    assert demo.processes() == {}
    assert not (demo.root / "runtime/keeper.json").exists()
    assert not Path("/sys/class/net/nodeagent0").exists()
    assert list((demo.root / "runtime/containers").iterdir()) == []


def test_demo_works_in_a_chroot_on_a_plain_directory() -> None:
    demo = Demo(as_root=True)
    try:
        root = demo.directory / "root"
        root.mkdir()
        # The directory is not a mount point, as after debootstrap; its content is bound from the host.
        script = """
            for entry in /*; do
                if [ -L $entry ]; then ln -s $(readlink $entry) "$0$entry"; elif [ -d $entry ]; then
                    mkdir -p "$0$entry"; mount --rbind $entry "$0$entry"; fi
            done
            exec chroot "$0" "$@"
        """
        words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, str(root)]
        result = subprocess.run(
            [*words, *demo.command("--once", "--endpoint", "embedded")],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

        assert result.returncode == 0, result.stdout + result.stderr
        assert "tick 1 from demo" in result.stdout
        assert demo.processes() == {}
    finally:
        demo.close()


def test_kept_pod_keeps_running_and_is_adopted_by_the_next_run(demo: Demo) -> None:
    first = demo.run_until("Ctrl-C stops the demo", "--endpoint", "embedded")
    assert "keeps running" in first
    (log,) = demo.root.glob("logs/pods/default_demo_*/writer/0.log")
    size = log.stat().st_size
    limit = time.monotonic() + 20
    while log.stat().st_size == size:
        assert time.monotonic() < limit, "the pod writes no more"
        time.sleep(0.05)

    settings = demo.root / "settings.yaml"
    settings.write_text("quarantine: {failures: 7}\n")
    again = demo.run_until(
        "Ctrl-C stops the demo", "--endpoint", "embedded", "--stop-pods", "--plugin-config", str(settings)
    )

    assert "failures: 7" in (demo.root / "plugins.yaml").read_text()
    assert "is running since an earlier run" in again
    since = [line.partition("  running since")[2] for line in (first + again).splitlines() if "  running since" in line]
    assert since[0] == since[1]
    assert "terminated and deleted" in again
    assert demo.processes() == {}


def test_terminal_prompts_whether_to_stop_the_pod() -> None:
    demo = Demo(as_root=True)
    ours, theirs = os.openpty()
    process = subprocess.Popen(demo.command("--endpoint", "embedded"), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        _until(ours, b"Ctrl-C stops the demo")
        process.send_signal(signal.SIGINT)
        _until(ours, b"Delete the pod, too?")
        os.write(ours, b"y\n")
        assert b"terminated and deleted" in _until(ours, b"Stopped ")
        assert process.wait(30) == 0
        assert demo.processes() == {}
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        demo.close()


def _until(terminal: int, text: bytes) -> bytes:
    output = b""
    while text not in output:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, output
        output += os.read(terminal, 4096)
    return output


def test_pods_of_the_documentation_run_in_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{DEBIAN}:{os.environ['PATH']}")
    demo = Demo(as_root=True)
    command = demo.command("--endpoint", "embedded", "--stop-pods")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    kubectl = ["kubectl", f"--kubeconfig={demo.root}/apiserver/admin.kubeconfig"]

    def output(*arguments: str) -> str:
        done = subprocess.run([*kubectl, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert process.stdout is not None
        shown = "".join(takewhile(lambda line: not line.startswith("Ctrl-C stops"), process.stdout))
        manifest = CHECKOUT / "docs/pod-fields.yaml"
        assert f"kubectl apply -f {manifest}" in shown

        output("apply", "-f", str(manifest))
        names = ("supplemental-groups", "user-namespace", "environment")
        output("wait", "--for=condition=Ready", "--timeout=50s", *(f"pod/{name}" for name in names))

        assert output("logs", "supplemental-groups") == "1000\n500 2000\n"
        assert output("logs", "user-namespace").split()[2:] == ["65536", "0"]
        assert output("logs", "environment") == "hello there\n1 odd.name=yes\n"
        output("delete", "pods", "--all", "--grace-period=1")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        demo.close()
    assert demo.processes() == {}


def test_specified_runtime_is_used(containerd) -> None:
    demo = Demo(as_root=True)
    try:
        result = demo.run("--once", "--endpoint", containerd.endpoint)

        assert result.returncode == 0, result.stdout + result.stderr
        assert f"{containerd.endpoint}  found: as requested" in result.stdout
        assert "tick 1 from demo" in result.stdout
        assert containerd.ctr("containers", "ls", "-q") == ""
    finally:
        demo.close()


def test_missing_runtime_is_reported_with_a_remedy(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nodeagent", "demo", "--once", "--endpoint", f"unix://{tmp_path}/none.sock"]
    result = subprocess.run([*words, "--dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 3
    assert "omit --endpoint to use the embedded runtime" in result.stderr
