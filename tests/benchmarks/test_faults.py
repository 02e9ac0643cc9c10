"""Every fault campaign in small, and that each would notice what it is there for."""

import json
from collections import Counter

import faults
import planted_faults
import pytest
from fault_campaigns.archives import Archives
from fault_campaigns.bundles import ACCIDENTS, KINDS, AlteredBundles
from fault_campaigns.campaign import Findings
from fault_campaigns.image_files import MutatedFiles, mutated_file, sound_files
from fault_campaigns.kills import Kills
from fault_campaigns.lists import Lists
from fault_campaigns.pool_mates import PoolMates

from poolsieve.images import path_tables, sources
from poolsieve.images.guarded_decoding import GuardedDecoder
from poolsieve.images.reading import UnreadableImage
from poolsieve.schemes import decoded_pools

SEED = 3


@pytest.fixture(scope="module")
def bundle(small):
    return small.path


@pytest.fixture(scope="module")
def mutated_files(bundle):
    return MutatedFiles(SEED, bundle)


def assert_survived(findings, tried):
    assert (findings.tried, findings.broken) == (tried, [])


def test_a_case_is_made_from_seed_and_number():
    made = [mutated_file(1, number) for number in range(60)]
    assert [mutated_file(1, number) for number in range(60)] == made
    assert len({data for _, data in made}) == 60
    assert {kind for kind, _ in made} == {*sound_files()}  # hostile ones are named as JPEGs
    assert [mutated_file(2, number)[1] for number in range(60)] != [data for _, data in made]


def test_mutated_files(mutated_files):
    findings = mutated_files.run(range(0, 180))  # individual tests
    findings.add(mutated_files.run(range(180, 270)))  # pools
    assert_survived(findings, 270)
    assert min(findings.noted["judged"], findings.noted["refused"]) > 20


def test_archives(bundle):
    findings = Archives(SEED, bundle).run(range(60))
    assert_survived(findings, 60)
    assert min(findings.noted["judged"], findings.noted["refused"]) > 5


def test_lists(bundle):
    findings = Lists(SEED, bundle).run(range(60))
    assert_survived(findings, 60)
    assert min(findings.noted["judged"], findings.noted["refused"]) > 5


def test_kills(bundle):
    findings = Kills(SEED, bundle).run(range(10, 14))
    assert_survived(findings, 4)
    assert sum(findings.noted.values()) == 4


def test_altered_bundles(bundle):
    numbers = range(len(KINDS) - len(ACCIDENTS) - 1, len(KINDS) - 1)
    assert_survived(AlteredBundles(SEED, bundle).run(numbers), len(numbers))


def test_an_error_that_nobody_expects_of_a_decoder_is_found_and_its_file_named(mutated_files, monkeypatch):
    decode = GuardedDecoder.decode

    def letting_through(self, data, *arguments, **options):
        if data.startswith(b"GIF8"):
            raise AssertionError("no palette")
        return decode(self, data, *arguments, **options)

    monkeypatch.setattr(GuardedDecoder, "decode", letting_through)
    findings = mutated_files.run(range(18))
    assert findings.tried == 18
    gifs = [number for number in range(18) if mutated_file(SEED, number)[1].startswith(b"GIF8")]
    assert gifs
    assert [case.number for case in findings.broken] == gifs
    assert "AssertionError: no palette" in findings.broken[0].words


@pytest.mark.parametrize("first", [0, 180])
def test_neighbours_that_a_damaged_file_changes_are_found(mutated_files, monkeypatch, first):
    decode = GuardedDecoder.decode
    damaged = []

    def leaving_traces(self, data, *arguments, **options):
        try:
            views = decode(self, data, *arguments, **options)
        except UnreadableImage as error:
            damaged.append("empty" not in error.reason)
            raise
        return [255 - view for view in views] if any(damaged) else views

    monkeypatch.setattr(GuardedDecoder, "decode", leaving_traces)
    monkeypatch.setattr(mutated_files, "_each_alone", lambda scheme, files, whole: whole)
    run = mutated_files.run
    if first:  # a fresh process each time, as it were: the comparison comes after the damage
        changed = mutated_files._changed
        monkeypatch.setattr(mutated_files, "_changed", lambda *given: (damaged.clear(), changed(*given))[1])
    else:
        mutated_files._judged_alone("individual")
    (case,) = run(range(first, first + 18)).broken
    assert "without the others" in case.words


def test_a_record_without_a_reason_is_found(mutated_files, monkeypatch):
    def silent(self, data, path, **options):
        raise UnreadableImage(path, "")

    monkeypatch.setattr(GuardedDecoder, "decode", silent)
    assert "a record without sense" in mutated_files.run(range(1)).broken[0].words


@pytest.mark.parametrize("kind", ["zip_items", "tar_items"])
def test_a_lost_member_of_an_archive_is_found(bundle, monkeypatch, kind):
    items = getattr(sources, kind)
    monkeypatch.setattr(sources, kind, lambda *given: (item for k, item in enumerate(items(*given)) if k))
    broken = Archives(SEED, bundle).run(range(40)).broken
    assert broken
    assert {case.words.startswith("zip") for case in broken} == {kind == "zip_items"}
    assert "before the damage some are missing" in broken[0].words


def test_rows_that_a_resumed_run_loses_are_found(bundle):
    (case,) = Kills(SEED, bundle, planted_faults.losing_rows).run(range(10, 12)).broken
    assert "differ from those of an undisturbed run" in case.words
    (case,) = Kills(SEED, bundle, planted_faults.forgetting_rows_in_the_log).run(range(10, 12)).broken
    assert "ended with 2" in case.words


@pytest.mark.parametrize(
    ("command", "words"),
    [(planted_faults.unexpected_error, "unexpected KeyError"), (planted_faults.crash, "ended with -11")],
)
def test_a_bundle_that_ends_in_an_unexpected_error_is_found(bundle, command, words):
    (case,) = AlteredBundles(SEED, bundle, command).run(range(1)).broken
    assert words in case.words


def test_pool_mates_that_blind_a_scheme_are_found(bundle, monkeypatch):
    mates = PoolMates(SEED, bundle, targets=1)
    assert_survived(mates.run(range(1, 2)), 1)
    monkeypatch.setattr(decoded_pools, "find_surprise", lambda *given: None)
    monkeypatch.setattr(mates._bench, "_alike", False)
    (case,) = mates.run(range(1, 2)).broken
    assert "oneshot bp among frames of its burst" in case.words


def test_the_script_says_what_broke_and_how_to_see_it_again(bundle, monkeypatch, capsys):
    def failing(*given):
        raise RecursionError("too deep")
        yield

    options = ["--campaign", "lists", "--bundle", str(bundle), "--seed", "5"]
    assert faults.main([*options, "--lists", "4"]) == 0
    assert "| lists | 4 | 4 | 0 |" in capsys.readouterr().out
    monkeypatch.setattr(path_tables, "jsonl_paths", failing)
    assert faults.main([*options, "--lists", "4"]) == 1
    printed = capsys.readouterr().out
    assert "| lists | 4 | 2 | 2 |" in printed
    assert "lists 1: jsonl: RecursionError: too deep" in printed
    assert "again: python benchmarks/faults.py --campaign lists --seed 5 --only 1" in printed
    assert faults.main([*options, "--only", "1"]) == 1
    assert "| lists | 1 | 0 | 1 |" in capsys.readouterr().out


class Counting:
    """A campaign of which every tenth case breaks, and that is interrupted once."""

    name, together = "counting", 4

    def __init__(self, stop):
        self.stop, self.run_so_far = stop, []

    def run(self, numbers):
        if self.stop in numbers:
            raise KeyboardInterrupt
        self.run_so_far += numbers
        broken = [faults.Broken(number, "on purpose") for number in numbers if number % 10 == 9]
        return Findings(len(numbers), broken, Counter(seen=len(numbers)))


def test_an_interrupted_campaign_goes_on(tmp_path):
    file = tmp_path / "state.jsonl"
    first, second = Counting(stop=13), Counting(stop=None)
    assert faults.run_campaign(first, 30, faults.State(file, 1)).tried == 12
    found = faults.run_campaign(second, 30, faults.State(file, 1))
    assert first.run_so_far + second.run_so_far == list(range(30))
    assert (found.tried, found.noted) == (30, {"seen": 30})
    assert [case.number for case in found.broken] == [9, 19, 29]
    assert {json.loads(line)["seed"] for line in file.read_text().splitlines()} == {1}
    assert faults.State(file, 2).findings("counting")[1] == 0  # another seed begins anew
