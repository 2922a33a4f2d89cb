"""Tests for the reasons of failed connections."""

import errno
import ssl
from urllib.parse import urlsplit

import pytest

from nodeagent.apiclient.dial import _failures_to_connect
from nodeagent.apiclient.transport import ConnectionLost


def verification(message):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = message
    return error


def test_failed_connection_names_the_address_and_the_reason():
    handshake = ssl.SSLError(1, "handshake failure")
    handshake.reason = "WRONG_VERSION_NUMBER"
    for url, error, text in [
        ("https://api:1", ConnectionRefusedError(errno.ECONNREFUSED, "x"), "api:1: Connection refused"),
        ("https://api:1", TimeoutError(), "api:1: no connection within "),
        ("https://api:1", OSError("no route"), "api:1: no route"),
        ("https://api:1", OSError(-2, "Name or service not known"), "api:1: Name or service not known"),
        ("https://api:1", OSError(), "api:1: OSError"),
        ("https://api:1", verification("self-signed"), "api:1: certificate verification failed: self-signed"),
        ("https://api:1", handshake, "api:1: WRONG_VERSION_NUMBER"),
        ("https://api", OSError("x"), "api:443: x"),
    ]:
        with pytest.raises(ConnectionLost) as caught, _failures_to_connect(urlsplit(url)):
            raise error
        assert str(caught.value).startswith(f"cannot connect to {text}"), error
