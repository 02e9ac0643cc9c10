import sys
import textwrap
from dataclasses import dataclass, field

import numpy as np
import pytest

from poolsieve.decoders import (
    Decoder,
    Decoding,
    Interval,
    check_decoder,
    decoder,
    list_decoders,
    load_plugin,
    make_decoder,
    parameter,
    parse_decoder,
    register_decoder,
)

MINE = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from poolsieve.decoders import COMP, Decoder, Decoding, register_decoder

@register_decoder("mine")
@dataclass(frozen=True)
class Mine(COMP):
    remark: str = ""

@register_decoder("other")
class Other(COMP):
    pass

class Nameless(COMP):
    pass

@register_decoder("unfinished")
class Unfinished(Decoder):
    pass

@register_decoder("needy")
@dataclass(frozen=True)
class Needy(COMP):
    needed: int = None

    def __post_init__(self):
        if self.needed is None:
            raise ValueError("tell me what is needed")

class Stranger:
    pass
"""


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(decoder, "_REGISTRY", dict(decoder._REGISTRY))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass(frozen=True)
class WithPlainFields(Decoder):
    least: int = parameter(1, Interval(low=0, whole=True))
    remark: str = "none"
    weights: tuple = field(default_factory=tuple)

    def _decode(self, readings, design, priors):
        scores = np.zeros(priors.shape)
        return Decoding(scores, scores > 0, np.ones(len(scores), dtype=bool))


def test_plain_fields_are_parameters_that_nobody_checks():
    decoder = WithPlainFields(remark="any", weights=(1, 2))
    assert decoder.parameters == {"least": 1, "remark": "any", "weights": (1, 2)}
    assert decoder.replace(remark=None).remark is None
    with pytest.raises(ValueError, match="least=-1, but it must be a whole number at least 0"):
        WithPlainFields(least=-1)


@pytest.mark.parametrize("text", ["mine.py:Mine", "./mine.py:Mine"])
def test_a_decoder_is_loaded_from_a_file(folder, text):
    assert load_plugin(text) == "mine"
    assert load_plugin("mine.py:Other") == "other"  # the file is run once
    assert "mine" in list_decoders()
    check_decoder(make_decoder("mine"))
    assert parse_decoder("mine:remark=x").decoder.remark == "x"


def test_a_decoder_is_loaded_from_a_module(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    assert load_plugin("mine:Mine") == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine.py", "write module:Class, or file.py:Class"),
        (":Mine", "write module:Class"),
        ("mine.py:no class", "write module:Class"),
        ("nothing.py:Mine", "there is no file nothing.py"),
        ("nothing_here:Mine", r"no module is named nothing_here; .*nothing_here\.py"),
        ("json.nothing:Mine", r"no module is named json\.nothing"),
        (
            "mine.py:Yours",
            "has no class Yours; decoders in it: COMP, Mine, Other, Nameless, Unfinished, Needy",
        ),
        ("mine.py:Stranger", "Stranger is no decoder; derive it from poolsieve.decoders.Decoder"),
        ("mine.py:Decoder", "Decoder is no decoder"),
        ("mine.py:np", "np is no decoder"),
        ("mine.py:Nameless", r"Nameless is not registered; use @register_decoder\(name\)"),
        ("mine.py:Unfinished", r"Unfinished\(\) fails .*_decode"),
        ("mine.py:Needy", r"Needy\(\) fails \(tell me what is needed\).*default for every parameter"),
        ("needs.py:Mine", "needs the module surely_not_there, which is not there"),
        ("broken.py:Mine", "plugin 'broken.py:Mine' fails: SyntaxError"),
        ("raises.py:Mine", "fails: ZeroDivisionError: division by zero"),
        ("taken.py:Mine", "fails: ValueError: a decoder named 'mip' is registered already: MIP"),
    ],
)
def test_what_cannot_be_loaded_says_why(folder, text, message):
    (folder / "needs.py").write_text("import surely_not_there")
    (folder / "broken.py").write_text("def (")
    (folder / "raises.py").write_text("1 / 0")
    (folder / "taken.py").write_text(
        textwrap.dedent(
            """
            from poolsieve.decoders import COMP, register_decoder
            @register_decoder("mip")
            class Mine(COMP): pass
            """
        )
    )
    with pytest.raises(ValueError, match=message):
        load_plugin(text)


@pytest.mark.parametrize(
    "name", ["", "My", "a b", "a:b", "a,b", "x-hard", "x-soft", "dorfman", "dorfman-x", "ä"]
)
def test_names_that_cannot_be_written_on_the_command_line_are_refused(name):
    with pytest.raises(ValueError, match="a decoder cannot be named"):
        register_decoder(name)
