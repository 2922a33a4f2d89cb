"""Every row of the configuration document has its field, with the document's type and default."""

from __future__ import annotations

import csv

import pytest

from nodeagent.base import identity
from nodeagent.config.codec import encode
from nodeagent.config.fields import Field, all_fields, members
from nodeagent.contracts.configuration import (
    CredentialProvider,
    CredentialProviderConfig,
    ExecEnvVar,
    SerializedNodeConfigSource,
)
from tests.conftest import ROWS_FILE

with ROWS_FILE.open(encoding="utf-8") as file:
    ROWS = {row["id"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}

FIELD_ROWS = [row for row in ROWS if row.startswith(("config.", "type.")) and not row.startswith("config.kind.")]
ELSEWHERE = {
    "type.LoggingOptions.ErrorStream",
    "type.LoggingOptions.InfoStream",
    "type.LogFormatFactory",
    "type.TimeOrMetaDuration.Duration",
    "type.TimeOrMetaDuration.SerializeAsString",
    *(row for row in ROWS if row.startswith(("type.ExecEnvVar.", "type.SerializedNodeConfigSource."))),
}
"""Programmatic types, and types of other files or that are written as a scalar."""

UNSHOWN = {
    "config.cgroupRoot": "",
    "config.hairpinMode": "promiscuous-bridge",
    "config.cpuCFSQuotaPeriod": "100ms",
    "config.memorySwap": {"swapBehavior": ""},
    "config.reservedSystemCPUs": "",
    "config.systemReservedCgroup": "",
    "config.platformReservedCgroup": "",
    "config.enforceNodeAllocatable": ["pods"],
    "config.seccompDefault": False,
    "config.containerRuntimeEndpoint": "",
    "config.imageServiceEndpoint": "",
    "config.showHiddenMetricsForVersion": "",
    "config.allowedUnsafeSysctls": [],
    "config.evictionHard": {
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
    },
    "config.evictionSoft": {},
    "config.evictionSoftGracePeriod": {},
    "config.evictionMinimumReclaim": {},
    "type.NodeAgentX509Authentication.clientCAFile": "",
}
"""Defaults that the document does not show, as the field has them."""

NESTED = {
    "config.authentication": {
        "x509": {"clientCAFile": ""},
        "webhook": {"enabled": True, "cacheTTL": "2m0s"},
        "anonymous": {"enabled": False},
    },
    "config.authorization": {
        "mode": "Webhook",
        "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
    },
    "config.logging": {
        "format": "text",
        "flushFrequency": "5s",
        "verbosity": 0,
        "vmodule": [],
        "options": {
            "json": {"splitStream": False, "infoBufferSize": "0"},
            "text": {"splitStream": False, "infoBufferSize": "0"},
        },
    },
    "config.tracing": None,
    "type.NodeAgentAuthentication.x509": {"clientCAFile": ""},
    "type.NodeAgentAuthentication.webhook": {"enabled": True, "cacheTTL": "2m0s"},
    "type.NodeAgentAuthentication.anonymous": {"enabled": False},
    "type.NodeAgentAuthorization.webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
}
"""Defaults of structs, whose parts the document gives one by one."""

TYPES = {"meta/v1.Duration": "duration", "string (quantity)": "string", "ResourceChangeDetectionStrategy": "string"}
LISTED_TOGETHER = {
    "config.systemReservedCgroup": "string",
    "config.platformReservedCgroup": "string",
    "config.enforceNodeAllocatable": "array of string",
}


def _field(row: str) -> Field:
    return next(field for field in all_fields().values() if field.member.row == row)


def _has_default(row: str) -> bool:
    """Return whether *row* has a default: fields of list items and of absent structs have none."""
    path = _field(row).path
    return "[]" not in path and not path.startswith("tracing.")


def _documented(row: str, field: Field) -> object:
    """Return the default that the document shows, as the plain form of the field."""
    text = ROWS[row]["default"]
    shape = field.member.shape
    if text == "empty":
        return ""
    if text == "nil":
        return None if shape.optional else {} if shape.kind is dict else []
    if shape.kind is bool:
        return text == "true"
    if shape.kind is int:
        return int(text)
    if shape.kind is float:
        return float(text)
    if shape.name == "duration":
        return str(shape.kind.parse(text))
    used = identity.current()
    return text.replace("<platform_domain>", used.media_domain).replace("<platform_dir>", used.platform_dir)


def test_each_row_has_exactly_one_field():
    rows = [field.member.row for field in all_fields().values() if field.member.row]

    assert sorted(rows) == sorted(set(FIELD_ROWS) - ELSEWHERE)


@pytest.mark.parametrize("row", [row for row in FIELD_ROWS if row not in ELSEWHERE and _has_default(row)])
def test_default_matches_the_specification(row):
    field = _field(row)
    default = encode(field.default)

    if row in NESTED:
        assert default == NESTED[row]
    elif row in UNSHOWN:
        assert ROWS[row]["default"] in ("-", "")
        assert default == UNSHOWN[row]
    elif ROWS[row]["default"]:
        assert default == _documented(row, field)


@pytest.mark.parametrize("row", [row for row in FIELD_ROWS if row.startswith("config.")])
def test_type_matches_the_specification(row):
    field, documented = _field(row), ROWS[row]["type"]
    shape = field.member.shape
    expected = LISTED_TOGETHER.get(row) or TYPES.get(documented, documented)

    if expected.startswith("NodeAgent"):
        assert f"type.{expected}" == shape.kind.row
    else:
        assert shape.name == expected


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ((CredentialProviderConfig, CredentialProvider), "credential."),
        ((ExecEnvVar,), "type.ExecEnvVar."),
        ((SerializedNodeConfigSource,), "type.SerializedNodeConfigSource."),
    ],
)
def test_types_of_other_files_cover_each_row(kind, prefix):
    found = {member.row for one in kind for member in members(one)} - {""}  # Fields of later releases have no row.
    assert found == {row for row in ROWS if row.startswith(prefix)}
