"""Fixtures that load configuration files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeagent.base import identity
from nodeagent.config.load import Loaded, load_configuration
from nodeagent.errors import ConfigError

NATIVE = "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
REFERENCE = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
ENDPOINT = "containerRuntimeEndpoint: unix:///run/test.sock\n"


@pytest.fixture(autouse=True)
def _same_identity() -> Iterator[None]:
    before = identity.current()
    yield
    identity.configure(before)


@pytest.fixture
def native(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a file in native format, with a runtime endpoint, and returns its path."""

    def write(text: str = "", *, header: str = NATIVE + ENDPOINT, name: str = "node.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + text)
        return str(path)

    return write


@pytest.fixture
def load_text(native: Callable[..., str]) -> Callable[..., Loaded]:
    """Return a function that loads a file with a native header and the specified text, and flags."""

    def load(text: str = "", *flags: str, **options: str) -> Loaded:
        return load_configuration([f"--config={native(text, **options)}", *flags])

    return load


@pytest.fixture
def rejected(load_text: Callable[..., Loaded]) -> Callable[..., list[tuple[str, str]]]:
    """Return a function that loads an invalid configuration and returns path and rule of every problem."""

    def load_invalid(text: str = "", *flags: str, **options: str) -> list[tuple[str, str]]:
        with pytest.raises(ConfigError) as caught:
            load_text(text, *flags, **options)
        return [(problem.path, problem.rule) for problem in caught.value.problems]

    return load_invalid
