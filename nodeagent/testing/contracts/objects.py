"""Contract tests for readers of the objects that pods refer to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from nodeagent.base.aio import Clock
from nodeagent.contracts.objects import ObjectReader
from nodeagent.model.pod import Pod
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.pods import make_pod

Put = Callable[[str, dict[str, Any]], None]


class ObjectReaderContract:
    """Contract of :class:`ObjectReader`. Override the fixtures ``objects``, which uses ``clock``, and ``put``."""

    @pytest.fixture
    async def clock(self) -> Clock:
        """The clock of the reader."""
        return FakeClock()

    @pytest.fixture
    async def objects(self) -> AsyncIterator[ObjectReader]:
        """The implementation to test, without objects."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def put(self) -> Put:
        """Function that creates an object of a kind (``ConfigMap``, ``Secret``) in its namespace."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self, put: Put) -> Pod:
        """A pod that refers to the ConfigMap ``settings``, the Secret ``password`` and a missing one of each."""
        for kind, name in (("ConfigMap", "settings"), ("Secret", "password")):
            metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
            put(kind, {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"key": "dmFsdWU="}})
        return make_pod(
            "contract",
            service_account_name="default",
            volumes=[
                {"name": "a", "configMap": {"name": "settings"}},
                {"name": "b", "secret": {"secretName": "password"}},
                {"name": "c", "configMap": {"name": "absent"}},
                {"name": "d", "secret": {"secretName": "absent"}},
            ],
        )

    async def test_referenced_objects_are_returned(self, objects: ObjectReader, pod: Pod) -> None:
        objects.register_pod(pod)
        config_map = await objects.config_map("default", "settings")
        secret = await objects.secret("default", "password")
        assert config_map is not None and config_map["data"] == {"key": "dmFsdWU="}
        assert secret is not None and secret["data"] == {"key": "dmFsdWU="}
        objects.unregister_pod(pod.uid)

    async def test_missing_object_returns_none(self, objects: ObjectReader, pod: Pod) -> None:
        objects.register_pod(pod)
        assert await objects.config_map("default", "absent") is None
        assert await objects.secret("default", "absent") is None
        objects.unregister_pod(pod.uid)

    async def test_registering_and_unregistering_are_idempotent(self, objects: ObjectReader, pod: Pod) -> None:
        for _ in range(2):
            objects.register_pod(pod)
        for _ in range(2):
            objects.unregister_pod(pod.uid)
        objects.unregister_pod("unknown")

    async def test_token_is_specific_to_its_audience_and_expires_later(
        self, objects: ObjectReader, pod: Pod, clock: Clock
    ) -> None:
        objects.register_pod(pod)
        one = await objects.service_account_token(pod, audience="one")
        two = await objects.service_account_token(pod, audience="two")
        assert one.token and two.token and one.token != two.token
        assert one.expires_at > clock.wall()
        assert one.token not in repr(one)
        objects.unregister_pod(pod.uid)
