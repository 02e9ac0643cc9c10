import csv

import pyarrow.parquet
import pytest

from poolsieve.evaluation import parse_method, simulate
from poolsieve.evaluation.detection_figure import CLOSE_UP, plot_detection
from poolsieve.evaluation.tables import write_table
from poolsieve.figures import save_figure


@pytest.fixture(scope="module")
def rows(paper_design, study_noise):
    methods = [parse_method(name, paper_design) for name in ("comp", "ncomp:t=2", "bp")]
    return list(
        simulate(methods, {"study": study_noise}, prevalences=[0.01, 0.1], chunks=100, tuning_chunks=50)
    )


def test_every_method_is_drawn_with_labels_on_a_broken_axis(rows, tmp_path):
    figure = plot_detection(rows)
    upper, lower = figure.axes[0], figure.axes[2]
    assert upper.get_ylim()[0] == lower.get_ylim()[1] == CLOSE_UP
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["comp", "ncomp (t=2)", "bp-soft"]
    assert all(axes.get_xlabel() for axes in figure.axes[2:]) and all(
        axes.get_ylabel() for axes in figure.axes[:2]
    )
    path = save_figure(figure, tmp_path / "new" / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_unknown_figure_endings_are_refused(rows, tmp_path):
    with pytest.raises(ValueError, match=r"figures end in \.png"):
        save_figure(plot_detection(rows), tmp_path / "figure.txt")


def test_tables_keep_every_number(rows, tmp_path):
    records = [row.as_record() for row in rows]
    with write_table(records, tmp_path / "rows.csv").open() as stream:
        read = list(csv.DictReader(stream))
    assert [float(row["sensitivity"]) for row in read] == [row["sensitivity"] for row in records]
    assert pyarrow.parquet.read_table(write_table(records, tmp_path / "rows.parquet")).to_pylist() == records


def test_a_failed_write_leaves_the_old_file(rows, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("poolsieve.files.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_table([row.as_record() for row in rows], path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_table_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"tables end in \.csv or \.parquet"):
        write_table([{"a": 1}], tmp_path / "rows.xlsx")


def drawn_lines(axes):
    """Colour and mark by the label of each line of a figure."""
    handles, labels = axes.get_legend_handles_labels()
    lines = [getattr(handle, "lines", [handle])[0] for handle in handles]
    return {label: (line.get_color(), line.get_marker()) for label, line in zip(labels, lines, strict=True)}


def test_a_method_looks_the_same_in_every_figure(rows, tmp_path):
    together = drawn_lines(plot_detection(rows).axes[0])
    assert len(set(together.values())) == 3
    for name, look in together.items():
        alone = plot_detection([row for row in rows if row.method == name])
        assert drawn_lines(alone.axes[0]) == {name: look}


def test_names_that_are_no_text_are_written_as_escapes(tmp_path):
    records = [{"file": "a\udcff.jpg", "wrong": 1}, {"file": "ü\ud800", "wrong": 2}]
    with write_table(records, tmp_path / "rows.csv").open(encoding="utf-8") as stream:
        assert [row["file"] for row in csv.DictReader(stream)] == ["a\\xff.jpg", "ü\\ud800"]
    table = pyarrow.parquet.read_table(write_table(records, tmp_path / "rows.parquet"))
    assert table.to_pylist() == [{"file": "a\\xff.jpg", "wrong": 1}, {"file": "ü\\ud800", "wrong": 2}]
