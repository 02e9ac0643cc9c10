import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from poolsieve.cli.saying import shown


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_that_is_shown_steers_a_terminal_or_cannot_be_printed(text):
    safe = shown(text)
    assert not {unicodedata.category(letter) for letter in safe} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    safe.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_shown_as_it_is(text):
    assert shown(text) == text


def test_bytes_that_are_no_text_are_shown_as_bytes():
    assert shown("a\udcffb\n\u202e") == r"a\xffb\n\u202e"
    assert shown("a\nb\x1b", keep="\n") == "a\nb\\x1b"
