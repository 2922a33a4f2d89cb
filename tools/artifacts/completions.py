"""Shell completion for bash, zsh and fish, generated from the command-line parsers."""

from __future__ import annotations

from tools.artifacts.parsers import Command, Option


def bash(command: Command) -> str:
    """Return the completion script for bash."""
    name = command.words[0]
    function = f"_{name.replace('-', '_')}"
    cases = []
    for each in command.all():
        words = [sub.words[-1] for sub in each.subcommands] or [w for arg in each.arguments for w in arg.choices]
        words += [option for found in each.options for option in found.names]
        cases.append(f'        "{" ".join(each.words[1:])}") words="{" ".join(words)}" ;;')
    values = []
    for option in _valued(command):
        action = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$current"))'
        values.append(f"        {'|'.join(option.names)}) {action if option.choices else _FILES}; return ;;")
    paths = [f'"{" ".join(each.words[1:])}"' for each in command.all() if len(each.words) > 1] or ['"-"']
    parts = {"cases": "\n".join(cases), "values": "\n".join(values), "subcommand_pattern": " | ".join(paths)}
    return _BASH.format(name=name, function=function, **parts)


def zsh(command: Command) -> str:
    """Return the completion script for zsh, which uses the one for bash through bashcompinit."""
    name = command.words[0]
    body = bash(command).partition("\n")[2]
    return f"#compdef {name}\nautoload -U +X bashcompinit && bashcompinit\n{body}"


def fish(command: Command) -> str:
    """Return the completion script for fish."""
    name = command.words[0]
    lines = [f"complete -c {name} -f"]
    for each in command.all():
        if any(sub.subcommands for sub in each.all()):
            condition = "__fish_use_subcommand" if len(each.words) == 1 else _seen(each)
        else:
            condition = _seen(each)
        for sub in each.subcommands:
            lines.append(f"complete -c {name} -n {_quote(condition)} -a {sub.words[-1]} -d {_quote(sub.help)}")
        for option in each.options:
            lines.append(f"complete -c {name} -n {_quote(condition)}{_fish_option(option)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _seen(command: Command) -> str:
    words = command.words[1:]
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words) if words else "true"


def _fish_option(option: Option) -> str:
    text = "".join(
        f" -l {name[2:]}" if name.startswith("--") and len(name) > 3 else f" -s {name.lstrip('-')}"
        for name in option.names
        if name != "--v"
    )
    if option.choices:
        text += f" -x -a {_quote(' '.join(option.choices))}"
    elif option.takes_value:
        text += " -r -F" if option.is_file else " -x"
    summary = " ".join(option.help.split())
    return f"{text} -d {_quote(summary[:100])}" if summary else text


def _valued(command: Command) -> list[Option]:
    found: dict[tuple[str, ...], Option] = {}
    for each in command.all():
        for option in each.options:
            if option.takes_value and (option.choices or option.is_file):
                found.setdefault(option.names, option)
    return list(found.values())


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_FILES = 'COMPREPLY=($(compgen -f -- "$current"))'
_BASH = """\
# Completion of {name} for bash; generated from its command-line parser.
{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path="" word words=""
    COMPREPLY=()
    case $previous in
{values}
        =) return ;;
    esac
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "${{path:+$path }}$word" in
            {subcommand_pattern}) path="${{path:+$path }}$word" ;;
        esac
    done
    case $path in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F {function} {name}
"""
