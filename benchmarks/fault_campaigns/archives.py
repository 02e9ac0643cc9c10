"""Archives that are damaged, and archives that are made to harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable

import hostile
import numpy as np

from fault_campaigns.campaign import rng_of
from fault_campaigns.mutation import mutate
from fault_campaigns.sources import IMAGES, Source, SourceCampaign, sound_images

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}
_SIZES = (-512, -1, 0, 511, 10**6, 2**31, 2**33, 2**62)
_KINDS = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, b"9")
_NAMES = (
    "",
    "..",
    "../../x.png",
    "/etc/passwd",
    "a\0b.png",
    "\u202egnp.png",
    "x" * 5000,
    "\x1b[2J.png",
    "//",
)


class Archives(SourceCampaign):
    """Zip and tar archives, mutated or hostile."""

    name = "archives"

    def source(self, number: int) -> Source:
        """A case."""
        rng = rng_of(self._seed, self.name, number)
        kinds = ("zip", *COMPRESSORS)
        ending = kinds[number % len(kinds)]
        if ending == "zip":
            return _hostile_zip(rng) if rng.random() < 0.3 else _mutated_zip(rng)
        if rng.random() < 0.4:
            return _hostile_tar(ending, rng)
        return _mutated_tar(ending, rng)


def _tar_member(image: int) -> bytes:
    data = sound_images()[image]
    return hostile.tar_header(f"{image}.png", len(data)) + hostile.padded(data)


def _mutated_tar(ending: str, rng: np.random.Generator) -> Source:
    members = [_tar_member(image) for image in range(IMAGES)]
    whole = b"".join(members) + bytes(1024)
    if ending != "tar" and rng.random() < 0.5:  # what is compressed is sound
        return Source(ending, mutate(COMPRESSORS[ending](whole), (), rng))
    changed = mutate(whole, (), rng)
    before = _common(whole, changed)
    ends = np.cumsum([len(member) for member in members])
    sound = range(int(np.searchsorted(ends, before, side="right")))
    return Source(ending, COMPRESSORS[ending](changed), sound, may_be_refused=not sound)


def _hostile_tar(ending: str, rng: np.random.Generator) -> Source:
    place = int(rng.integers(1, IMAGES))
    makers = (
        lambda: hostile.tar_header("x.png", int(rng.choice(_SIZES[2:]))),
        lambda: hostile.pax("size", rng.choice(_SIZES)) + hostile.tar_header("x.png", 3),
        lambda: hostile.pax("path", "y" * int(rng.integers(1, 50_000))) + hostile.tar_header("x.png", 0),
        lambda: hostile.pax(str(rng.choice(("mtime", "uid", "GNU.sparse.map", "charset"))), "-1,x" * 5),
        lambda: hostile.tar_header("x", int(rng.choice(_SIZES[2:])), tarfile.GNUTYPE_LONGNAME) + bytes(512),
        lambda: hostile.tar_header("x.png", 0, _KINDS[int(rng.integers(len(_KINDS)))]),
        lambda: hostile.pax("comment", "x") * int(rng.integers(1, 2000)),
        lambda: rng.bytes(512 * int(rng.integers(1, 4))),
    )
    inside = makers[int(rng.integers(len(makers)))]()
    members = [_tar_member(image) for image in range(IMAGES)]
    whole = b"".join([*members[:place], inside, *members[place:], bytes(1024)])
    return Source(ending, COMPRESSORS[ending](whole), range(place), may_be_refused=False)


def _zip(rng: np.random.Generator, names: list[str]) -> bytes:
    stream = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in zip(names, sound_images(), strict=True):
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def _mutated_zip(rng: np.random.Generator) -> Source:
    whole = _zip(rng, [f"{image}.png" for image in range(IMAGES)])
    directory = struct.unpack_from("<I", whole, len(whole) - 6)[0]
    if rng.random() < 0.3:
        return Source("zip", mutate(whole, (), rng))
    if rng.random() < 0.5:  # the directory only, where most is claimed
        return Source("zip", whole[:directory] + mutate(whole[directory:], (), rng))
    data = bytearray(whole)  # members only, and in their places, so that the directory is right
    for _ in range(int(rng.integers(1, 9))):
        data[int(rng.integers(directory))] ^= int(rng.integers(1, 256))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        starts = [member.header_offset for member in archive.infolist()]
    parts = zip(starts, [*starts[1:], directory], strict=True)
    sound = [image for image, (a, b) in enumerate(parts) if data[a:b] == whole[a:b]]
    return Source("zip", bytes(data), sound, may_be_refused=False)


def _hostile_zip(rng: np.random.Generator) -> Source:
    """Claims in the directory that are not so, and names that lead elsewhere."""
    names = [f"{image}.png" for image in range(IMAGES)]
    hit = int(rng.integers(IMAGES))
    sound = [image for image in range(IMAGES) if image != hit]
    if rng.random() < 0.4:
        names[hit] = _NAMES[int(rng.integers(len(_NAMES)))]
        return Source("zip", _zip(rng, names), sound, may_be_refused=False)
    data = bytearray(_zip(rng, names))
    entry = struct.unpack_from("<I", data, len(data) - 6)[0]
    for _ in range(hit):
        entry += 46 + sum(struct.unpack_from("<3H", data, entry + 28))
    place, form = ((8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (42, "<I"))[
        int(rng.integers(6))
    ]
    most = 2 ** (8 * struct.calcsize(form)) - 1
    values = (0, 1, 12, 14, most, most // 2, int(rng.integers(most)))
    struct.pack_into(form, data, entry + place, values[int(rng.integers(len(values)))])
    # 2^32 − 1 stands for a number in an extra field that is not there, which spoils the whole directory.
    return Source("zip", bytes(data), sound, may_be_refused=form == "<I")


def _common(one: bytes, other: bytes) -> int:
    """Bytes at the beginning that are the same."""
    length = min(len(one), len(other))
    differing = np.frombuffer(one[:length], np.uint8) != np.frombuffer(other[:length], np.uint8)
    return int(differing.argmax()) if differing.any() else length
