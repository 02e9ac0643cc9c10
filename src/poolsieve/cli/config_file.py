"""Options of a command from a file: `--config poolsieve.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer

_NEVER = ("config", "help", "force", "resume")
"""Decided anew each time, or of no use in a file."""


def read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take the options of the present command from a file's table of that name; the command line wins.

    To be the callback of an eager option. Raises ValueError if it is no TOML, or names what is not known.
    """
    if file is None or context.resilient_parsing:
        return file
    command = str(context.info_name)
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not a TOML file ({error})") from None
    for name, table in tables.items():
        if name != command or not isinstance(table, dict):
            raise ValueError(f"{file}: {name!r} is not known; options stand in a table [{command}]")
    known = _parameters(context)
    values: dict[str, Any] = {}
    for name, value in tables.get(command, {}).items():
        parameter = known.get(name.replace("_", "-"))
        if parameter is None:
            raise ValueError(f"{file}: {command} has no option {name!r}; it has {', '.join(sorted(known))}")
        _check_value(file, name, value, parameter)
        values[parameter.name] = value
    context.default_map = {**(context.default_map or {}), **values}
    return file


def _parameters(context: typer.Context) -> dict[str, Any]:
    """By their names on the command line, without dashes before them."""
    names: dict[str, Any] = {}
    for parameter in context.command.params:
        for name in parameter.opts:
            names[name.lstrip("-").replace("_", "-")] = parameter
    return {name: parameter for name, parameter in names.items() if name not in _NEVER}


def _check_value(file: Path, name: str, value: Any, parameter: Any) -> None:
    several = parameter.multiple or parameter.nargs == -1
    is_flag = getattr(parameter, "is_flag", False)
    for one in value if several and isinstance(value, list) else [value]:
        if isinstance(one, bool) != is_flag or not isinstance(one, str | int | float):  # bool is int
            wanted = "true or false" if is_flag else "one text or number"
            raise ValueError(f"{file}: {name} is {one!r}, but must be {wanted}")
