"""Tests for the preparation of the ranges of Services."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import Registry
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.service_ranges import prepare_service_ranges
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory

OBJECTS = {"default-service-cidr", "address-repair"}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], {"service-ranges"}),
        (["--compatibility-version=1.36"], {"service-ranges", *OBJECTS}),
    ],
)
async def test_controllers_depend_on_the_served_kinds(arguments: list[str], names: set[str]) -> None:
    options, store = parse(arguments), Memory()
    registry: Any = build_registry(options)

    found = await prepare_service_ranges(store, registry, options.identity, None, FakeClock())  # type: ignore[arg-type]

    assert found.keys() == names
    assert bool(store.collection("networking.k8s.io/servicecidrs").get("kubernetes")) is (names >= OBJECTS)


async def test_ranges_need_the_kind_of_services() -> None:
    options, store = parse(["--compatibility-version=1.36"]), Memory()
    registry: Any = Registry([item for item in build_registry(options) if item.plural != "services"])

    found = await prepare_service_ranges(store, registry, options.identity, None, FakeClock())  # type: ignore[arg-type]

    assert found == {}
