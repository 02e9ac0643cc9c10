"""Mutated image files of every format, moderated among sound ones."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import hostile
import numpy as np
from PIL import Image, features

from fault_campaigns.campaign import (
    Broken,
    Findings,
    TookTooLong,
    judged,
    note_reasons,
    rng_of,
    time_limit,
    told,
    wrong_record,
)
from fault_campaigns.mutation import mutate
from poolsieve.images.guarded_decoding import TIME_LIMIT, shared_decoder
from poolsieve.images.reading import UnreadableImage
from poolsieve.moderation import Moderator
from poolsieve.moderation.verdicts import Verdict

TOGETHER = 180
"""Mutated files of one run."""
FOR_EACH_NEIGHBOUR = 9
SCHEMES = ("individual", "adaptive", "glance", "dorfman", "cascade")
"""Take turns from run to run."""
LONGEST = 5 * TIME_LIMIT
"""Seconds on the clock for a file: the limit is four times its processor time, and something for the rest."""
_HEAVY_SHARE = 0.003
_SMALL = 400
"""Pixels of a side, bytes or segments, so that a hostile file takes no long time."""


@cache
def sound_files() -> dict[str, tuple[bytes, ...]]:
    """Images of every kind that is read here, by their format."""
    rng = np.random.default_rng(0)
    picture, other = (_picture(rng) for _ in range(2))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = {"save_all": True, "append_images": [other, picture], "duration": 50}
    grey16 = Image.fromarray(rng.integers(0, 65536, (40, 48), dtype=np.uint16))
    glass = picture.copy()
    glass.putalpha(other.convert("L"))

    def save(image: Image.Image, kind: str, **options: object) -> bytes:
        return hostile.encoded(image, format=kind, **options)

    files = {
        "jpg": (
            save(picture, "jpeg"),
            save(picture, "jpeg", progressive=True, quality=90, exif=exif.tobytes()),
            save(picture.convert("L"), "jpeg"),
            save(picture.convert("CMYK"), "jpeg", progressive=True),
        ),
        "png": (
            save(picture, "png"),
            save(glass, "png"),
            save(picture.quantize(16), "png", transparency=3),
            save(grey16, "png"),
            save(picture.convert("1"), "png"),
        ),
        "apng": (hostile.apng(picture, [other, picture]), save(picture, "png", **frames)),
        "webp": (
            save(picture, "webp"),
            save(glass, "webp", lossless=True),
            save(picture, "webp", exif=exif.tobytes()),
            save(glass, "webp", **frames),
        ),
        "gif": (
            save(picture.quantize(32), "gif"),
            save(picture, "gif", **frames),
            save(picture.quantize(8), "gif", transparency=2, interlace=True),
        ),
        "bmp": (
            save(picture, "bmp"),
            save(picture.quantize(256), "bmp"),
            save(picture.convert("1"), "bmp"),
            hostile.rle_bmp_of_short_lines(20),
        ),
    }
    if features.check("avif"):
        files["avif"] = (
            save(picture, "avif"),
            save(glass, "avif", speed=10),
            save(picture, "avif", **frames),
        )
    try:
        import pillow_heif
    except ImportError:
        return files
    pillow_heif.register_heif_opener()
    return files | {"heic": (save(picture, "heif"), save(glass, "heif"))}


def _picture(rng: np.random.Generator) -> Image.Image:
    """Something with edges, slopes and noise."""
    slope = np.linspace(0, 255, 48)[None, :, None] * rng.random((40, 1, 3))
    pixels = slope + rng.normal(0, 12, (40, 48, 3))
    pixels[10:25, 8:30] = rng.integers(0, 256, 3)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


Maker = Callable[[np.random.Generator], bytes]
_HOSTILE: tuple[Maker, ...] = (
    lambda rng: hostile.palette_png_without_palette(),
    lambda rng: hostile.jpeg_of_many_scans(int(rng.integers(1, _SMALL)), 32),
    lambda rng: hostile.rle_bmp_of_short_lines(int(rng.integers(1, _SMALL))),
    lambda rng: hostile.jpeg_of_tiny_exif(int(rng.integers(1, _SMALL))),
    lambda rng: hostile.jpeg_with_segments((int(rng.integers(0xE0, 0xF0)), rng.bytes(30)), _SMALL),
    lambda rng: hostile.huge_webp(int(rng.integers(1, 16384)), int(rng.integers(1, _SMALL))),
)
_HEAVY: tuple[Maker, ...] = (
    lambda rng: hostile.rle_bmp_of_short_lines(10_000),
    lambda rng: hostile.jpeg_of_many_scans(99, 1500),
    lambda rng: hostile.jpeg_of_tiny_exif(200_000),
    lambda rng: hostile.huge_webp(),
)


def mutated_file(seed: int, number: int) -> tuple[str, bytes]:
    """The ending and the content of a file; formats take turns, and one in as many is a hostile one."""
    rng = rng_of(seed, "files", number)
    files = sound_files()
    kinds = [*files, "hostile"]
    kind = kinds[number % len(kinds)]
    if kind == "hostile":
        heavy = rng.random() < _HEAVY_SHARE
        makers = _HEAVY if heavy else _HOSTILE
        data = makers[int(rng.integers(len(makers)))](rng)
        return "jpg", data if heavy or rng.random() < 0.3 else mutate(data, (), rng)
    own = files[kind]
    others = own if rng.random() < 0.8 else [file for some in files.values() for file in some]
    return kind, mutate(own[int(rng.integers(len(own)))], others, rng)


class MutatedFiles:
    """Mutated image files among sound neighbours, whose verdicts must not change.

    Where every image is judged by itself, neighbours must get what they get without the mutated files. Where
    they share pools, all that can be read must get what it gets if the others are empty files.

    Args:
        seed: Of all cases.
        bundle: Folder of the bundle that judges.
    """

    name = "files"
    together = TOGETHER

    def __init__(self, seed: int, bundle: Path) -> None:
        self._seed = seed
        self._moderators = {name: Moderator.load(bundle, scheme=name, seed=1) for name in SCHEMES}
        rng = np.random.default_rng(1)
        count = TOGETHER // FOR_EACH_NEIGHBOUR
        self._neighbours = [hostile.encoded(_picture(rng), format="png") for _ in range(count)]
        self._alone: dict[str, list[Verdict]] = {}

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""
        files = {number: mutated_file(self._seed, number) for number in numbers}
        scheme = SCHEMES[numbers.start // TOGETHER % len(SCHEMES)]
        findings = self._try(scheme, files)
        if findings.broken and len(numbers) > 1:
            return self._each_alone(scheme, files, findings)
        return findings

    def _each_alone(self, scheme: str, files: dict[int, tuple[str, bytes]], whole: Findings) -> Findings:
        """Which of them it was."""
        findings = Findings()
        for number, file in files.items():
            findings.add(self._try(scheme, {number: file}))
        if not findings.broken:
            words = f"only together with {min(files)} to {max(files)}: {whole.broken[0].words}"
            findings.broken.append(Broken(whole.broken[0].number, words))
        return findings

    def _try(self, scheme: str, files: dict[int, tuple[str, bytes]]) -> Findings:
        first = min(files)
        findings = Findings(len(files))

        def broke(words: str, number: int = first) -> None:
            findings.broken.append(Broken(number, f"{scheme}: {words}"))

        with tempfile.TemporaryDirectory(prefix="poolsieve-faults-") as temporary:
            folder = Path(temporary)
            numbers = self._write(folder, files)
            begin = time.monotonic()
            try:
                with time_limit(LONGEST * max(12, len(files) // 10)):
                    verdicts = list(self._moderators[scheme].moderate(folder))
            except (Exception, TookTooLong) as error:
                broke(told(error))
                return findings
            slow = time.monotonic() - begin > LONGEST
            if len(verdicts) != len(numbers):
                broke(f"{len(verdicts)} records of {len(numbers)} files")
                return findings
            for number, verdict in zip(numbers, verdicts, strict=True):
                if (words := wrong_record(verdict)) is not None:
                    broke(words, first if number is None else number)
            mutants = [v for number, v in zip(numbers, verdicts, strict=True) if number is not None]
            findings.noted += note_reasons(mutants)
            if (words := self._changed(scheme, folder, numbers, verdicts)) is not None:
                broke(words)
        for number, (_, data) in files.items() if slow else ():
            if (seconds := _seconds_to_decode(data)) > LONGEST:
                broke(f"took {seconds:.0f} seconds to decode", number)
        return findings

    def _write(self, folder: Path, files: dict[int, tuple[str, bytes]]) -> list[int | None]:
        """The numbers of the files in the order of their names; None stands for a neighbour."""
        numbers: list[int | None] = []
        neighbours = iter(self._neighbours)
        for place, (number, (ending, data)) in enumerate(files.items()):
            if place % FOR_EACH_NEIGHBOUR == 0:
                (folder / f"{len(numbers):04d}-sound.png").write_bytes(next(neighbours))
                numbers.append(None)
            (folder / f"{len(numbers):04d}-{number}.{ending}").write_bytes(data)
            numbers.append(number)
        return numbers

    def _changed(
        self, scheme: str, folder: Path, numbers: Sequence[int | None], verdicts: Sequence[Verdict]
    ) -> str | None:
        """Whose verdict depends on a file that could not be read, if anybody's."""
        if any(verdict.pools for verdict in verdicts):
            for verdict in verdicts:
                if verdict.status == "error":
                    Path(verdict.path).write_bytes(b"")
            expected = list(self._moderators[scheme].moderate(folder))
            pairs = [pair for pair in zip(verdicts, expected, strict=True) if pair[0].status != "error"]
        else:
            found = [v for number, v in zip(numbers, verdicts, strict=True) if number is None]
            pairs = list(zip(found, self._judged_alone(scheme), strict=False))
        for verdict, wanted in pairs:
            if judged(verdict) != judged(wanted):
                return f"{Path(verdict.path).name} is {judged(verdict)}, without the others {judged(wanted)}"
        return None

    def _judged_alone(self, scheme: str) -> list[Verdict]:
        if scheme not in self._alone:
            self._alone[scheme] = list(self._moderators[scheme].moderate(map(io.BytesIO, self._neighbours)))
        return self._alone[scheme]


def _seconds_to_decode(data: bytes) -> float:
    begin = time.monotonic()
    with suppress(UnreadableImage):
        shared_decoder().decode(data, at_least=32, resize_mode="pad")
    return time.monotonic() - begin
