import errno
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolsieve.moderation.verdict_files import lock_output, lock_path, read_verdicts, write_verdicts
from poolsieve.moderation.verdicts import PoolReading, Verdict

NUMBERS = st.none() | st.floats(0, 1).map(lambda value: round(value, 6))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
POOLS = st.lists(
    st.builds(
        PoolReading,
        st.integers(0, 99),
        st.lists(st.integers(0, 99), max_size=8).map(tuple),
        st.integers(0, 8),
        st.lists(st.floats(0, 1), max_size=9).map(tuple),
    ),
    max_size=4,
).map(tuple)
VERDICTS = st.lists(
    st.builds(
        Verdict,
        path=TEXT,
        sha256=st.none() | st.just("ab" * 32),
        status=st.sampled_from(["flagged", "clear", "error", "not_image"]),
        score=NUMBERS,
        decided_by=st.none() | st.sampled_from(["pools", "individual"]),
        reason=st.none() | TEXT,
        position=st.integers(0, 10**9),
        chunk=st.integers(0, 10**6),
        prior=NUMBERS,
        pool_score=NUMBERS,
        pools=POOLS,
        note=st.none() | TEXT,
        bundle=st.just("cd" * 32),
        scheme=TEXT,
        seed=st.integers(0, 2**63 - 1),
    ),
    max_size=5,
)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(verdicts=VERDICTS)
def test_what_is_read_is_what_was_written(tmp_path, ending, verdicts):
    table = write_verdicts(verdicts, tmp_path / f"v.{ending}")
    assert list(read_verdicts(table)) == verdicts


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_any_path_can_be_written(tmp_path, ending):
    base = dict.fromkeys(("sha256", "score", "decided_by", "reason", "prior", "pool_score", "note"))
    names = ["\udcff.png", "\ud800.png", "\udfff\udcfe.png", 'a,"b"\n.png']
    made = [
        Verdict(
            path=name, status="error", position=k, chunk=0, pools=(), bundle="b", scheme="s", seed=0, **base
        )
        for k, name in enumerate(names)
    ]
    table = write_verdicts(made, tmp_path / f"v.{ending}")
    read = [verdict.path for verdict in read_verdicts(table)]
    assert len(read) == len(names)
    assert read[3] == names[3]
    if ending == "csv":
        assert read[:2] == ["\udcff.png", "\\ud800.png"]
        assert b"\xff.png," in table.read_bytes()
    if ending == "parquet":
        assert read[:2] == ["\\xff.png", "\\ud800.png"]
    if ending == "jsonl":
        assert read == names


def test_an_output_is_locked_until_the_run_ends_and_the_lock_goes(tmp_path):
    out = tmp_path / "deep" / "v.csv"
    for _ in range(2):
        with lock_output(out):
            assert lock_path(out).exists()
            with pytest.raises(ValueError, match=r"another run is writing .*v\.csv"), lock_output(out):
                pass
        assert list(out.parent.iterdir()) == []
    with pytest.raises(KeyError), lock_output(out):
        raise KeyError
    with lock_output(out):
        pass


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    """As NFS is without its lock service."""

    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(OSError, match=r"cannot be locked .*another file system"),
        lock_output(tmp_path / "v.csv"),
    ):
        pass


@pytest.mark.parametrize("cell", ["position", "seed", "pools"])
def test_a_table_with_an_empty_cell_where_there_must_be_a_number_is_damaged(tmp_path, cell):
    table = tmp_path / "v.csv"
    columns = [field.name for field in fields(Verdict)]
    row = {**dict.fromkeys(columns, ""), "position": "0", "chunk": "0", "seed": "0", "pools": "[]", cell: ""}
    table.write_text(",".join(columns) + "\n" + ",".join(row[name] for name in columns) + "\n")
    with pytest.raises(ValueError, match=r"v\.csv: no table of verdicts, or a damaged one"):
        list(read_verdicts(table))
