"""Strangers' text as it is shown: nothing in it moves the cursor, hides, or turns the line around.

File names, and messages that hold them, may carry escape sequences of terminals, line breaks, bytes that are
no text, and characters that are invisible or reverse the direction of writing. On screen, on pages and on
pictures these are shown as escapes.
"""

from __future__ import annotations

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Characters that count as printable, but of which nothing is seen."""


def shown(text: str) -> str:
    r"""Text that is safe to print: what is not printable is escaped, all else stays as it is.

    Letters of all scripts are printable. Controls are shown as `\x1b` or `\n`, undecodable bytes of file
    names as `\xff`, all others (controls of direction, zero-width characters, spaces other than the usual
    one) by their number, as `\u202e`. Backslashes stay, so that shown text is shown as itself.
    """
    if text.isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(
        letter if letter.isprintable() and letter not in _BLANK else escape(letter) for letter in text
    )


def encodable(text: str) -> str:
    r"""Text that any file in UTF-8 can hold: undecodable bytes become `\xff`, all else stays as it is."""
    if text.isascii():
        return text
    return "".join(escape(letter) if "\ud800" <= letter <= "\udfff" else letter for letter in text)


def escape(letter: str) -> str:
    """One character as an escape."""
    number = ord(letter)
    if letter in _NAMED:
        return _NAMED[letter]
    if 0xDC80 <= number <= 0xDCFF:  # how Python holds a byte that it could not decode (PEP 383)
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
