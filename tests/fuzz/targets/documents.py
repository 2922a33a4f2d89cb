"""YAML, JSON and kubeconfig."""

from __future__ import annotations

import json
from typing import Any

from nodeagent.base import kubeconfig as kubeconfigs
from nodeagent.base import yamlsafe
from tests.fuzz.files import written
from tests.fuzz.target import target

LIMITS = yamlsafe.Limits(max_bytes=64 * 1024, max_depth=20, max_values=2000)
YAML = (
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!str ",
    b"!!int ",
    b"!!float ",
    b"--- ",
    b"\n...\n",
    b"? ",
    b"|\n",
    b">-\n",
    b"%YAML 1.1\n",
    b".inf",
    b"0x",
    b"0o17",
)
JSON = (b'{"a":', b"[", b"]", b"}", b'"', b"\\u0000", b"\\ud83d\\ude00", b"1e400", b"NaN", b"-0", b"true", b"null")


@target(yamlsafe.YamlError, tokens=YAML)
def yaml(data: bytes) -> None:
    """Values are JSON within the limits, and the text of a value is read as the same value."""
    documents = yamlsafe.load_documents(data, LIMITS, repeats=[])
    for document in documents:
        _check_value(document.value)
        assert yamlsafe.load(json.dumps(document.value, ensure_ascii=False)) == document.value
    first = yamlsafe.load_first(data, LIMITS, repeats=[])
    assert not documents or first is None or first == documents[0].value


@target(ValueError, tokens=JSON)
def json_as_yaml(data: bytes) -> None:
    """JSON that is not read the same as YAML, such as numbers out of range, is rejected."""
    text = data.decode()
    try:
        expected = json.loads(text, parse_constant=_reject)
    except RecursionError:
        return
    if isinstance(expected, dict | list):
        value = yamlsafe.load(text, LIMITS)
        assert value == expected
        _check_value(value)


KUBECONFIG = (
    b"current-context: ",
    b"clusters:\n- name: ",
    b"users:\n- name: ",
    b"certificate-authority-data: ",
    b"proxy-url: ",
    b"exec: {",
    b"tokenFile: ",
    b"client-key-data: ",
    b"https://[::1]:443",
    b"server: ",
    b"extensions: ",
)


@target(kubeconfigs.KubeconfigError, tokens=KUBECONFIG)
def kubeconfig(data: bytes) -> None:
    """Errors name the file, and never quote a secret."""
    path = written("kubeconfig", data)
    try:
        config = kubeconfigs.load(path)
    except kubeconfigs.KubeconfigError as error:
        assert str(path) in str(error)
    else:
        assert config.server
        config.files()
        config.proxy({})
        if config.token_file is None:
            config.authorization()
        assert config.token is None or len(reveal := config.token.reveal()) < 4 or reveal not in repr(config.token)
        if config.certificate_authority.data:
            config.ssl_context()
    kubeconfigs.load_users(path)


def _reject(name: str) -> Any:
    raise ValueError(name)


def _check_value(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert json.loads(text) == value
    assert not isinstance(value, dict) or all(isinstance(key, str) for key in value)
