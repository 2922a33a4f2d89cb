"""Encryption rules: the transformers of each resource; the first encrypts, all of them decrypt."""

from __future__ import annotations

from msgspec import field

from apiserver_stub.storage.encryption.data_keys import DataKeys
from apiserver_stub.storage.encryption.kms_v1 import KmsV1Transformer
from apiserver_stub.storage.encryption.kms_v2 import KmsV2Transformer
from apiserver_stub.storage.encryption.transformers import IDENTITY, DecryptionError, EncryptionUnavailable, Transformer
from nodeagent.base.structs import Struct

_CLEAR = (IDENTITY,)
_PROBE = b"probe"
_INTERNAL = ("core/masterleases", "core/quotacharges", "core/ranges")
"""Never encrypted, as upstream; encrypted values of earlier releases are read and rewritten."""


class Rule(Struct, frozen=True):
    """Entry of the configuration: resources as ``(plural, group)``, where ``*`` matches any, and their transformers."""

    resources: tuple[tuple[str, str], ...]
    transformers: tuple[Transformer, ...]

    def covers(self, plural: str, group: str) -> bool:
        return any(name in ("*", plural) and area in ("*", group) for name, area in self.resources)


class Rules(Struct, frozen=True):
    """All entries; the first one that covers a resource applies."""

    rules: tuple[Rule, ...] = ()
    _found: dict[str, tuple[Transformer, ...]] = field(default_factory=dict)

    def transformers(self, collection: str) -> tuple[Transformer, ...]:
        """Return the transformers of *collection* (``group/plural``)."""
        found = self._found.get(collection)
        if found is None:
            group, _, plural = collection.rpartition("/")
            area = "" if group == "core" else group
            found = next((rule.transformers for rule in self.rules if rule.covers(plural, area)), _CLEAR)
            if collection in _INTERNAL:
                found = (IDENTITY, *found)
            self._found[collection] = found
        return found


class Encryption:
    """Encryption and decryption by the current rules; thread-safe."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()

    def writer(self, collection: str) -> Transformer:
        """Return the transformer of new values of *collection*."""
        return self.rules.transformers(collection)[0]

    def decrypt(self, collection: str, stored: bytes, full_key: bytes) -> tuple[bytes, Transformer]:
        """Return the plain value stored at *full_key*, and the transformer that encrypted it.

        :raises DecryptionError: no key of the rules matches.
        """
        problems = []
        for transformer in self.rules.transformers(collection):
            if stored.startswith(transformer.label):
                try:
                    return transformer.decrypt(stored, full_key), transformer.origin(stored)
                except DecryptionError as error:
                    problems.append(str(error))
        raise DecryptionError(", ".join(problems) or "no matching prefix found")

    def waits(self, collection: str, stored: bytes) -> bool:
        """Return whether decryption of *stored* can wait for a key management service."""
        return any(
            item.waits(stored)
            for item in self.rules.transformers(collection)
            if isinstance(item, KmsV1Transformer | KmsV2Transformer) and stored.startswith(item.label)
        )

    def problem(self, collection: str) -> str:
        """Return the reason why values of *collection* cannot be encrypted now; empty if they can."""
        return self.rules.transformers(collection)[0].problem

    def key_services(self) -> list[DataKeys]:
        """Return the data keys that key management services protect."""
        found = [transformer for rule in self.rules.rules for transformer in rule.transformers]
        return [item.data_keys for item in found if isinstance(item, KmsV1Transformer | KmsV2Transformer)]

    def close(self) -> None:
        """Close the connections to key management services."""
        for service in self.key_services():
            service.close()

    def check(self) -> str:
        """Test the first transformer of each rule; return the problem, or an empty string."""
        for rule in self.rules.rules:
            writer = rule.transformers[0]
            if writer.problem:
                return writer.problem
            try:
                intact = writer.decrypt(writer.encrypt(_PROBE, _PROBE), _PROBE) == _PROBE
            except (DecryptionError, EncryptionUnavailable):
                intact = False
            if not intact:
                return f"{writer.label.decode() or 'identity'} cannot decrypt its own output"
        return ""
