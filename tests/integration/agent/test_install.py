"""What ``pip install`` and ``make install`` put on a machine works there, and ``make uninstall`` takes it back."""

from __future__ import annotations

import email
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

from nodeagent.testing.apiserver import usual_options

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


def sources(folder: str) -> set[str]:
    """Return the files below a folder of the checkout, as they are known there."""
    found = (path for path in (CHECKOUT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(CHECKOUT / folder)) for path in found}


def listing(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(directory))
    return directory


def test_the_wheel_holds_every_file_of_the_packages_and_the_units(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    for folder, package in PACKAGES.items():
        assert {f"{package}/{name}" for name in sources(folder)} <= names
    assert {name.rpartition("/")[2] for name in names if "share/nodeagent/systemd/" in name} == sources("systemd")


def test_wheel_requires_agent_dependencies_and_offers_extras(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))

    required = {extra: set() for extra in ("", *metadata.get_all("Provides-Extra", []))}
    for line in metadata.get_all("Requires-Dist", []):
        extra = re.search(r"extra == '(\w+)'", line)
        required[extra[1] if extra else ""].add(re.match(r"[\w.-]+(\[[\w,]+\])?", line)[0])

    assert required.keys() == {"", "all", "apiserver", "cli", "dev", "tracing"}
    assert required["apiserver"] == {"cel-expr-python", "h2", "pyjwt", "pynacl"}
    assert required["cli"] == {"rich"}
    assert required["tracing"] == {"opentelemetry-exporter-otlp-proto-grpc", "opentelemetry-sdk"}
    assert required["all"] == required["apiserver"] | required["cli"] | required["tracing"]
    assert not required[""] & required["all"]


def test_the_sdist_holds_what_the_checkout_does(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    for folder in (*PACKAGES, "systemd", "tools", "docs", "tests"):
        assert {f"{folder}/{name}" for name in sources(folder)} <= names
    assert {"Makefile", "pyproject.toml", "README.md", "LICENSE"} <= names


class Staged:
    """``make install`` below a directory, with the dependencies of this environment instead of downloaded ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "usr/lib/nodeagent"

    def install(self) -> Staged:
        self._make("install")
        return self

    def uninstall(self) -> str:
        return self._make("uninstall")

    def copy(self, root: Path) -> Staged:
        shutil.copytree(self.root, root, symlinks=True)
        return Staged(root)

    def program(self, *arguments: str) -> str:
        """Run a program from where it lies now."""
        name, *rest = arguments
        return run(str(self.home / "bin/python"), str(self.home / "bin" / name), *rest, PYTHONPATH=_dependencies())

    def _make(self, target: str) -> str:
        pip = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": _dependencies()}
        return run("make", target, f"DESTDIR={self.root}", "PREFIX=/usr", f"PYTHON={sys.executable}", **pip)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    yield Staged(tmp_path_factory.mktemp("stage")).install()


def test_installed_programs_work(staged: Staged) -> None:
    for name in PROGRAMS:
        assert (staged.root / "usr/bin" / name).resolve() == staged.home / "bin" / name
        assert (staged.home / "bin" / name).read_text().startswith("#!/usr/lib/nodeagent/bin/python")
        assert "usage:" in staged.program(name, "--help") if name != "nodeagent" else True
    assert staged.program("nodeagent", "--version").startswith("nodeagent ")


def test_the_configuration_installed_is_a_good_one_and_names_the_runtime(staged: Staged) -> None:
    config = staged.root / "etc/nodeagent/config.yaml"

    staged.program("nodeagent", "config", "validate", str(config))

    assert "containerRuntimeEndpoint: unix:///run/nodeagent/cri.sock\n" in config.read_text()


def test_what_may_hold_secrets_is_roots_alone_and_kubeconfigs_are_in_place(staged: Staged) -> None:
    etc = staged.root / "etc/nodeagent"

    for name in ("config.yaml", "nodeagent.env", "apiserver.env", "runtime.env"):
        assert (etc / name).stat().st_mode & 0o777 == 0o600
    data = staged.root / "data"
    links = {name: os.readlink(etc / name) for name in ("kubeconfig", "admin.kubeconfig")}
    assert all(target.startswith("/var/lib/nodeagent-apiserver/") for target in links.values())
    process = subprocess.Popen(
        [sys.executable, "-m", "apiserver_stub", *usual_options(data)],
        stdout=subprocess.PIPE,
        text=True,
        umask=0o022,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving on")
        for target in links.values():
            assert (data / Path(target).name).stat().st_mode & 0o777 == 0o600
        authority = os.readlink(etc / "client-ca.crt").removeprefix("/var/lib/nodeagent-apiserver/")
        assert b"BEGIN CERTIFICATE" in (data / authority).read_bytes()
        keys = list(data.rglob("*.key"))
        assert keys
        assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    finally:
        process.terminate()
        process.communicate(timeout=20)
        shutil.rmtree(data)


def test_units_start_the_programs_installed(staged: Staged) -> None:
    units = staged.root / "usr/lib/systemd/system"

    for name in PROGRAMS:
        text = (units / f"{name}.service").read_text()
        assert f"ExecStart=/usr/bin/{name} " in text
        assert "/usr/local" not in text


def test_uninstalling_takes_all_back(staged: Staged, tmp_path: Path) -> None:
    copy = staged.copy(tmp_path / "copy")

    copy.uninstall()

    assert listing(copy.root) == set()


def test_uninstalling_leaves_what_was_changed(staged: Staged, tmp_path: Path) -> None:
    copy = staged.copy(tmp_path / "copy")
    changed = copy.root / "etc/nodeagent/nodeagent.env"
    changed.write_text("NODEAGENT_FLAGS=-v=4\n")

    said = copy.uninstall()

    assert listing(copy.root) == {"etc/nodeagent/nodeagent.env"}
    assert f"kept      {changed}, which was modified" in said


def _dependencies() -> str:
    return sysconfig.get_path("purelib")
