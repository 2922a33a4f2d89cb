"""Encryption at rest: which keys seal the stored bytes of which resources (spec: opt.encryption-provider-config)."""

from apiserver_stub.encryption.config import EncryptionError, load_config, parse_config
from apiserver_stub.encryption.rules import Encryption, Rules
from apiserver_stub.encryption.sealers import IDENTITY, Sealer, Unreadable

__all__ = ["IDENTITY", "Encryption", "EncryptionError", "Rules", "Sealer", "Unreadable", "load_config", "parse_config"]
