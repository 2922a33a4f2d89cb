"""Client for the preparation of a server: JSON requests on one connection that stays open."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlparse

_SECONDS = 20.0


class Session:
    """Connection of an administrator, opened again if the server closed it.

    :param ca_file: CA certificate of the server.
    """

    def __init__(self, url: str, token: str, ca_file: str) -> None:
        parts = urlparse(url)
        context = ssl.create_default_context(cafile=ca_file)
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=context, timeout=_SECONDS
        )
        self._token = token

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the decoded response; an error is a Status with a ``code``, as is one line of text."""
        data = self.body(method, path, body, content_type)
        try:
            return json.loads(data)
        except ValueError:  # The path belongs to no resource, such as one of a definition that was deleted.
            return {"kind": "Status", "code": 404, "message": data.decode(errors="replace")}

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def body(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> bytes:
        """Return the body of the response."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        try:
            return self._exchange(method, path, data, headers)
        except (ConnectionError, ssl.SSLError):
            self.close()  # The server closed the connection after the response before.
            return self._exchange(method, path, data, headers)
        except BaseException:
            self.close()
            raise

    def _exchange(self, method: str, path: str, data: str | None, headers: dict[str, str]) -> bytes:
        self._connection.request(method, path, data, headers)
        return self._connection.getresponse().read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
