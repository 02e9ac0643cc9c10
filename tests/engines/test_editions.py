"""Which edition runs here: what a processor announces and survives decides, unless somebody said."""

import sys

import pytest
from altered_bundles import put

from poolsieve.bundles import load_bundle
from poolsieve.distributed import BundleOpening
from poolsieve.engines import editions, open_engine, registry, settle_precision
from poolsieve.engines.probing import LIMIT, ProbeResult
from poolsieve.moderation import Moderator
from poolsieve.serving.policies import load_policies

USABLE = ProbeResult(True, None, "")


@pytest.fixture
def processor(monkeypatch):
    """A processor that announces and survives what it is told to; gives the bundles that were tried."""
    tried = []

    def set_up(announced=("avx2", "avx512_vnni"), outcome=USABLE):
        monkeypatch.setattr(editions, "_announced", lambda: set(announced))
        monkeypatch.setattr(
            editions, "probe", lambda engine, precision, bundle: (tried.append(bundle), outcome)[1]
        )
        return tried

    monkeypatch.delenv(LIMIT, raising=False)
    # The edition's graphs are in float, so that any processor runs them.
    monkeypatch.setattr(registry, "ensure_precision", lambda *_: None)
    set_up()
    return set_up


def settled(bundle, engine="auto", precision="auto", **options):
    chosen, run = settle_precision(bundle, engine, precision, **options)
    assert (chosen == "int8") == (run.config.precision == "int8")
    return chosen


def test_auto_takes_int8_where_the_processor_gains_by_it(holder, tiny_bundle, processor):
    bundle, tried = load_bundle(holder), processor()
    assert settled(bundle) == "int8"
    assert tried == [bundle.edition("int8")]
    assert settled(tiny_bundle) == "fp32"  # it holds none
    assert settled(bundle, precision="fp32") == "fp32" and settled(bundle, precision="low") == "low"
    assert len(tried) == 1
    for announced in ((), ("avx", "sse4_1"), ("vnni",)):
        processor(announced)
        assert settled(bundle) == "fp32"
    for announced in (("avx2",), ("asimddp",)):
        processor(announced)
        assert settled(bundle) == "int8"


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        (ProbeResult(False, None, "died"), "fp32"),
        (ProbeResult(True, "AVX", "died without"), "fp32"),  # it runs, but no faster
        (ProbeResult(True, "AVX2", "died without"), "int8"),
        (ProbeResult(True, "AVX512_CORE_FP16", "died without"), "int8"),
    ],
)
def test_what_dies_of_int8_or_gains_nothing_runs_in_float(holder, processor, monkeypatch, outcome, wanted):
    processor(outcome=outcome)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    assert settled(load_bundle(holder), "openvino") == wanted
    monkeypatch.setitem(sys.modules, "openvino", sys)
    assert settled(load_bundle(holder), "openvino") == "fp32"  # too late to set a limit


def test_a_limit_that_takes_the_instructions_away_is_kept_to(holder, processor, monkeypatch):
    monkeypatch.setenv(LIMIT, "AVX")
    assert settled(load_bundle(holder)) == "fp32"
    monkeypatch.setenv(LIMIT, "AVX2")
    assert settled(load_bundle(holder)) == "int8"


def test_int8_is_had_by_name_and_refused_where_it_cannot_be(holder, tiny_bundle, processor):
    processor(())
    bundle = load_bundle(holder)
    assert settled(bundle, precision="int8") == "int8"
    edition = bundle.edition("int8")
    assert settle_precision(edition, "auto", "int8") == ("int8", edition)
    assert settle_precision(edition, "auto", "auto") == ("fp32", edition)
    with pytest.raises(ValueError, match=r"holds no int8 edition; .* poolsieve bundles quantise"):
        settled(tiny_bundle, precision="int8")
    with pytest.raises(ValueError, match="torch does not run graphs in int8"):
        settled(bundle, "torch", "int8")
    processor()
    assert settled(bundle, "torch") == "fp32"
    with pytest.raises(ValueError, match="precision is 'int4'"):
        settled(bundle, precision="int4")
    with pytest.raises(ValueError, match="not in int8; open an int8 edition"):
        open_engine(bundle, precision="int8")


def test_a_damaged_edition_is_no_silence(holder, processor):
    put(holder / "int8" / "head.onnx", b"")
    for precision in ("auto", "int8"):
        with pytest.raises(ValueError, match=r"int8/head\.onnx is damaged"):
            settled(load_bundle(holder), precision=precision)
    assert settled(load_bundle(holder), precision="fp32") == "fp32"


def test_moderators_and_policies_run_the_edition(holder, processor):
    bundle = load_bundle(holder)
    for precision, wanted in (("auto", bundle.edition("int8").hash), ("fp32", bundle.hash)):
        moderator = Moderator.load(holder, scheme="individual", threads=1, precision=precision)
        assert moderator.bundle.hash == wanted
        (policy,) = load_policies([holder], scheme="individual", threads=1, precision=precision).values()
        assert (policy.name, policy.bundle.hash) == (holder.name, wanted)


def test_a_plan_from_a_file_is_followed_by_the_bundle_that_it_was_made_for(holder, processor, tmp_path):
    bundle = load_bundle(holder)
    assert settled(bundle, planned=True) == "fp32"
    assert settled(bundle, precision="int8", planned=True) == "int8"
    plan = tmp_path / "plan.json"
    plan.write_text('{"stages": [{"stage": "test"}]}')
    assert Moderator.load(holder, plan=plan, threads=1).bundle == bundle
    assert BundleOpening(str(holder), {"plan": str(plan)}).choose().bundle == bundle


def test_the_driver_of_a_run_in_parts_settles_it_for_all_workers(holder, processor):
    options = {"scheme": "individual"}
    opening = BundleOpening(str(holder), options)
    assert (opening.options["precision"], options) == ("int8", {"scheme": "individual"})
    processor(())  # that of a worker
    assert opening.choose().bundle == load_bundle(holder).edition("int8") == opening.open(0, 1).bundle
    assert BundleOpening(str(holder), options).options["precision"] == "fp32"
    assert (
        BundleOpening(str(holder), {**options, "precision": "int8"}).choose().bundle
        == opening.choose().bundle
    )
