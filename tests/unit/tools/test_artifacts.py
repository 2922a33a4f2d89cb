"""Tests for ``tools/artifacts``: deterministic archives, content of packages, man pages and shell completions."""

from __future__ import annotations

import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT))

from tools.artifacts import completions, deb, environment, executable, manpages, packages, parsers, project, sbom  # noqa: E402
from tools.artifacts.wheels import Wheel  # noqa: E402

TIME = 1_700_000_000
VERSION = "0.2.0"


def wheel(directory: Path, name: str, version: str = "1.0", tag: str = "py3-none-any") -> Wheel:
    path = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"NAME = {name!r}\n")
        metadata = f"Name: {name}\nVersion: {version}\nLicense-Expression: MIT\n\n"
        archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
    return Wheel(path)


@pytest.fixture
def own(tmp_path):
    return wheel(tmp_path, "nodeagent", VERSION)


@pytest.fixture
def wheels(tmp_path):
    """Return a distribution for all Python versions, and one with a wheel per version."""
    pure = wheel(tmp_path, "pure")
    return {
        python: [pure, wheel(tmp_path, "native", tag=f"cp{python.replace('.', '')}-linux_x86_64")]
        for python in ("3.11", "3.13")
    }


@pytest.fixture(scope="module")
def commands():
    return parsers.executables()


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    return {member.name: member for member in archive(path, "data.tar.xz")}


def archive(path: Path, name: str) -> tarfile.TarFile:
    data, position = path.read_bytes(), 8
    assert data.startswith(b"!<arch>\n")
    while position < len(data):
        title, size = data[position : position + 16].decode().strip(), int(data[position + 48 : position + 58])
        content = data[position + 60 : position + 60 + size]
        if title == name:
            return tarfile.open(fileobj=io.BytesIO(lzma.decompress(content)))
        position += 60 + size + size % 2
    raise AssertionError(name)


@pytest.fixture
def built(own, wheels, commands, tmp_path):
    """Return the packages of two builds."""
    found = []
    for directory in (tmp_path / "first", tmp_path / "second"):
        directory.mkdir()
        for package in packages.packages(own, wheels, commands, VERSION, TIME):
            found.append(deb.write(package, VERSION, "amd64", packages.MAINTAINER, TIME, directory))
    return found


def test_packages_are_reproducible_and_complete(built):
    first, second = built[:4], built[4:]

    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert [path.name.partition("_")[0] for path in first] == [
        "nodeagent",
        "nodeagent-apiserver",
        "nodeagent-runtime",
        "nodeagent-kubelet",
    ]
    for path, command in zip(first, ("nodeagent", "nodeagent-apiserver", "nodeagent-runtime", "kubelet"), strict=True):
        found = members(path)
        assert {
            f"./usr/bin/{command}",
            f"./usr/lib/systemd/system/{command}.service",
            f"./usr/share/man/man8/{command}.8.gz",
            f"./usr/share/bash-completion/completions/{command}",
            f"./usr/share/zsh/vendor-completions/_{command}",
            f"./usr/share/fish/vendor_completions.d/{command}.fish",
        } <= found.keys()
        assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(0, 0, TIME)}


def test_package_of_the_agent_has_dependencies_of_each_python_version(built):
    found = members(built[0])

    home = "./usr/lib/nodeagent"
    assert f"{home}/common/pure/__init__.py" in found
    assert f"{home}/common/nodeagent/__init__.py" in found
    for python in ("3.11", "3.13"):
        assert f"{home}/lib/python{python}/site-packages/native/__init__.py" in found
        assert f"{home}/lib/python{python}/site-packages/pure/__init__.py" not in found


def test_configuration_files_of_packages_have_the_modes_of_the_benchmark(built):
    modes = {name: member.mode for path in built[:4] for name, member in members(path).items() if member.isfile()}
    secret = [name for name in modes if name.startswith(("./etc/nodeagent", "./etc/systemd", "./usr/lib/systemd"))]

    assert len(secret) == 9
    assert {modes[name] for name in secret} == {0o600}
    conffiles = archive(built[0], "control.tar.xz").extractfile("./conffiles").read().decode().split()
    assert conffiles == [
        "/etc/nodeagent/nodeagent.env",
        "/etc/sysctl.d/90-nodeagent.conf",
        "/etc/systemd/system/nodeagent.service.d/10-addresses.conf",
    ]


def test_control_archive_has_only_files_that_dpkg_reads(built):
    assert set(archive(built[0], "control.tar.xz").getnames()) == {
        ".",
        *(f"./{name}" for name in ("control", "md5sums", "conffiles", "postinst", "prerm", "postrm")),
    }


def test_maintainer_scripts_are_valid_shell():
    scripts = [path for path in (ROOT / "tools/artifacts/scripts").iterdir() if path.suffix != ".lintian-overrides"]

    assert len(scripts) == 12
    for script in scripts:
        subprocess.run(["sh", "-n", str(script)], check=True)


def test_executable_is_reproducible(own, wheels, tmp_path):
    for name in ("a", "b"):
        executable.write(tmp_path / name, own, wheels, TIME)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "environment/pyvenv.cfg" in zipfile.ZipFile(tmp_path / "a").namelist()


def test_bill_of_materials_lists_every_bundled_wheel_once(own, wheels):
    text = sbom.document(own, wheels, [("libc6", "2.36-9")], TIME)

    assert [each["name"] for each in json.loads(text)["components"]] == ["pure", "native", "native", "libc6"]
    assert len(list(environment.distributions(own, wheels))) == 4


def test_pinned_distributions_include_all_dependencies():
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = document["optional-dependencies"]
    needed = [*document["dependencies"], *extras["apiserver"], *extras["cli"], *extras["tracing"]]

    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in project.requirements()}
    assert {re.match(r"[\w-]+", line)[0].lower() for line in needed} <= pinned


def test_man_page_lists_options_and_subcommands(commands):
    page = manpages.man_page(commands["nodeagent"], VERSION, TIME)

    assert page.startswith('.TH NODEAGENT 8 "2023-11-14"')
    assert ".SS doctor\n" in page
    assert "\\fB\\-\\-host\\-root\\fR \\fIDIR\\fR" in page
    assert (
        page.count("\\fB\\-\\-streaming\\-connection\\-idle\\-timeout\\fR") == 1
    )  # Flags of the daemon are listed once.


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["do"], ["doctor"]),
        (["doctor", "--ci"], ["--cis"]),
        (["doctor", "-o", ""], ["text", "json"]),
        (["plugins", "rel"], ["reload"]),
    ],
)
def test_bash_completion(commands, words, expected, tmp_path):
    (tmp_path / "script").write_text(completions.bash(commands["nodeagent"]))
    line = f"COMP_WORDS=(nodeagent {' '.join(word or repr('') for word in words)}); COMP_CWORD={len(words)}"

    script = f'source {tmp_path}/script; {line}; _nodeagent; echo "${{COMPREPLY[@]}}"'

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_fish_and_zsh_completions_have_the_subcommands(commands):
    fish = completions.fish(commands["nodeagent"])

    assert "complete -c nodeagent -n '__fish_use_subcommand' -a doctor " in fish
    assert "-l cis" in fish
    assert completions.zsh(commands["nodeagent"]).startswith("#compdef nodeagent\n")
