"""What all commands share: an option is given once, and what was typed is known."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from poolsieve.cli.saying import say


class Command(TyperCommand):
    """A command that refuses an option given twice, of which the last would else win without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, as before."""
        ctx.meta[_ARGUMENTS] = list(args)
        if not ctx.resilient_parsing:  # as while a shell completes a line
            given: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
            for parameter, times in Counter(given).items():
                is_value = parameter.param_type_name == "option" and not parameter.is_flag
                if times > 1 and is_value and not parameter.multiple:
                    words = f"it takes one value and is given {times} times; run the command once for each"
                    raise typer.BadParameter(words, ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run, but for an error that typer takes for Ctrl-D."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            renamed = RuntimeError(f"unexpected end of data: {error}")
            for note in getattr(error, "__notes__", ()):
                renamed.add_note(note)
            raise renamed from error


_ARGUMENTS = "poolsieve.arguments"
INTERRUPTED = 130
"""Exit status after Ctrl-C."""


@contextmanager
def telling(how_to_go_on: Callable[[], str], noted: Callable[[BaseException], bool]) -> Iterator[None]:
    """Whatever ends the block early, say what to do: after Ctrl-C, and as a note on such errors."""
    try:
        yield
    except BaseException as error:
        words = how_to_go_on()
        if isinstance(error, KeyboardInterrupt):
            say(Console(stderr=True), f"stopped. {words}")
            raise typer.Exit(INTERRUPTED) from None
        if noted(error):
            error.add_note(words)
        raise


def typed_again(context: typer.Context, *more: str, without: Collection[str] = ()) -> str:
    """The present command as one would type it, with some arguments more and some less."""
    typed = [word for word in context.meta.get(_ARGUMENTS, []) if word not in without]
    return shlex.join([*context.command_path.split(), *typed, *more])
