"""What all commands share: an option is given once, and what was typed is known."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection
from typing import Any

import typer
from typer.core import TyperCommand


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


def typed_again(context: typer.Context, *more: str, without: Collection[str] = ()) -> str:
    """The present command as one would type it, with some arguments more and some less."""
    typed = [word for word in context.meta.get(_ARGUMENTS, []) if word not in without]
    return shlex.join([*context.command_path.split(), *typed, *more])
