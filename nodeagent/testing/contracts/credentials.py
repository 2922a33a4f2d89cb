"""What everything that knows credentials of registries does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.images import CredentialProvider


class CredentialProviderContract:
    """Fixtures to provide: ``provider``, and ``known``, an image that it has credentials for."""

    @pytest.fixture
    async def provider(self) -> AsyncIterator[CredentialProvider]:
        """The implementation."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def known(self) -> str:
        """An image whose registry the provider knows."""
        raise NotImplementedError

    @pytest.fixture
    def unknown(self) -> str:
        """An image of a registry that it does not know."""
        return "unknown.test/app:1"

    async def test_answers_for_a_registry_that_it_knows(self, provider: CredentialProvider, known: str) -> None:
        found = await provider.credentials(known)
        assert found
        assert list(await provider.credentials(known)) == list(found)

    async def test_secrets_do_not_show_when_printed(self, provider: CredentialProvider, known: str) -> None:
        for one in await provider.credentials(known):
            assert not one.password or one.password not in repr(one)

    async def test_is_silent_about_others(self, provider: CredentialProvider, unknown: str) -> None:
        assert not await provider.credentials(unknown)

    @pytest.mark.parametrize("image", ["", ":", "@", "a/b/c/d@sha256:0", "REG.test:99999/x", "x" * 5000])
    async def test_never_raises_whatever_the_image(self, provider: CredentialProvider, image: str) -> None:
        await provider.credentials(image)
