"""Tests for the ConfigMap with which extension API servers authenticate proxied requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.controllers import authentication_config_map as module
from apiserver_stub.controllers.authentication_config_map import AuthenticationConfigMap, RequestHeaderNames
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store

__all__ = ["store"]

MAPS = "core/configmaps"
KEY = "kube-system/extension-apiserver-authentication"
NAMES = RequestHeaderNames(["front"], ["X-User"], ["X-Group"], ["X-Extra-"])


class Bundle:
    def __init__(self, pem: str) -> None:
        self.pem, self.generation = pem, 1


def publisher(store: MeteredStore, clients: Any = None, proxies: Any = None, names: Any = NAMES) -> Any:
    return AuthenticationConfigMap(store, Identity(), clients, proxies, names)  # type: ignore[arg-type]


def data(store: MeteredStore) -> Any:
    found = store.read(MAPS, KEY)
    return None if found is None else found["data"]


HEADERS = {
    "requestheader-client-ca-file": "P",
    "requestheader-allowed-names": '["front"]',
    "requestheader-username-headers": '["X-User"]',
    "requestheader-group-headers": '["X-Group"]',
    "requestheader-extra-headers-prefix": '["X-Extra-"]',
}


@pytest.mark.parametrize(
    ("clients", "proxies", "expected"),
    [
        (None, None, None),
        (Bundle("C"), None, {"client-ca-file": "C"}),
        (None, Bundle("P"), HEADERS),
        (Bundle("C"), Bundle("P"), {"client-ca-file": "C", **HEADERS}),
    ],
)
async def test_bundles_and_headers_are_published(
    store: MeteredStore, clients: Any, proxies: Any, expected: Any
) -> None:
    await publisher(store, clients, proxies).publish()

    assert data(store) == expected


@pytest.mark.parametrize(("names", "text"), [(["X-Uid"], '["X-Uid"]'), ([], "[]"), (None, None)])
async def test_headers_of_the_uid_depend_on_the_release(store: MeteredStore, names: Any, text: str | None) -> None:
    await publisher(store, None, Bundle("P"), RequestHeaderNames(uid_headers=names)).publish()

    assert data(store).get("requestheader-uid-headers") == text


async def test_existing_config_map_keeps_other_data(store: MeteredStore) -> None:
    metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system", "uid": "1"}
    store.put(MAPS, {"metadata": metadata, "data": {"client-ca-file": "old", "other": "kept"}})

    await publisher(store, Bundle("C")).publish()
    assert data(store) == {"client-ca-file": "C", "other": "kept"}

    store.put(MAPS, {"metadata": metadata})
    await publisher(store, Bundle("C")).publish()
    assert data(store) == {"client-ca-file": "C"}


async def test_unchanged_config_map_is_not_written(store: MeteredStore) -> None:
    await publisher(store, Bundle("C")).publish()
    writes = store.writes
    await publisher(store, Bundle("C")).publish()

    assert store.writes == writes


async def test_changed_bundle_is_published_until_it_is_stored(
    store: MeteredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0)
    bundle, attempts = Bundle("C"), list[str]()
    controller = publisher(store, bundle)

    async def publish() -> None:
        attempts.append(bundle.pem)
        if len(attempts) == 1:
            raise StoreUnavailable("disk full")

    monkeypatch.setattr(controller, "publish", publish)
    running = asyncio.ensure_future(controller.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert attempts == []

    bundle.pem, bundle.generation = "D", 2
    for _ in range(9):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert attempts == ["D", "D"]
