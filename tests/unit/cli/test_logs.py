"""``nodeagent logs`` finds the server, asks for what is wanted, and marks the lines of several logs."""

from __future__ import annotations

import argparse
import io
import sys
from types import SimpleNamespace

import msgspec
import pytest

from nodeagent.cli import agent_server
from nodeagent.cli.main import main


class Answer:
    """An answer with a body that comes in pieces."""

    status, reason, content_type = 200, "OK", "text/plain"

    def __init__(self, pieces):
        self.pieces = pieces
        self.content = self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def text(self, errors=""):
        return b"".join(self.pieces).decode()

    async def iter_any(self):
        for piece in self.pieces:
            yield piece


class Session:
    """A server that knows these paths."""

    def __init__(self, **pages):
        self.asked = []
        self.pages = pages

    def get(self, path, params=(), allow_redirects=True):
        self.asked.append((path, list(params)))
        return Answer(self.pages.get(path.strip("/").replace("/", "_"), [b"one\ntwo"]))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


def status(*names):
    return [{"name": name, "containerID": "x"} for name in names]


PODS = {
    "items": [
        {
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "waits"}]},
            "status": {
                "containerStatuses": [*status("a", "b"), {"name": "waits"}],
                "initContainerStatuses": status("i"),
            },
        },
        {"metadata": {"namespace": "shop", "name": "db"}, "spec": {"containers": [{"name": "db"}]}},
    ]
}


@pytest.fixture
def server(monkeypatch):
    session = Session(pods=[msgspec.json.encode(PODS)])
    monkeypatch.setattr(agent_server, "find", lambda arguments: SimpleNamespace(url="https://n"))
    monkeypatch.setattr(agent_server, "session", lambda place: session)
    return session


def test_every_option_reaches_the_server(server, capfd):
    options = ["-f", "--tail", "5", "--since", "1m30s", "--timestamps", "--previous", "-c", "main"]

    assert main(["logs", "shop/db", *options]) == 0

    query = [
        ("follow", "true"),
        ("previous", "true"),
        ("timestamps", "true"),
        ("tailLines", "5"),
        ("sinceSeconds", "90"),
    ]
    assert server.asked == [("/containerLogs/shop/db/main", query)]
    assert capfd.readouterr().out == "one\ntwo"


def test_all_containers_that_began_are_shown_and_marked(server, capfd):
    server.pages["containerLogs_default_web_a"] = [b"x", b"y\nz", b"\n"]

    assert main(["logs", "web", "shop/db"]) == 0

    assert [path for path, _ in server.asked[1:]] == [
        "/containerLogs/default/web/i",
        "/containerLogs/default/web/a",
        "/containerLogs/default/web/b",
        "/containerLogs/shop/db/db",
    ]
    lines = capfd.readouterr().out.splitlines()
    assert {"[default/web a] xy", "[default/web a] z", "[default/web b] one", "[shop/db db] two"} <= set(lines)


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("no_color", ["", "1"])
def test_each_pod_has_a_colour_on_a_terminal(server, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    output = io.BytesIO()
    with Terminal(output, write_through=True) as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)

        assert main(["logs", "web", "shop/db", "-c", "b"]) == 0

        text = output.getvalue().decode()
        monkeypatch.undo()
    marks = {line.partition(" ")[0] for line in text.splitlines()}
    coloured = {"\x1b[36m[default/web", "\x1b[33m[shop/db"}
    assert marks == ({"[default/web", "[shop/db"} if no_color else coloured)


def test_a_service_s_log_is_a_query(server):
    main(["logs", "--system", "--query", "a", "--query", "b", "--pattern", "oops", "--tail", "3", "--boot", "-1"])

    query = [("query", "a"), ("query", "b"), ("tailLines", "3"), ("pattern", "oops"), ("boot", "-1")]
    assert server.asked == [("/logs/", query)]


@pytest.mark.parametrize(
    ("address", "expected"),
    [("h", "h:10250"), ("h:1", "h:1"), ("::1", "[::1]:10250"), ("[::1]", "[::1]:10250"), ("[::1]:5", "[::1]:5")],
)
def test_an_address_gets_the_default_port(address, expected):
    assert agent_server.with_port(address) == expected


@pytest.mark.parametrize("option", [["--since", "0s"], ["--since", "soon"], ["--tail", "-1"], ["--boot", "1"]])
def test_a_value_that_is_none_is_refused(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["logs", "web", *option])

    assert ended.value.code == 2
    assert option[0] in capsys.readouterr().err


def test_an_empty_token_file_is_no_leave_to_ask_as_nobody(tmp_path, capsys):
    (tmp_path / "token").write_text("\n")

    assert main(["logs", "web", "--address", "h", "--token-file", str(tmp_path / "token")]) == 3
    assert "holds no token" in capsys.readouterr().err


def test_a_token_goes_without_the_kubeconfig_s_certificate(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("secret\n")
    arguments = argparse.Namespace(
        kubeconfig="", token_file=str(tmp_path / "token"), address="h", node="", certificate_authority="",
        insecure_skip_tls_verify=False,
    )  # fmt: skip

    place = agent_server.find(arguments)

    assert (place.url, place.authorization) == ("https://h:10250", "Bearer secret")
    assert "secret" not in repr(place)
    assert place.tls.check_hostname


def test_a_node_is_found_through_a_kubeconfig_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main(["logs", "web", "--node", "node-1"]) == 3
    assert "--node needs a kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([("Hostname", "n"), ("ExternalIP", "198.51.100.1"), ("InternalIP", "192.0.2.1")], "https://192.0.2.1:10255"),
        ([("InternalIP", "2001:db8::1")], "https://[2001:db8::1]:10255"),
    ],
)
def test_a_node_s_server_is_where_its_object_says(tmp_path, monkeypatch, addresses, expected):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://api'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}},
    }

    class Client:
        async def get(self, resource, name, *, into):
            return {"metadata": {"name": name}, "status": status}

        async def close(self):
            return None

    monkeypatch.setattr("nodeagent.apiclient.connect", lambda path, config, clock: Client())
    arguments = argparse.Namespace(
        kubeconfig=str(kubeconfig), token_file="", address="", node="node-1", certificate_authority="",
        insecure_skip_tls_verify=True,
    )  # fmt: skip

    place = agent_server.find(arguments)

    assert (place.url, place.authorization) == (expected, "Bearer t")
