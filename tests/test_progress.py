import io

from rich.console import Console

from poolsieve.progress import Reporter, duration


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


def test_time_spans_for_people():
    assert [duration(s) for s in (5, 420, 4800, 9000)] == ["5 s", "7 min", "80 min", "2 h 30 min"]
