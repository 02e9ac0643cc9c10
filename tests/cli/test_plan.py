from typer.testing import CliRunner

from poolsieve.cli.main import app


def test_a_joined_bundle_is_not_priced_with_the_front_of_another_network():
    failed = CliRunner().invoke(app, ["plan", "cars", "--prevalence", "0.01", "--front-share", "0.22"])
    assert failed.exit_code != 0
    assert "0.22 makes no sense for a joined bundle" in " ".join(
        str(failed.exception or failed.output).split()
    )


def test_a_tie_that_the_simpler_plan_wins_is_told():
    told = " ".join(CliRunner().invoke(app, ["plan", "cars", "--prevalence", "0.01"]).output.split())
    assert "chosen is cascade: costs that differ by at most 0.005 are a tie" in told
    told = CliRunner().invoke(app, ["plan", "firearms", "--prevalence", "0.01"]).output
    assert "are a tie" not in told
