"""The queue by simulation: a clock of its own, one judge, and requests as they come."""

import heapq
import math
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.serving.batching import LONGEST_WAIT, SLACK, Batcher, Line, Pile, Waiting, fair_shares
from poolsieve.serving.run_times import RunTimes

FULL, KNEE = 100, 32


def exact_times(fixed=0.05, each=0.004):
    times = RunTimes()
    for images in (1, 10, 50, 100):
        times.add(images, fixed + each * images, 0.0)
    times._error = 0.0
    return times


def make_batcher(*, policies=("firearms",), knee=KNEE, full=FULL, room=400, seed=0, each=0.004):
    lines = {policy: Line(full, knee, exact_times(each=each)) for policy in policies}
    return Batcher(lines, room, random.Random(seed))


@dataclass
class Simulation:
    """One judge with a clock; requests of one image each arrive at given times."""

    batcher: Batcher
    each: float = 0.004
    fixed: float = 0.05
    answered: dict = field(default_factory=dict)
    refused: Counter = field(default_factory=Counter)
    refused_keys: Counter = field(default_factory=Counter)
    expired: list = field(default_factory=list)
    chunks: list = field(default_factory=list)

    def run(self, arrivals):
        """Arrivals (time, key, allowed seconds); inf allowed seconds for bulk."""
        coming = [(time, number, key, allowed) for number, (time, key, allowed) in enumerate(arrivals)]
        heapq.heapify(coming)
        now, policies = 0.0, list(self.batcher.lines)
        while True:
            while coming and coming[0][0] <= now:
                self._arrive(*heapq.heappop(coming), policies)
            chunk = self.batcher.next_chunk(now)
            if chunk is not None:
                for one in chunk.expired:
                    self.expired.append(one.image)
                    self.batcher.release(one.key, 1)
                if chunk.images:
                    now = self._judge(chunk, now, coming, policies)
                continue
            nexts = [coming[0][0]] if coming else []
            again = self.batcher.look_again()
            nexts += [again] if math.isfinite(again) else []
            if not nexts:
                return
            now = max(now + 1e-6, min(nexts))

    def _judge(self, chunk, now, coming, policies):
        self.chunks.append((now, chunk))
        end = now + self.fixed + self.each * len(chunk.images)
        self.batcher.begin(chunk, now)
        while coming and coming[0][0] <= end:
            self._arrive(*heapq.heappop(coming), policies)
        self.batcher.finish()
        for one in chunk.images:
            assert one.image not in self.answered, "judged twice"
            self.answered[one.image] = (end, one.deadline)
            if math.isfinite(one.deadline):
                self.batcher.release(one.key, 1)
        return end

    def _arrive(self, time, number, key, allowed, policies):
        waiting = Waiting(number, key, time + allowed, time)
        if math.isinf(allowed):
            self.batcher.put_bulk(policies[0], waiting)
        elif refusal := self.batcher.refusal(key, 1, waiting.deadline, time):
            self.refused[refusal.reason] += 1
            self.refused_keys[key] += 1
            assert refusal.retry_after >= 1
        else:
            self.batcher.admit(key, 1)
            self.batcher.put(policies[number % len(policies)], waiting)

    def late(self):
        return [number for number, (end, deadline) in self.answered.items() if end > deadline]


def steady(rate, seconds, key="a", allowed=1.0, start=0.0):
    return [(start + k / rate, key, allowed) for k in range(int(rate * seconds))]


def test_pools_wait_for_the_knee():
    simulation = Simulation(make_batcher())
    simulation.run([(0.0, "a", 5.0)] * KNEE)
    (at, chunk) = simulation.chunks[0]
    assert (at, len(chunk.images), chunk.reason) == (0.0, KNEE, "knee")


def test_a_lonely_image_waits_until_its_deadline_less_the_run_time():
    simulation = Simulation(make_batcher())
    simulation.run([(0.0, "a", 1.0)])
    (at, chunk) = simulation.chunks[0]
    assert chunk.reason == "deadline"
    assert at == pytest.approx(min(1.0 - SLACK - 0.054, LONGEST_WAIT), abs=0.01)
    assert not simulation.late()


def test_without_pools_an_idle_judge_takes_what_there_is():
    simulation = Simulation(make_batcher(knee=1))
    simulation.run([(0.0, "a", 5.0), (1.0, "a", 5.0)])
    assert [(at, chunk.reason) for at, chunk in simulation.chunks] == [(0.0, "idle"), (1.0, "idle")]


def test_a_chunk_at_the_knee_waits_a_little_for_images_that_are_being_read():
    batcher = make_batcher()
    batcher.being_read = 10
    for number in range(KNEE):
        batcher.put("firearms", Waiting(number, "a", 10.0, 0.0))
    assert batcher.next_chunk(0.0) is None
    again = batcher.look_again()
    assert 0.0 < again <= 1.0
    assert batcher.next_chunk(again).reason == "knee"
    for number in range(KNEE):
        batcher.put("firearms", Waiting(number, "a", 10.0, 0.0))
    assert batcher.next_chunk(2.0) is None
    batcher.being_read = 0
    assert batcher.next_chunk(2.0).reason == "knee"


def test_a_half_full_chunk_is_topped_up_with_bulk_images():
    batcher = make_batcher()
    for number in range(500):
        batcher.put_bulk("firearms", Waiting(number, "job", math.inf, 0.0))
    batcher.put("firearms", Waiting("asked", "a", 2.0, 0.0))
    chunk = batcher.next_chunk(0.0)
    assert len(chunk.images) == FULL
    assert "asked" in [one.image for one in chunk.images]


def test_bulk_images_make_nobody_late():
    simulation = Simulation(make_batcher())
    simulation.batcher.lines["firearms"].hurry = True
    simulation.run([(0.0, "job", math.inf)] * 1000 + steady(20, 10, allowed=0.8))
    assert not simulation.late() and not simulation.expired
    assert len(simulation.answered) == 1200


def test_bulk_images_of_a_job_that_ends_need_no_company():
    batcher = make_batcher()
    batcher.put_bulk("firearms", Waiting(0, "job", math.inf, 0.0))
    assert batcher.next_chunk(0.0) is None
    batcher.lines["firearms"].hurry = True
    assert batcher.next_chunk(0.0).reason == "bulk"


def test_at_seventy_percent_load_hardly_anyone_is_late_or_refused():
    capacity = FULL / (0.05 + 0.004 * FULL)
    rng = random.Random(3)
    time, arrivals = 0.0, []
    for _ in range(5000):
        time += rng.expovariate(0.7 * capacity)
        arrivals.append((time, rng.choice("abcd"), 1.5))
    simulation = Simulation(make_batcher())
    simulation.run(arrivals)
    bad = len(simulation.late()) + len(simulation.expired) + simulation.refused.total()
    assert bad <= 0.01 * len(arrivals)


def test_at_three_times_the_load_the_judge_stays_busy_and_answers_in_time():
    capacity = FULL / (0.05 + 0.004 * FULL)
    simulation = Simulation(make_batcher())
    simulation.run(steady(3 * capacity, 20, allowed=1.5) + steady(5, 5, start=30))
    assert simulation.refused.total() > 0.5 * 3 * capacity * 20
    in_time = len(simulation.answered) - len(simulation.late())
    assert in_time >= 0.8 * capacity * 20
    assert len(simulation.late()) + len(simulation.expired) <= 0.02 * len(simulation.answered)
    last = [number for number, (end, _) in simulation.answered.items() if end > 30]
    assert len(last) == 25, "it recovers"


def test_a_flooder_leaves_others_their_share():
    simulation = Simulation(make_batcher())
    quiet = [(time, "quiet", 1.5) for time, _, _ in steady(20, 20)]
    simulation.run(steady(1000, 20, key="flood", allowed=1.5) + quiet)
    assert simulation.refused_keys["quiet"] <= 0.02 * len(quiet)
    assert simulation.refused_keys["flood"] > 1000


def test_a_keys_images_are_spread_over_chunks_at_random():
    together = []
    for seed in range(200):
        batcher = make_batcher(knee=1, full=10, room=1000, seed=seed)
        for number in range(40):
            batcher.put("firearms", Waiting(number, "flood", 1000.0, 0.0))
        first = {one.image for one in batcher.next_chunk(0.0).images}
        together.append(len(first & set(range(10))))
    # Of the ten that came first, a quarter is drawn on average: nobody can choose.
    assert 2.0 < sum(together) / len(together) < 3.0
    assert max(together) < 10


def test_draining_waits_for_nobody():
    batcher = make_batcher()
    batcher.put("firearms", Waiting(0, "a", 100.0, 0.0))
    assert batcher.next_chunk(0.0) is None
    batcher.draining = True
    assert batcher.next_chunk(0.0).reason == "draining"


def test_an_impossible_deadline_is_refused_at_once():
    batcher = make_batcher()
    assert batcher.refusal("a", 1, 0.01, 0.0).reason == "deadline"
    assert batcher.refusal("a", 1, 1.0, 0.0) is None
    assert batcher.refusal("a", 64, 0.2, 0.0).reason == "deadline"


def test_images_whose_bytes_have_not_come_take_room_and_delay_nobody():
    batcher = make_batcher(each=0.01)
    batcher.admit("a", 200, coming=True)
    assert batcher.refusal("a", 1, 1.0, 0.0) is None
    assert batcher.refusal("a", 201, 100.0, 0.0).reason == "full"
    batcher.release("a", 200, coming=True)
    batcher.admit("a", 200)
    assert batcher.refusal("a", 1, 1.0, 0.0).reason == "deadline"
    batcher.release("a", 200)
    assert (batcher.total, batcher.coming) == (0, {})


def test_a_prediction_that_is_wrong_is_tried_again_after_a_while():
    batcher = make_batcher()
    batcher.lines["firearms"].times.add(100, 60.0, 0.0)
    assert batcher.refusal("a", 50, 1.0, 0.0).reason == "deadline"
    assert batcher.refusal("a", 50, 101.0, 100.0) is None


def test_an_idle_service_takes_64_images_after_lonely_ones_on_a_busy_machine():
    batcher = make_batcher()
    times = batcher.lines["firearms"].times
    for number in range(200):  # as slow as with ten others on the machine, and once at a halt
        times.add(1, 20.0 if number == 150 else 0.54, float(number))
    assert batcher.refusal("a", 64, 206.0, 200.0) is None
    assert batcher.refusal("a", 64, 200.5, 200.0).reason == "deadline"


def test_a_wrong_prediction_is_tried_again_by_requests_of_many_images():
    batcher = make_batcher()
    batcher.lines["firearms"].times.add(100, 600.0, 0.0)
    assert batcher.refusal("a", 64, 6.0, 5.0).reason == "deadline"
    assert batcher.refusal("a", 64, 101.0, 100.0) is None
    batcher.admit("b", 1)
    assert batcher.refusal("a", 64, 101.0, 100.0).reason == "deadline"


def test_margins_of_chunks_do_not_add_up():
    line = make_batcher(full=10).lines["firearms"]
    line.times._error = 0.1
    assert line.seconds(100) - line.seconds(100, sure=False) == pytest.approx(2 * 0.1 * math.sqrt(10))


def test_several_policies_share_the_judge():
    simulation = Simulation(make_batcher(policies=("firearms", "cars"), knee=1))
    simulation.run(steady(100, 10, allowed=2.0))
    assert len(simulation.answered) == 1000 and not simulation.late()
    assert {chunk.policy for _, chunk in simulation.chunks} == {"firearms", "cars"}


def test_what_nobody_waits_for_is_taken_out():
    batcher = make_batcher()
    for number in range(5):
        batcher.put("firearms", Waiting(number, "a", 5.0, 0.0))
    assert [one.image for one in batcher.discard(lambda one: one.image == 3)] == [3]
    assert batcher.lines["firearms"].waiting.size == 4


@given(
    st.dictionaries(st.text(max_size=3), st.integers(1, 50), max_size=8), st.integers(0, 120), st.integers()
)
def test_shares_are_max_min_fair(held, count, seed):
    shares = fair_shares(held, count, random.Random(seed))
    assert sum(shares.values()) == min(count, sum(held.values()))
    assert all(share <= held[key] for key, share in shares.items())
    for key in held:
        for other in held:  # who got less than another by two holds no more
            assert shares.get(key, 0) >= shares.get(other, 0) - 1 or shares.get(key, 0) == held[key]


arrival = st.tuples(
    st.floats(0, 5), st.sampled_from("abc"), st.one_of(st.floats(0.01, 4.0), st.just(math.inf))
)


@settings(max_examples=60, deadline=None)
@given(st.lists(arrival, max_size=200), st.integers(1, 40), st.integers(0, 2**32))
def test_every_image_has_one_end(arrivals, knee, seed):
    batcher = make_batcher(knee=knee, full=40, room=60, seed=seed)
    batcher.lines["firearms"].hurry = True
    simulation = Simulation(batcher)
    simulation.run(arrivals)
    assert len(simulation.answered) + len(simulation.expired) + simulation.refused.total() == len(arrivals)
    assert not set(simulation.answered) & set(simulation.expired)
    assert batcher.total == 0
    assert all(len(chunk.images) <= 40 for _, chunk in simulation.chunks)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 64)), max_size=60))
def test_held_images_never_exceed_the_room_and_a_new_key_finds_some(requests):
    batcher = make_batcher(room=200)
    for key, images in requests:
        if batcher.refusal(key, images, math.inf, 0.0) is None:
            batcher.admit(key, images)
    assert batcher.total <= 200
    if len(batcher.held) <= 3 and max(batcher.held.values(), default=0) <= 64:
        assert batcher.refusal("new", 1, math.inf, 0.0) is None or batcher.total == 200


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0.001, 5)), min_size=1, max_size=30))
def test_predictions_are_finite_and_grow(chunks):
    times = RunTimes()
    for now, (images, seconds) in enumerate(chunks):
        times.add(images, seconds, now)
    values = [times.seconds(n) for n in (1, 10, 100)]
    assert all(math.isfinite(value) and value >= 0 for value in values)
    assert values == sorted(values)
    assert times.seconds(max(times.most_images(values[1], 100), 1)) <= max(values[1], values[0]) + 1e-6


def test_predictions_follow_the_chunks():
    times = exact_times(fixed=0.1, each=0.02)
    assert times.seconds(30) == pytest.approx(0.7, rel=0.02)
    assert times.most_images(0.7, 100) in (29, 30)


def test_urgent_images_of_a_key_go_first():
    pile = Pile()
    for number in range(20):
        pile.add(Waiting(number, "a", 100.0 if number else 1.0, 0.0))
    assert 0 in [one.image for one in pile.draw(1, 2.0, random.Random(0))]
