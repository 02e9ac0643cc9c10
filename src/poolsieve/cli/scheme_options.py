"""The options of `poolsieve moderate` that follow from the table of schemes: names, and all parameters."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

from poolsieve.cli.command import Command

SCHEME_HELP = (
    "How images are decided about; docs/moderating.md compares them. auto follows the cheapest plan for the "
    "share of bad images that it finds."
)


_GIVEN = "poolsieve.scheme"


class SchemeCommand(Command):
    """A command that has an option for each parameter of every scheme, and one for the scheme's name.

    They are added when the command is to be run or to tell its help: stages take a while to import, and other
    commands need none.
    """

    added: list[str]

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Add the options first."""
        if all(one.name != "scheme" for one in self.params):
            own = next(k for k, one in enumerate(self.params) if one.name == "chunk") + 1
            made = scheme_options()
            self.params = [*self.params[:own], *made, *self.params[own:]]
            _tell_whose_head(next(one for one in self.params if one.name == "no_head"))
            self.added = [one.name for one in made]
        return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Hand their values on beside the others: the command's function does not know them."""
        ctx.meta[_GIVEN] = {name: ctx.params.pop(name) for name in self.added}
        return super().invoke(ctx)


class SchemeNameCommand(Command):
    """A command whose option `--scheme` takes the names of the table, which are looked up as late."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Make the option anew first, with its choices."""
        place = next(k for k, one in enumerate(self.params) if one.name == "scheme")
        words: Any = self.params[place]
        (made,) = _made_by_typer([_scheme_parameter(words.help)])
        self.params = [*self.params[:place], made, *self.params[place + 1 :]]
        return super().make_context(*given, **more)


def given_options(context: typer.Context) -> dict[str, Any]:
    """The scheme and its parameters as they were typed; None where they were not."""
    return dict(context.meta[_GIVEN])


def scheme_options() -> list[Any]:
    """The options, made by typer from a signature."""
    parameters = [_scheme_parameter(SCHEME_HELP)]
    for name, (kind, words) in _scheme_parameters().items():
        option = typer.Option(f"--{name.replace('_', '-')}", help=words)
        parameters.append(_parameter(name, Annotated[kind | None, option], None))
    return _made_by_typer(parameters)


def _made_by_typer(parameters: list[inspect.Parameter]) -> list[Any]:
    def options(**given: Any) -> None:
        pass

    options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(options)
    return [one for one in typer.main.get_command(app).params if one.name != "help"]


def _scheme_parameter(words: str) -> inspect.Parameter:
    from poolsieve.schemes import list_schemes

    names = ("auto", *list_schemes())
    scheme = Annotated[Literal[names], typer.Option(help=words)]  # type: ignore[valid-type]
    return _parameter("scheme", scheme, "auto")


def _tell_whose_head(option: Any) -> None:
    """Name the schemes that can do without the head before the help of that option."""
    from poolsieve.schemes.scheme import SCHEMES, without_prior_head

    having = [name for name, stages in SCHEMES.items() if without_prior_head(stages) != stages]
    option.help = f"{', '.join(having)}: {option.help[:1].lower()}{option.help[1:]}"


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _scheme_parameters() -> dict[str, tuple[Any, str]]:
    """Type and help of each parameter, with the schemes that have it and its defaults."""
    from poolsieve.schemes.scheme import SCHEMES, parameter_names

    having: dict[str, dict[str, tuple[type, str]]] = {}
    for scheme, stages in SCHEMES.items():
        for name, (place, field) in parameter_names(stages).items():
            having.setdefault(name, {})[scheme] = type(stages[place]), field
    found = {}
    for name, schemes in having.items():
        kind, field = next(iter(schemes.values()))
        hint = get_type_hints(kind)[field]
        plain = next((one for one in get_args(hint) if one is not type(None)), hint)
        words = _attributes(kind).get(field, "")
        some = f"{', '.join(schemes)}: {words[:1].lower()}{words[1:]}"
        found[name] = plain, some if len(schemes) < len(SCHEMES) else words
    return found


def _attributes(kind: type) -> dict[str, str]:
    """What the docstrings of a data class and its bases say of each attribute."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        text = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")[2]
        for name, words in re.findall(r"^    (\w+): ((?:.+)(?:\n {8}.*)*)", text, re.MULTILINE):
            found[name] = " ".join(words.split())
    return found
