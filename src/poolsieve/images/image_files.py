"""Telling files that are no images at all from images that cannot be read.

An image that cannot be read must never pass for something else, so whatever has the ending or the first bytes
of an image, be it of a kind that is not read here, is one.
"""

from __future__ import annotations

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".pjpeg", ".pjp", ".png", ".apng", ".gif", ".webp", ".bmp"),
    *(".dib", ".heic", ".heif", ".hif", ".avif", ".tif", ".tiff", ".svg", ".svgz", ".ico", ".cur", ".jxl"),
    *(".jp2", ".j2k", ".jpf", ".jpx", ".psd", ".tga", ".pcx", ".ppm", ".pgm", ".pbm", ".pnm", ".xbm", ".xpm"),
    *(".exr", ".hdr", ".qoi", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".eps"),
)
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
ARCHIVE_ENDINGS = (".zip", *TAR_ENDINGS)
"""Archives that are sources of their own."""
HEAD_BYTES = 1024
"""Bytes from the start of a file by which it is told."""
_BEGINNINGS = (
    *(b"\xff\xd8", b"\x89PNG", b"\x8aMNG", b"\x8bJNG", b"GIF8", b"BM"),
    *(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"IIU\0"),  # TIFF, BigTIFF, JPEG XR
    *(b"\0\0\1\0", b"\0\0\2\0"),  # icons, cursors
    *(b"\0\0\0\x0cjP", b"\xff\x4f\xff\x51", b"\0\0\0\x0cJXL ", b"\xff\x0a", b"8BPS", b"qoif"),
)
_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis", b"crx ")


def seems_image(name: str, head: bytes) -> bool:
    """Whether a file is, or gives itself out as, an image of any kind, by its name and first `HEAD_BYTES`."""
    return name.lower().endswith(IMAGE_ENDINGS) or _begins_like_image(head)


def _begins_like_image(head: bytes) -> bool:
    if head.startswith(_BEGINNINGS) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return True
    if head[4:8] == b"ftyp":
        return any(brand in head[8:64] for brand in _BRANDS)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith((b"<svg", b"<?xml", b"<!doctype svg")) and b"<svg" in text


def is_archive(name: str) -> bool:
    """Whether a file is named like an archive that could be given as a source."""
    return name.lower().endswith(ARCHIVE_ENDINGS)
