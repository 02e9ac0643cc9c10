"""The options of `poolsieve train`, made of the declarations of its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from poolsieve.training.recipes import RECIPES
from poolsieve.training.settings import PANELS, PARTS, TrainingSettings, choices


@dataclass(frozen=True)
class SettingOption:
    """A setting as an option of the command line."""

    field: Field[Any]  # the setting
    hint: Any  # its type
    part: str | None  # the part of the settings that it belongs to, such as "glance"; None if to none
    panel: str  # heading of the help under which it stands

    @property
    def key(self) -> str:
        """What the command's function takes it as."""
        return self.field.name if self.part is None else f"{self.part}_{self.field.name}"

    @property
    def name(self) -> str:
        """The option, as it is typed."""
        name = self.field.metadata["name"] or f"--{self.field.name.replace('_', '-')}"
        return f"{name}/--no-{name.removeprefix('--')}" if self.hint is bool else name

    @property
    def words(self) -> tuple[str, str] | None:
        """What the two sides of "--a/--b" stand for."""
        first, slash, second = self.name.partition("/")
        return (first.removeprefix("--"), second.removeprefix("--")) if slash else None

    @property
    def annotation(self) -> Any:
        """Type of the function's parameter; None where the option is not given."""
        kinds = [kind for kind in get_args(self.hint) if kind is not type(None)]
        kind = kinds[0] if type(None) in get_args(self.hint) else self.hint
        if self.words is not None:
            kind = bool
        elif get_origin(kind) is tuple:
            kind = list[get_args(kind)[0]]  # type: ignore[misc]
        return kind | None

    @property
    def help(self) -> str:
        """The help text with the default, that of other recipes, and the limits."""
        told = self.field.metadata
        default = self._text(self.field.default) if told["shown"] is None else told["shown"]
        parts = [f"default: {default}"] if default else []
        for recipe, values in RECIPES.items():
            given = values.get(self.part or self.field.name, self.field.default)
            given = getattr(given, self.field.name, self.field.default) if self.part else given
            if given != self.field.default:
                parts.append(f"{self._text(given)} with --recipe {recipe}")
        if told["allowed"] is not None:
            parts.append(told["allowed"].limits)
        # Rich takes a bare bracket for markup.
        return f"{told['help']} \\[{'; '.join(filter(None, parts))}]" if parts else told["help"]

    def _text(self, value: Any) -> str:
        if isinstance(value, bool) and self.words is not None:
            return self.words[0 if value else 1]
        if isinstance(value, tuple):
            return ", ".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    def value(self, given: Any) -> Any:
        """The setting that was typed."""
        if self.words is not None and choices(self.hint):
            return self.words[0 if given else 1]
        return tuple(given) if isinstance(given, list) else given


def setting_options() -> Iterator[SettingOption]:
    """All settings that can be given on the command line."""
    panel = ""
    for part, kind in [(None, TrainingSettings), *PARTS.items()]:
        for entry in fields(kind):
            panel = PANELS.get(part or entry.name, panel)
            if "help" in entry.metadata:
                yield SettingOption(entry, get_type_hints(kind)[entry.name], part, panel)


def with_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command's function, in the place of its last parameter `**given`, an option for each setting."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]
    made = [
        inspect.Parameter(
            option.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                option.annotation,
                typer.Option(option.name, help=option.help, rich_help_panel=option.panel),
            ],
        )
        for option in setting_options()
    ]
    command.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
    return command


def given_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were typed, for `make_settings`; those of a part are in a mapping of its name."""
    settings: dict[str, Any] = {}
    for option in setting_options():
        typed = given[option.key]
        if typed is not None and typed != []:
            place = settings if option.part is None else settings.setdefault(option.part, {})
            place[option.field.name] = option.value(typed)
    return settings
