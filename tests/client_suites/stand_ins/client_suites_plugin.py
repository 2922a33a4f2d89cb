"""Pytest plugin: the module ``e2e_test.base`` that the source distributions of the Python clients lack."""

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
import types
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-cluster", action="store_true", help="accepted for suites that create clusters")


def _configuration(package: str) -> Any:
    """Return the client configuration of the server under test."""
    client: Any = importlib.import_module(f"{package}.client")
    config: Any = importlib.import_module(f"{package}.config")
    configuration = client.Configuration()
    loaded = config.load_kube_config(os.environ["CLIENT_SUITES_KUBECONFIG"], client_configuration=configuration)
    if inspect.iscoroutine(loaded):
        asyncio.run(loaded)
    return configuration


def _add(package: str) -> None:
    base: Any = types.ModuleType(f"{package}.e2e_test.base")
    base.get_e2e_configuration = lambda: _configuration(package)
    parent: Any = types.ModuleType(f"{package}.e2e_test")
    parent.base = base
    sys.modules |= {parent.__name__: parent, base.__name__: base}


for _package in ("kubernetes", "kubernetes_asyncio"):
    if importlib.util.find_spec(_package) and not importlib.util.find_spec(f"{_package}.e2e_test"):
        _add(_package)
