"""Contract suites of the components that out-of-process plugins provide."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.images import CredentialProvider
from nodeagent.contracts.volumes import VolumeKind
from nodeagent.model.pod import Volume
from nodeagent.testing.contracts import CredentialProviderContract, VolumeKindContract
from nodeagent_plugins.external_plugins.credentials import ExternalCredentials
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.volumes import ExternalVolumeKind
from tests.unit.plugins.external_plugins.conftest import FakePlugin


class TestVolumes(VolumeKindContract):
    @pytest.fixture
    def kind(self, plugin: FakePlugin, connected: Session) -> VolumeKind:
        def set_up(request: Any) -> api.SetUpVolumeResponse:
            Path(request.directory).mkdir(exist_ok=True)
            return api.SetUpVolumeResponse()

        def tear_down(request: Any) -> api.TearDownVolumeResponse:
            shutil.rmtree(request.directory, ignore_errors=True)
            return api.TearDownVolumeResponse()

        plugin.responses |= {"SetUpVolume": set_up, "TearDownVolume": tear_down}
        return ExternalVolumeKind(connected)

    @pytest.fixture
    def volume(self) -> Volume:
        return Volume(name="data", csi={"driver": "shelf.example"})


class TestCredentials(CredentialProviderContract):
    @pytest.fixture
    async def provider(self, plugin: FakePlugin, connected: Session) -> CredentialProvider:
        def respond(request: Any) -> api.GetCredentialsResponse:
            known = request.image.startswith("known.example")
            found = [api.RegistryCredentials(username="me", password="secret")] if known else []
            return api.GetCredentialsResponse(credentials=found)

        plugin.responses["GetCredentials"] = respond
        return ExternalCredentials(connected)

    @pytest.fixture
    def known(self) -> str:
        return "known.example/app"
