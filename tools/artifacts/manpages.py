"""Man pages, generated from the command-line parsers."""

from __future__ import annotations

from datetime import UTC, datetime

from tools.artifacts.parsers import Command, Option


def man_page(command: Command, version: str, time: int) -> str:
    """Return the page of an executable in section 8."""
    name = command.words[0]
    date = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")
    lines = [f'.TH {name.upper()} 8 "{date}" "nodeagent {version}" "System Administration"']
    lines += [".SH NAME", f"{name} \\- {_escape(command.help)}", ".SH SYNOPSIS"]
    for each in command.all():
        if not each.subcommands:
            lines += [f".B {_escape(' '.join(each.words))}", _synopsis(each), ".br"]
    lines += [".SH DESCRIPTION", _escape(" ".join(command.description.split()))]
    if command.options:
        lines += [".SH OPTIONS", *_options(command.options)]
    if command.subcommands:
        lines.append(".SH COMMANDS")
        shared = _flags_of_run(command)
        for each in command.all():
            if not each.subcommands:
                lines += [f".SS {_escape(' '.join(each.words[1:]))}", _escape(each.help), *_options(each.arguments)]
                others = [] if each.words[1:] == ("run",) else shared
                found = [option for option in each.options if "--help" not in option.names]
                lines += _options(option for option in found if option not in others)
                if others and set(others) & set(found):
                    lines += [".PP", "The options of", ".B run", "are accepted, too."]
    lines += [".SH FILES", ".I /etc/nodeagent", ".br", ".I /usr/share/nodeagent/docs"]
    return "\n".join(line for line in lines if line) + "\n"


def _flags_of_run(command: Command) -> list[Option]:
    found = next((each for each in command.all() if each.words[1:] == ("run",)), None)
    return list(found.options) if found is not None else []


def _synopsis(command: Command) -> str:
    words = ["[\\fIOPTION\\fR...]"] if command.options else []
    return " ".join([*words, *(f"\\fI{_escape(each.metavar)}\\fR" for each in command.arguments)])


def _options(options: object) -> list[str]:
    lines = []
    for option in options:  # type: ignore[attr-defined]
        lines += [".TP", _names(option)]
        text = " ".join(option.help.split())
        if option.choices:
            text += f" ({', '.join(option.choices)})" if text else f"One of {', '.join(option.choices)}."
        lines.append(_escape(text) or "\\&")
    return lines


def _names(option: Option) -> str:
    value = f" \\fI{_escape(option.metavar)}\\fR" if option.metavar else ""
    return ", ".join(f"\\fB{_escape(name)}\\fR{value}" for name in option.names) or value.strip() or "\\&"


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
