"""Decoders as text, as on the command line and in verdict records: `mip:penalty=1`, `bp-hard`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poolsieve.decoders.decoder import Decoder, decoder_name, make_decoder


@dataclass(frozen=True)
class DecoderChoice:
    """A decoder, and what it reads.

    Attributes:
        decoder: The decoder.
        soft: Whether it sees the likelihood of every count or the counts alone.
        fixed: Names of the parameters that were given.
    """

    decoder: Decoder
    soft: bool
    fixed: tuple[str, ...] = ()

    def __str__(self) -> str:
        hard = "-hard" if self.decoder.uses_priors and not self.soft else ""
        values = ",".join(f"{name}={self.decoder.parameters[name]}" for name in self.fixed)
        return decoder_name(self.decoder) + hard + (f":{values}" if values else "")


def parse_decoder(text: str) -> DecoderChoice:
    """A decoder from its text form.

    `mip`, with parameters `mip:penalty=1` or `ncomp:t=2`; `bp` and `map` read likelihoods, `bp-hard` and
    `map-hard` counts alone.

    Raises:
        ValueError: The decoder or a parameter is unknown, or a value is not allowed.
    """
    name, _, settings = text.partition(":")
    hard = name.endswith("-hard")
    decoder = make_decoder(name.removesuffix("-hard").removesuffix("-soft"))
    if not decoder.uses_priors and name.endswith(("-hard", "-soft")):
        raise ValueError(f"{text!r}: {name[:-5]} reads counts alone; write {name[:-5]}")
    fixed: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: write parameters as NAME:parameter=value")
        if key in fixed:
            raise ValueError(f"{text!r} gives {key} twice")
        fixed[key] = _parse_value(value)
    return DecoderChoice(decoder.replace(**fixed), decoder.uses_priors and not hard, tuple(fixed))


def _parse_value(text: str) -> int | float | str | None:
    if text.lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
