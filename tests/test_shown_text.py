import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.shown_text import encodable, shown

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
TURNING = [chr(k) for k in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)]
INVISIBLE = [chr(k) for k in (0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0x2028, 0x3164, 0xFEFF, 0xE0041)]


@given(ANY_TEXT)
def test_whatever_it_is_it_can_be_printed_and_moves_nothing(text):
    made = shown(text)
    assert made.isprintable()
    assert not {unicodedata.category(letter) for letter in made} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    made.encode()
    assert shown(made) == made


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_stays_as_it_is(text):
    assert shown(text) == encodable(text) == text


@pytest.mark.parametrize("text", ["Grüße aus Łódź", "中文照片", "صورة", "תמונה", "фото", "ภาพ", "は 1", "😀"])
def test_letters_of_all_scripts_stay(text):
    assert shown(text) == text


@pytest.mark.parametrize("letter", TURNING + INVISIBLE, ids=lambda letter: f"{ord(letter):x}")
def test_what_turns_or_hides_is_shown_by_its_number(letter):
    assert shown(f"a{letter}b").lower() in (f"a\\u{ord(letter):04x}b", f"a\\u{ord(letter):08x}b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\n\ttab", "two\\nlines\\r\\n\\ttab"),
        (b"\xff.jpg".decode("utf-8", "surrogateescape"), "\\xff.jpg"),
        ("\ud800", "\\ud800"),
        ("\x9b0m", "\\u009b0m"),
        ("a\xa0b", "a\\u00a0b"),
    ],
)
def test_escapes_tell_what_was_there(text, expected):
    assert shown(text) == expected


@given(ANY_TEXT)
def test_what_a_file_can_hold_is_kept(text):
    made = encodable(text)
    made.encode()
    assert encodable(made) == made
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert made == text
