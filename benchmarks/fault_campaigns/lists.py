"""Lists of images that are damaged, or hold what no list should."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fault_campaigns.campaign import rng_of
from fault_campaigns.mutation import mutate
from fault_campaigns.sources import IMAGES, Source, SourceCampaign, sound_images

_ODD = (
    *(b"\0", b'"', b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x1a", b"{", b"[" * 3000, b'{"a":' * 3000),
    *(
        b'{"file": 3}',
        b'{"file": null}',
        b'{"file": "\\ud800.png"}',
        b'{"other": 1}',
        b"[1]",
        b"NaN",
        b"1e999",
    ),
    *(b",,,,,", b'"' + b"x" * 140_000 + b'"', b"x" * 1_100_000, b"/dev/zero", b"/proc/self/mem", b"../../.."),
    *(
        b"\xed\xa0\x80.png",
        "\u202e\u0000.png".encode(),
        b"=cmd()",
        b"a\0b.png",
        b'{"file": "a\\u0000b"}',
        b".",
    ),
)


class Lists(SourceCampaign):
    """CSV and JSONL files with paths."""

    name = "lists"

    def beside(self) -> Mapping[str, bytes]:
        """The images."""
        return {f"{image}.png": data for image, data in enumerate(sound_images())}

    def source(self, number: int) -> Source:
        """A case."""
        rng = rng_of(self._seed, self.name, number)
        ending = ("csv", "jsonl")[number % 2]
        lines = [_line(ending, f"{image}.png") for image in range(IMAGES)]
        begin = b"number,file\n" if ending == "csv" else b""
        if rng.random() < 0.5:
            return Source(ending, mutate(begin + b"".join(lines), (), rng))
        odd = _ODD[int(rng.integers(len(_ODD)))]
        place = int(rng.integers(IMAGES + 1))
        if rng.random() < 0.5:
            odd = _line(ending, odd.decode("utf-8", "surrogateescape"))
        return Source(ending, begin + b"".join([*lines[:place], odd + b"\n", *lines[place:]]))


def _line(ending: str, path: str) -> bytes:
    text = f"1,{path}" if ending == "csv" else json.dumps({"file": path})
    return text.encode("utf-8", "surrogateescape") + b"\n"
