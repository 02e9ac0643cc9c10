import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from poolsieve.progress import Reporter, RunClock, duration


def test_plain_lines_where_there_is_no_terminal(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("poolsieve.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with Reporter(Console(file=stream, width=200)).task("counting", 10) as task:
        for _ in range(10):
            now[0] += 20
            task.advance(note="loss 0.5")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "counting: 2/10, loss 0.5, 3 min left"
    assert len(lines) == 5


def test_steps_of_an_earlier_run_do_not_flatter_the_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("poolsieve.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with Reporter(Console(file=stream, width=200)).task("counting", 100) as task:
        task.skip(50)
        now[0] = 40
        task.advance(note="on")
    assert stream.getvalue().strip() == "counting: 51/100, on, 33 min left"


def test_the_time_left_of_all_parts_counts_those_that_have_not_begun(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("poolsieve.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    reporter = Reporter(Console(file=stream, width=200))
    reporter.clock = RunClock({"features": 100, "learning": 300})
    with reporter.part("features"), reporter.task("features", 10) as task:
        for _ in range(10):
            now[0] += 30
            task.advance(note="on")
    lines = stream.getvalue().splitlines()
    # A tenth of the features is done: 270 s of them are left, and 3 times 300 s of learning.
    assert lines[0] == "features: 1/10, on, 4 min left, about 20 min left in all"
    assert lines[-1] == "features: 10/10, on, 0 s left, about 15 min left in all"
    with reporter.part("learning", 0, 0.5), reporter.task("epoch 1", 1) as task:
        now[0] += 60
        task.advance(note="fast")
        reporter.count(0.0, 20)  # judging
    assert reporter.left_in_all() == ", about 80 s left in all"  # by the part's own speed now


def test_a_resumed_run_counts_what_is_done_but_no_time_for_it(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("poolsieve.progress.time.monotonic", lambda: now[0])
    reporter = Reporter(quiet=True)
    reporter.clock = RunClock({"features": 100, "learning": 300, "test": 100})
    with reporter.part("features"):
        pass  # all of it was there
    assert reporter.left_in_all() == ""
    with reporter.part("learning", 0.5, 1), reporter.task("epoch 2", 100) as task:
        task.skip(40)
        now[0] += 90
        task.advance(30)
        # 15% of the learning took 90 s: as many are left, and the test is a third of all of it.
        assert reporter.clock.left() == pytest.approx(90 + 200)
    assert reporter.clock.left() == pytest.approx(200)


@given(
    st.lists(st.tuples(st.floats(1, 1e12), st.integers(1, 9)), min_size=1, max_size=6),
    st.floats(1e-3, 1e3),
    st.data(),
)
def test_at_a_steady_pace_the_time_left_is_right_at_every_moment(parts, pace, data):
    clock = RunClock({str(k): work for k, (work, _) in enumerate(parts)})
    total, done = sum(work for work, _ in parts), 0.0
    begun = data.draw(st.integers(0, len(parts) - 1))
    for k, (work, steps) in enumerate(parts):
        if k < begun:
            clock.reach(str(k), 1.0)  # by an earlier run
            done += work
            continue
        for _ in range(steps):
            clock.count(str(k), 1 / steps, pace * work / steps)
            done += work / steps
            assert clock.left() == pytest.approx(pace * (total - done), abs=1e-9 * pace * total)


def test_time_spans_for_people():
    assert [duration(s) for s in (5, 420, 4800, 9000)] == ["5 s", "7 min", "80 min", "2 h 30 min"]
