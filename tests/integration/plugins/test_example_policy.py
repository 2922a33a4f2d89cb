"""Tests for an installed third-party plugin: discovery, listing, settings, hook calls and its test suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "plugins" / "example_policy"
SETTINGS = "plugins: {example_policy: {allowedRegistries: [registry.example.com]}}\n"


class Environment:
    """Virtual environment that includes the packages of the current one."""

    def __init__(self, path: Path) -> None:
        venv.create(path, with_pip=False, symlinks=True)
        self.python = path / "bin" / "python"
        (packages,) = path.glob("lib/python*/site-packages")
        self.packages = packages
        ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lines = [f"import site; site.addsitedir({directory!r})" for directory in sorted(ours)]
        (packages / "outer.pth").write_text("\n".join(lines) + "\n")

    def run(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [self.python, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def install(self, source: Path) -> None:
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, "install", *options, source],
            check=True,
            timeout=120,
        )

    def add_module(self, name: str, text: str) -> None:
        """Add a plugin of one module with the entry point that an installer would write."""
        (self.packages / f"{name}.py").write_text(textwrap.dedent(text))
        info = self.packages / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[nodeagent]\n{name} = {name}\n")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("scratch") / "venv")
    made.install(SOURCE)
    return made


@pytest.mark.row("card.third-party-plugin")
def test_plugin_is_found_by_its_entry_point_and_listed(environment, tmp_path):
    done = environment.run("-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", tmp_path)

    plugins = {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}
    policy = plugins["example_policy"]
    assert (policy["origin"], policy["version"], policy["state"]) == ("nodeagent-example-policy", "0.1.0", "loaded")
    assert policy["hooks"] == ["nodeagent_configure", "nodeagent_settings_schema"]


def test_plugin_can_be_disabled_by_name(environment, tmp_path):
    arguments = ("--root-dir", tmp_path, "--disable-plugin", "example_policy")
    done = environment.run("-m", "nodeagent", "plugins", "list", "-o", "json", *arguments)
    plugins = {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}
    assert plugins["example_policy"]["state"] == "disabled"


def test_plugin_rejects_a_pod_by_its_settings(environment, tmp_path):
    (tmp_path / "plugins.yaml").write_text(SETTINGS)
    script = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from nodeagent.plugin_settings import load_plugin_config
        from nodeagent.pluginmanager import PluginManager
        from nodeagent.testing import admit, make_container, make_context, make_pod

        async def main(directory):
            plugins = PluginManager()
            plugins.load_entry_points()
            settings = load_plugin_config(str(directory / "plugins.yaml"), plugins).settings
            context = make_context(directory, plugin_settings=settings)
            plugins.provide_all("nodeagent_configure", config=context.config, context=context, plugins=plugins)
            for image in ("registry.example.com/app:1", "evil.test/app:1"):
                print(await admit(plugins, make_pod(containers=[make_container(image=image)])))
            print([*plugins.decisions][-1].plugin)

        asyncio.run(main(Path(sys.argv[1])))
        """
    )

    done = environment.run("-c", script, tmp_path)

    good, bad, plugin = done.stdout.strip().splitlines()
    assert good == "None"
    assert "ImagePolicy" in bad and "evil.test/app:1" in bad
    assert plugin == "example_policy.admission"


def test_settings_that_violate_the_schema_are_reported(environment, tmp_path):
    (tmp_path / "plugins.yaml").write_text("plugins: {example_policy: {allowedRegistries: nowhere}}")
    script = textwrap.dedent(
        """
        import sys
        from nodeagent.errors import ConfigError
        from nodeagent.plugin_settings import load_plugin_config
        from nodeagent.pluginmanager import PluginManager

        plugins = PluginManager()
        plugins.load_entry_points()
        try:
            load_plugin_config(sys.argv[1], plugins)
        except ConfigError as error:
            print(error)
        """
    )
    done = environment.run("-c", script, tmp_path / "plugins.yaml")
    assert "plugins.example_policy.allowedRegistries" in done.stdout


def test_tests_of_the_plugin_pass(environment, tmp_path):
    environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", SOURCE, SOURCE / "tests")
