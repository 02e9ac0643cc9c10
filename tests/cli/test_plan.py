from typer.testing import CliRunner

from poolsieve.cli.main import app


def test_a_joined_bundle_is_not_priced_with_the_front_of_another_network():
    failed = CliRunner().invoke(app, ["plan", "cars", "--prevalence", "0.01", "--front-share", "0.22"])
    assert failed.exit_code != 0
    assert "0.22 makes no sense for a joined bundle" in " ".join(
        str(failed.exception or failed.output).split()
    )
