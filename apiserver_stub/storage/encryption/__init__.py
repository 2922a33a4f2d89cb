"""Encryption at rest (spec: opt.encryption-provider-config)."""

from apiserver_stub.storage.encryption.config import EncryptionError, load_config, parse_config
from apiserver_stub.storage.encryption.rules import Encryption, Rules
from apiserver_stub.storage.encryption.transformers import IDENTITY, DecryptionError, Transformer

__all__ = [
    "IDENTITY",
    "DecryptionError",
    "Encryption",
    "EncryptionError",
    "Rules",
    "Transformer",
    "load_config",
    "parse_config",
]
