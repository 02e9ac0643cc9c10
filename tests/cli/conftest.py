import numpy as np
import pytest
from bundle_fixtures import folder, holder, tiny_bundle  # noqa: F401
from planted import write_images
from planted_command import load_planted
from typer.testing import CliRunner

from poolsieve.cli.main import app
from poolsieve.moderation import Moderator


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(Moderator, "load", load_planted)

    def call(*arguments, **options):
        return CliRunner().invoke(app, ["moderate", "--bundle", "planted", *map(str, arguments)], **options)

    return call


@pytest.fixture
def photos(tmp_path):
    truth = np.zeros(130, dtype=bool)
    truth[[4, 77, 129]] = True
    write_images(tmp_path / "photos", truth)
    return tmp_path / "photos"
