"""Tests for the extras: the agent works without them, and commands that need one name it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nodeagent.base.extras import MODULES

ROOT = Path(__file__).parents[2]
PACKAGES = (("nodeagent", ROOT), ("nodeagent_plugins", ROOT / "plugins"))

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Blocker())
"""


def blocker(*extras):
    return BLOCKER.format(names={module.partition(".")[0] for extra in extras for module in MODULES[extra]})


def run(code, *extras):
    """Run *code* in a process in which the modules of *extras* cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", blocker(*extras) + code], capture_output=True, text=True, timeout=60, check=False
    )


def agent_modules():
    for package, root in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] != "__main__":
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_extras_match_the_distribution():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(requirement):
        files = importlib.metadata.files(re.match(r"[\w.-]+", requirement)[0])
        return {file.parts[0].partition(".")[0] for file in files}

    for extra, modules in MODULES.items():
        tops = {module.partition(".")[0] for module in modules}
        assert all(tops & packages(requirement) for requirement in extras[extra]), extra
    assert extras["all"] == [f"nodeagent[{','.join(sorted(MODULES))}]"]


@pytest.mark.timeout(120)
def test_agent_modules_import_without_extras():
    names = [name for name in agent_modules() if not name.startswith("nodeagent.testing")]
    code = f"import importlib\nfor name in {json.dumps(names)}: importlib.import_module(name)"

    result = run(code, *MODULES)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("call", "extra", "message"),
    [
        (
            "apiserver_stub.__main__ import main; sys.exit(main([]))",
            "apiserver",
            "nodeagent-apiserver needs the extra \"apiserver\": pip install 'nodeagent[apiserver]'",
        ),
        (
            "apiserver_stub.__main__ import main; sys.exit(main(['--tracing-config-file=a.yaml']))",
            "tracing",
            "nodeagent-apiserver --tracing-config-file needs the extra \"tracing\": pip install 'nodeagent[tracing]'",
        ),
        (
            "nodeagent.cli.main import main; sys.exit(main(['demo', '--once']))",
            "apiserver",
            "nodeagent demo needs the extra \"apiserver\": pip install 'nodeagent[apiserver]'",
        ),
        (
            "nodeagent.cli.main import main; sys.exit(main(['status']))",
            "cli",
            "nodeagent status needs the extra \"cli\": pip install 'nodeagent[cli]'",
        ),
    ],
)
def test_command_without_its_extra_names_it_and_exits_with_2(call, extra, message):
    result = run(f"from {call}", extra)

    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"{message}\n")


def test_json_status_needs_no_extra(tmp_path):
    arguments = ["status", "-o", "json", "--root-dir", str(tmp_path)]

    result = run(f"from nodeagent.cli.main import main; sys.exit(main({arguments}))", *MODULES)

    assert result.returncode == 3  # no agent is running


def test_tracing_configuration_without_its_extra_is_rejected():
    code = """
from types import SimpleNamespace
from nodeagent.errors import ConfigError
from nodeagent_plugins import tracing
gates = SimpleNamespace(enabled=lambda name: True)
try:
    tracing.nodeagent_configure(SimpleNamespace(tracing=object()), SimpleNamespace(gates=gates))
except ConfigError as error:
    print(error)
"""

    result = run(code, "tracing")

    assert "tracing needs the extra \"tracing\": pip install 'nodeagent[tracing]'\n" in result.stdout
