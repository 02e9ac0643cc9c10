import itertools

from hypothesis import given
from hypothesis import strategies as st

from poolsieve.decoders import list_decoders
from poolsieve.evaluation.competitors import COMPETITORS
from poolsieve.evaluation.report_figures import FIGURE_GROUPS
from poolsieve.figures import COLOURS
from poolsieve.line_styles import STYLES, colour_of, styles_of
from poolsieve.schemes import list_schemes
from poolsieve.schemes.cost_model import list_parts

KNOWN = sorted({*COMPETITORS, *list_schemes(), *list_decoders(), "map-hard", "bp-soft", "dorfman-8"})


@given(st.sets(st.sampled_from(KNOWN), min_size=1))
def test_a_method_looks_the_same_whatever_is_drawn_beside_it(names):
    everything = styles_of(KNOWN)
    assert styles_of(names) == {name: everything[name] for name in names}


def test_no_two_methods_look_alike():
    assert len(set(STYLES.values())) == len(STYLES)
    assert {style.colour for style in STYLES.values()} <= set(COLOURS)
    for first, second in itertools.combinations(STYLES.values(), 2):
        # Dashes are hardly seen between two marks.
        assert first.colour != second.colour or (first.marker, first.hollow) != (second.marker, second.hollow)


def test_every_method_scheme_and_decoder_has_a_style_of_its_own():
    assert set(styles_of(KNOWN).values()) <= set(STYLES.values())


def test_methods_of_one_figure_differ_in_colour_unless_they_are_forms_of_one():
    for group in FIGURE_GROUPS.values():
        whole = [name for name in group if name != "bp-hard" and not name.startswith("downsample")]
        styles = styles_of(whole)
        assert len({style.colour for style in styles.values()}) == len(whole)


UNKNOWN = st.text(st.characters(exclude_categories=()), min_size=1).filter(
    lambda name: styles_of([name])[name] not in STYLES.values()  # hypothesis also tries words of the sources
)


@given(st.lists(UNKNOWN, max_size=12, unique=True))
def test_methods_that_nobody_knows_are_told_apart_and_keep_their_style(names):
    styles = styles_of([*names, "mip", "bp"])
    assert len(set(styles.values())) == len(styles)
    assert styles["mip"] == STYLES["mip"]
    for name in names:
        assert styles_of([name])[name].colour == styles[name].colour


def test_forms_of_a_method_have_its_colour():
    styles = styles_of(["mip", "mip (penalty=1)", "mip 48×96", "dorfman-4", "ncomp (t=2)", "ncomp (t=3)"])
    assert len(set(styles.values())) == 6
    assert {styles[name].colour for name in styles if name.startswith("mip")} == {STYLES["mip"].colour}
    assert styles["dorfman-4"].colour == STYLES["dorfman"].colour
    assert styles["ncomp (t=2)"] == STYLES["ncomp"] != styles["ncomp (t=3)"]


def test_what_is_run_has_the_colour_of_the_method_that_is_known_for_it():
    assert colour_of("retests") == colour_of("individual network") == STYLES["individual"].colour
    assert colour_of("head") == colour_of("cheap head") == STYLES["cascade"].colour
    assert colour_of("pools") == STYLES["oneshot"].colour
    assert colour_of("glance") == STYLES["glance"].colour
    own = [part.name for part in list_parts() if part.name in ("front", "head", "pools", "retests", "glance")]
    assert len({colour_of(name) for name in own}) == len(own) == 5


def test_curves_of_networks_have_these_colours(monkeypatch, tmp_path):
    from matplotlib.colors import to_hex

    from poolsieve.calibration import RocCurve, draw_roc, roc

    drawn = []
    monkeypatch.setattr(roc, "save_figure", lambda figure, path: drawn.append(figure))
    curve = RocCurve((0.0, 1.0), (0.0, 1.0), 0.5)
    for names in (["glance", "individual network"], ["individual network", "cheap head", "glance"]):
        draw_roc(dict.fromkeys(names, curve), tmp_path / "roc.png")
        lines = drawn[-1].axes[0].get_lines()[: len(names)]
        assert [to_hex(line.get_color()).upper() for line in lines] == [colour_of(name) for name in names]


def test_the_bar_of_a_report_has_these_colours():
    from poolsieve.moderation.report import _cost
    from poolsieve.schemes import CostMeter
    from poolsieve.schemes.planted import COST

    for order in (["glance", "retests"], ["front", "head", "pools", "retests"]):
        meter = CostMeter(COST, images=10)
        for name in order:
            meter.runs[name] += 5
        colours = {paid.name: paid.colour for paid in _cost(meter)}
        assert colours["glance at a shrunken image"] == STYLES["glance"].colour
        assert colours["pools"] == STYLES["oneshot"].colour
        assert colours["tests of single images"] == "var(--ink)"
