"""Tests for data keys: changes of the service's key while a data key is encrypted."""

from __future__ import annotations

import pytest

from apiserver_stub.storage.encryption.data_keys import DataKeys
from apiserver_stub.storage.encryption.key_service import Encrypted


class Rotating:
    """Service whose key has the IDs *statuses*, one per status, and which encrypts with the key *used*."""

    def __init__(self, used: str, *statuses: str) -> None:
        self._used, self._statuses, self.encrypted = used, list(statuses), 0

    def key_id(self) -> str:
        return self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]

    def encrypt(self, data: bytes) -> Encrypted:
        self.encrypted += 1
        return Encrypted(data[::-1], self._used)

    def decrypt(self, encrypted: Encrypted) -> bytes:
        return encrypted.source[::-1]

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("used", "statuses", "valid"),
    [("k1", ["k1"], True), ("k2", ["k1", "k2"], True), ("k2", ["k1", "k1"], False)],
)
def test_key_of_the_service_may_change_between_calls(used: str, statuses: list[str], *, valid: bool) -> None:
    keys = DataKeys("vault", Rotating(used, *statuses))

    problem = keys.refresh()

    text = "key management service vault: key ID of the encrypted data key differs from that of the status"
    assert problem == ("" if valid else text)
    assert (keys.key_id == used) is valid
    assert (keys.problem == "") is valid


def test_data_key_is_used_until_the_key_of_the_service_changes() -> None:
    service = Rotating("k1", "k1")
    keys = DataKeys("vault", service)
    keys.refresh()
    first = keys.current()
    keys.refresh()

    assert (keys.current(), service.encrypted) == (first, 1)
