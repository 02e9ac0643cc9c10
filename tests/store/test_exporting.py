import csv
import json

import pytest
from store_rows import chunk_record, verdict_record
from typer.testing import CliRunner

from poolsieve.cli.main import app, main
from poolsieve.store import Store


def run(*arguments):
    return CliRunner().invoke(app, ["store", *map(str, arguments)])


def test_tables_are_exported_as_json_lines_and_as_csv_that_computes_nothing(store_url, tmp_path):
    with Store(store_url) as store:
        store.keys.create("root", "uploads")
        store.verdicts.record([chunk_record([verdict_record(0), verdict_record(1, name="=1+1")])])
    done = run("export", tmp_path / "v.jsonl", store_url)
    assert done.output.endswith("2 rows\n")
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert {line["name"] for line in lines} == {"photo-0.jpg", "=1+1"}
    assert run("export", tmp_path / "v.csv", store_url).exit_code == 0
    with (tmp_path / "v.csv").open(newline="") as stream:
        assert {row["name"] for row in csv.DictReader(stream)} == {"photo-0.jpg", "'=1+1"}
    assert run("export", tmp_path / "a.jsonl", store_url, "--table", "audit").output.endswith("1 rows\n")
    for table in ("keys", "users", "images", "sessions"):
        refused = run("export", tmp_path / "k.jsonl", store_url, "--table", table)
        assert (
            "there are verdicts, decisions" in str(refused.exception) and not (tmp_path / "k.jsonl").exists()
        )


def test_migrate_makes_a_store_and_verify_prints_a_head_to_keep(empty_database, tmp_path):
    assert "revision 0001" in run("migrate", empty_database).output
    with Store(empty_database) as store:
        store.audit.add("mara", "approve", "verdict 1")
    said = run("verify", empty_database).output
    assert said.startswith("whole: 1 entries, head 1:")
    head = said.split()[-1]
    with Store(empty_database) as store:
        store.audit.add("mara", "approve", "verdict 2")
    assert run("verify", empty_database, "--head", head).output.startswith("whole: 2 entries")
    other = "1:" + "0" * 64
    assert "not the one" in str(run("verify", empty_database, "--head", other).exception)
    assert run("purge", empty_database).output == "0 pictures removed\n"


def test_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["store", "verify", str(tmp_path / "nothing.sqlite")])
    assert left.value.code == 2 and "there is no store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
