"""Tests for the credential provider plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError
from nodeagent.testing import make_context
from nodeagent_plugins import credential_exec
from nodeagent_plugins.credential_exec.credentials import ExecCredentials

CONFIG = """\
apiVersion: nodeagent.config.k8s.io/v1beta1
kind: CredentialProviderConfig
providers:
- {name: one, matchImages: [reg.io], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}
- {name: two, matchImages: [reg.io], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, x: 1}
"""


@pytest.fixture
def context(tmp_path: Path) -> AgentContext:
    (tmp_path / "bin").mkdir()
    (tmp_path / "providers.yaml").write_text(CONFIG)
    for name in ("one", "two"):
        (tmp_path / "bin" / name).touch(0o755)
    settings = NodeSettings(
        image_credential_provider_config=str(tmp_path / "providers.yaml"),
        image_credential_provider_bin_dir=str(tmp_path / "bin"),
    )
    return make_context(tmp_path, settings=settings)


@pytest.mark.row("flag.image-credential-provider-config", "flag.image-credential-provider-bin-dir")
async def test_configured_executables_are_provided(context: AgentContext, caplog: pytest.LogCaptureFixture) -> None:
    (provided,) = credential_exec.nodeagent_provide_credential_providers(context)

    assert isinstance(provided, ExecCredentials)
    response = await provided.lookup("elsewhere.io/x")
    assert [inquiry.source for inquiry in response.lookups] == ["one", "two"]
    assert any("providers[1].x is not a known field" in getattr(record, "reason", "") for record in caplog.records)


def test_nothing_is_provided_without_the_flags(tmp_path: Path) -> None:
    assert list(credential_exec.nodeagent_provide_credential_providers(make_context(tmp_path))) == []


@pytest.mark.row("credential.name", "flag.image-credential-provider-bin-dir")
def test_every_unusable_executable_is_named(context: AgentContext, tmp_path: Path) -> None:
    (tmp_path / "bin" / "one").unlink()
    (tmp_path / "bin" / "two").chmod(0o644)

    with pytest.raises(ConfigError) as raised:
        credential_exec.nodeagent_provide_credential_providers(context)

    assert [str(problem) for problem in raised.value.problems] == [
        f"--image-credential-provider-bin-dir: '{tmp_path}/bin/one' failed to open: no such file or directory",
        f"--image-credential-provider-bin-dir: '{tmp_path}/bin/two' is not executable",
    ]


@pytest.mark.row("flag.image-credential-provider-config")
@pytest.mark.parametrize("gone", ["providers.yaml", "bin"])
def test_missing_file_or_directory_is_rejected(context: AgentContext, tmp_path: Path, gone: str) -> None:
    (tmp_path / gone).rename(tmp_path / "away")

    with pytest.raises(ConfigError):
        credential_exec.nodeagent_provide_credential_providers(context)
