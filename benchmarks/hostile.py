"""Files that are made to harm whoever reads them, from bytes."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Sequence
from typing import Any

from PIL import Image


def encoded(image: Image.Image, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(header: bytes, *chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + b"".join(chunks) + png_chunk(b"IEND", b"")


def palette_png_without_palette() -> bytes:
    return png(struct.pack(">2I5B", 1, 1, 8, 3, 0, 0, 0), png_chunk(b"IDAT", zlib.compress(b"\0\0")))


def jpeg_of_many_scans(scans: int, side: int) -> bytes:
    """A progressive JPEG whose last scan is repeated."""
    data = encoded(Image.new("RGB", (side, side), (200, 10, 90)), format="jpeg", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + data[-2:]


def rle_bmp_of_short_lines(side: int) -> bytes:
    """Every line is one pixel and an end-of-line mark; Pillow fills up the rest byte by byte."""
    lines = b"\x01\x00\x00\x00" * side
    palette = bytes(4 * 256)
    info = struct.pack("<3I2H6I", 40, side, side, 1, 8, 1, len(lines), 0, 0, 256, 0)
    start = 14 + len(info) + len(palette)
    return struct.pack("<2sI2HI", b"BM", start + len(lines), 0, 0, start) + info + palette + lines


def jpeg_with_segments(segment: tuple[int, bytes], count: int) -> bytes:
    """A sound JPEG behind so many application segments."""
    data = encoded(Image.new("RGB", (8, 8)), format="jpeg")
    kind, body = segment
    return data[:2] + (bytes((0xFF, kind)) + struct.pack(">H", len(body) + 2) + body) * count + data[2:]


def jpeg_of_tiny_exif(count: int) -> bytes:
    return jpeg_with_segments((0xE1, b"Exif\0\0" + bytes(8)), count)


def huge_webp(width: int = 16383, height: int = 6100) -> bytes:
    """Of one colour, which takes no bit a pixel; so the size in the header can be anything."""
    data = bytearray(encoded(Image.new("RGB", (8, 8), (10, 200, 30)), format="webp", lossless=True))
    place = data.index(b"VP8L") + 9
    bits = int.from_bytes(data[place : place + 4], "little") & ~((1 << 28) - 1)
    bits |= (width - 1) | (height - 1) << 14
    data[place : place + 4] = bits.to_bytes(4, "little")
    return bytes(data)


def apng(default: Image.Image, frames: Sequence[Image.Image]) -> bytes:
    """An animation whose default image is not one of its frames; all are RGB images of one size."""
    width, height = default.size

    def compressed(image: Image.Image) -> bytes:
        rows = image.tobytes()
        stride = 3 * width
        return zlib.compress(b"".join(b"\0" + rows[k : k + stride] for k in range(0, len(rows), stride)))

    chunks = [png_chunk(b"acTL", struct.pack(">2I", len(frames), 0))]
    chunks.append(png_chunk(b"IDAT", compressed(default)))
    for k, frame in enumerate(frames):
        control = struct.pack(">5I2H2B", 2 * k, width, height, 0, 0, 1, 10, 0, 0)
        chunks.append(png_chunk(b"fcTL", control))
        chunks.append(png_chunk(b"fdAT", struct.pack(">I", 2 * k + 1) + compressed(frame)))
    return png(struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0), *chunks)


def tar_header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header of a tar archive; sizes that do not fit in octal digits are written as binary."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(keyword: str, value: object) -> bytes:
    """An extended header with one record."""
    body = f" {keyword}={value}\n".encode()
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    record = str(length).encode() + body
    return tar_header("pax", len(record), tarfile.XHDTYPE) + padded(record)
