"""Contract tests for providers of registry credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.images import CredentialProvider
from nodeagent.testing.pods import make_pod


class CredentialProviderContract:
    """Contract of :class:`CredentialProvider`. Override the fixtures ``provider`` and ``known``."""

    @pytest.fixture
    async def provider(self) -> AsyncIterator[CredentialProvider]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def known(self) -> str:
        """An image for which the provider has credentials."""
        raise NotImplementedError

    @pytest.fixture
    def unknown(self) -> str:
        """An image for which the provider has no credentials."""
        return "unknown.test/app:1"

    async def test_credentials_of_a_known_registry_are_returned(self, provider: CredentialProvider, known: str) -> None:
        credentials = await provider.credentials(known)
        assert credentials
        assert list(await provider.credentials(known)) == list(credentials)

    async def test_credentials_for_a_pod_are_returned(self, provider: CredentialProvider, known: str) -> None:
        assert await provider.credentials(known, make_pod())

    async def test_repr_does_not_contain_secrets(self, provider: CredentialProvider, known: str) -> None:
        for credentials in await provider.credentials(known):
            assert not credentials.password or credentials.password not in repr(credentials)

    async def test_no_credentials_for_an_unknown_registry(self, provider: CredentialProvider, unknown: str) -> None:
        assert not await provider.credentials(unknown)

    @pytest.mark.parametrize("image", ["", ":", "@", "a/b/c/d@sha256:0", "REG.test:99999/x", "x" * 5000])
    async def test_invalid_image_name_does_not_raise(self, provider: CredentialProvider, image: str) -> None:
        await provider.credentials(image)
