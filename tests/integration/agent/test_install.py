"""Tests for ``pip install``, ``make install`` and ``make uninstall``."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli.cis.items import ITEMS
from nodeagent.testing.apiserver import usual_options
from tests.integration.agent.service import Unit

pytestmark = pytest.mark.integration
CHECKOUT = Path(__file__).parents[3]
PACKAGES = {
    "nodeagent": "nodeagent",
    "plugins/nodeagent_plugins": "nodeagent_plugins",
    "apiserver_stub": "apiserver_stub",
}
PROGRAMS = ("nodeagent", "nodeagent-apiserver", "nodeagent-runtime")


def run(*command: str, **environment: str) -> str:
    result = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def sources(directory: str) -> set[str]:
    """Return the tracked files in a directory of the checkout."""
    found = (path for path in (CHECKOUT / directory).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(CHECKOUT / directory)) for path in found}


def listing(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(directory))
    return directory


def test_wheel_has_all_package_files_and_units(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    for directory, package in PACKAGES.items():
        assert {f"{package}/{name}" for name in sources(directory)} <= names
    units = (name.partition("share/nodeagent/systemd/") for name in names)
    assert {path for _, found, path in units if found} == sources("systemd")


def test_wheel_requires_agent_dependencies_and_offers_extras(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))

    required = {extra: set() for extra in ("", *metadata.get_all("Provides-Extra", []))}
    for line in metadata.get_all("Requires-Dist", []):
        extra = re.search(r"extra == '(\w+)'", line)
        required[extra[1] if extra else ""].add(re.match(r"[\w.-]+(\[[\w,]+\])?", line)[0])

    assert required.keys() == {"", "all", "apiserver", "cli", "dev", "fuzz", "tracing"}
    assert required["apiserver"] == {"cel-expr-python", "google-re2", "pyjwt", "pynacl"}
    assert required["cli"] == {"rich"}
    assert required["tracing"] == {"opentelemetry-exporter-otlp-proto-grpc", "opentelemetry-sdk"}
    assert required["all"] == required["apiserver"] | required["cli"] | required["tracing"]
    assert not required[""] & required["all"]


def test_sdist_has_all_files_of_the_checkout(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    for directory in (*PACKAGES, "systemd", "tools", "docs", "tests"):
        assert {f"{directory}/{name}" for name in sources(directory)} <= names
    assert {"Makefile", "pyproject.toml", "README.md", "LICENSE"} <= names


class Staged:
    """Result of ``make install`` in a directory, with this environment's dependencies instead of downloaded ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "usr/lib/nodeagent"

    def install(self, *variables: str) -> Staged:
        self._make("install", *variables)
        return self

    def uninstall(self) -> str:
        return self._make("uninstall")

    def copy(self, root: Path) -> Staged:
        shutil.copytree(self.root, root, symlinks=True)
        return Staged(root)

    def program(self, *arguments: str) -> str:
        """Run an installed executable."""
        name, *rest = arguments
        return run(str(self.home / "bin/python"), str(self.home / "bin" / name), *rest, PYTHONPATH=_dependencies())

    def _make(self, target: str, *variables: str) -> str:
        pip = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": _dependencies()}
        locations = (f"DESTDIR={self.root}", "PREFIX=/usr", f"PYTHON={sys.executable}")
        return run("make", target, *locations, *variables, **pip)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    yield Staged(tmp_path_factory.mktemp("stage")).install()


def test_installed_executables_work(staged: Staged) -> None:
    for name in PROGRAMS:
        assert (staged.root / "usr/bin" / name).resolve() == staged.home / "bin" / name
        assert (staged.home / "bin" / name).read_text().startswith("#!/usr/lib/nodeagent/bin/python")
        assert "usage:" in staged.program(name, "--help") if name != "nodeagent" else True
    assert staged.program("nodeagent", "--version").startswith("nodeagent ")


def test_installed_configuration_is_valid_and_has_the_runtime(staged: Staged) -> None:
    config = staged.root / "etc/nodeagent/config.yaml"

    staged.program("nodeagent", "config", "validate", str(config))

    assert "containerRuntimeEndpoint: unix:///run/nodeagent/cri.sock\n" in config.read_text()


def test_new_installation_passes_the_cis_benchmark(staged: Staged) -> None:
    etc = staged.root / "etc/nodeagent"

    for name in ("config.yaml", "nodeagent.env", "apiserver.env", "runtime.env"):
        assert (etc / name).stat().st_mode & 0o777 == 0o600
    data, clients = staged.root / "data", staged.root / "var/lib/nodeagent/clients"
    copied = Unit("nodeagent-apiserver.service").settings["ExecStartPost"].split()
    links = {name: os.readlink(etc / name) for name in ("kubeconfig", "admin.kubeconfig", "client-ca.crt")}
    assert {Path(target).parent for target in links.values()} == {Path("/var/lib/nodeagent/clients")}
    process = subprocess.Popen(
        [sys.executable, "-m", "apiserver_stub", *usual_options(data)],
        stdout=subprocess.PIPE,
        text=True,
        umask=0o022,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving on")
        made = [data / path.removeprefix("/var/lib/nodeagent-apiserver/") for path in copied[-3:]]
        assert {path.name for path in made} == {Path(target).name for target in links.values()}
        assert {path.stat().st_mode & 0o777 for path in made if path.suffix == ".kubeconfig"} == {0o600}
        run(*copied[0].removeprefix("+").split(), *copied[1:5], str(clients), *map(str, made))
        passed = json.loads(staged.program("nodeagent", "doctor", "--cis", f"--host-root={staged.root}", "-o", "json"))
        assert {item["id"]: item["status"] for item in passed} == {
            item.id: "not applicable" if item.id in ("4.1.3", "4.1.4", "4.3.1") else "PASS" for item in ITEMS
        }
        keys = list(data.rglob("*.key"))
        assert keys
        assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    finally:
        process.terminate()
        process.communicate(timeout=20)
        shutil.rmtree(data)
        shutil.rmtree(clients, ignore_errors=True)


def test_units_start_the_installed_executables(staged: Staged) -> None:
    units = staged.root / "usr/lib/systemd/system"

    for name in PROGRAMS:
        text = (units / f"{name}.service").read_text()
        assert f"ExecStart=/usr/bin/{name} " in text
        assert "/usr/local" not in text


def test_kubelet_is_installed_only_on_request(staged: Staged, tmp_path: Path) -> None:
    units = "usr/lib/systemd/system"
    files = {"usr/bin/kubelet", f"{units}/kubelet.service", f"{units}/kubelet.service.d/10-kubeadm.conf"}
    assert not files & listing(staged.root)

    copy = staged.copy(tmp_path / "copy").install("KUBELET=1")

    assert files <= listing(copy.root)
    assert re.match(r"Kubernetes v1\.\d+\.\d+\+nodeagent-", copy.program("kubelet", "--version"))
    command = (copy.root / units / "kubelet.service.d/10-kubeadm.conf").read_text()
    assert "\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS" in command
    # Configuration and restrictions of the node are those of kubeadm, not the hardened ones of nodeagent.service.
    assert not [name for name in listing(copy.root) if name.startswith(("etc/kubernetes/", "var/lib/kubelet/"))]
    assert not list(copy.root.glob("**/kubelet.service.d/*addresses*"))
    unit = (copy.root / units / "kubelet.service").read_text() + command
    assert "IPAddress" not in unit
    assert "/etc/nodeagent" not in unit
    copy.uninstall()
    assert listing(copy.root) == set()


def test_install_keeps_the_files_of_another_kubelet(staged: Staged, tmp_path: Path) -> None:
    copy = staged.copy(tmp_path / "copy")
    other = copy.root / "usr/bin/kubelet"
    other.write_text("another program")

    with pytest.raises(AssertionError, match="kubelet exists: remove the kubelet first"):
        copy.install("KUBELET=1")

    assert other.read_text() == "another program"


def test_uninstall_removes_all_files(staged: Staged, tmp_path: Path) -> None:
    copy = staged.copy(tmp_path / "copy")

    copy.uninstall()

    assert listing(copy.root) == set()


def test_uninstall_keeps_modified_files(staged: Staged, tmp_path: Path) -> None:
    copy = staged.copy(tmp_path / "copy")
    changed = copy.root / "etc/nodeagent/nodeagent.env"
    changed.write_text("NODEAGENT_FLAGS=-v=4\n")

    output = copy.uninstall()

    assert listing(copy.root) == {"etc/nodeagent/nodeagent.env"}
    assert f"kept      {changed}, which was modified" in output


def _dependencies() -> str:
    return sysconfig.get_path("purelib")
