"""Fixtures: a puller with fakes of its dependencies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.images import CredentialProvider
from nodeagent.testing import FakeApi, FakeClock, FakeImages, FakeObjects, FakeRecorder, make_config, make_context
from nodeagent_plugins.image_pull.access import ImageAccess
from nodeagent_plugins.image_pull.puller import Puller


@pytest.fixture
def images() -> FakeImages:
    return FakeImages(open_registry=False)


@pytest.fixture
def objects(clock: FakeClock) -> FakeObjects:
    return FakeObjects(clock)


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


@pytest.fixture
async def make_puller(
    clock: FakeClock, images: FakeImages, objects: FakeObjects, recorder: FakeRecorder, tmp_path: Path
) -> AsyncIterator[Callable[..., Puller]]:
    """Return a function that makes a puller; other keywords are fields of the configuration.

    With a policy, the puller verifies pull credentials.
    """
    tasks = TaskOwner("test")

    def make(
        *providers: CredentialProvider,
        policy: str = "",
        api: FakeApi | None = None,
        gates: FeatureGates | None = None,
        **config: Any,
    ) -> Puller:
        context = make_context(
            tmp_path,
            config=make_config(image_pull_credentials_verification_policy=policy, **config),
            clock=clock,
            tasks=tasks,
            images=images,
            objects=objects,
            recorder=recorder,
            api=api,
            **({"gates": gates} if gates is not None else {}),
        )
        return Puller(context, providers, ImageAccess(context) if policy else None)

    yield make
    await tasks.close()
