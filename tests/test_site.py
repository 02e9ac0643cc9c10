"""The site of `make docs`, and what its API reference is made of."""

import html
import importlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from build_site import DOCS, ROOT, packages, write_pages

import poolsieve
from poolsieve.decoders import BeliefPropagation

PACKAGES = sorted(packages())


class AnyTag(yaml.SafeLoader):
    """Reads mkdocs.yml, in which a tag names a Python function, without calling any."""


AnyTag.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def pages_of(nav):
    """Files that a navigation leads to."""
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from pages_of(value) if isinstance(value, list) else [value]


def test_only_links_that_lead_nowhere_are_found(tmp_path):
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    write_pages(tmp_path / "build/pages")
    with (tmp_path / "build/pages/glossary.md").open("a") as page:
        page.write("\n[no page](nowhere.md), [no anchor](theory.md#nowhere)\n")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert done.returncode != 0
    assert re.findall(r"Warning: (.*)", said) == ["page does not exist", "anchor does not exist"], said
    reference = (tmp_path / "build/docs/api/decoders.html").read_text()
    assert 'id="poolsieve.decoders.BeliefPropagation"' in reference
    assert BeliefPropagation.__doc__.splitlines()[0] in html.unescape(reference)
    fetched = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?(https?:[^"\s>]*)', reference)
    assert fetched == [], "the site must work without a network"


def test_the_navigation_leads_to_every_page_and_package():
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), AnyTag)["nav"]
    named = list(pages_of(nav))
    assert len(named) == len(set(named))
    assert {page.name for page in DOCS.glob("*.md")} <= set(named)
    assert {f"api/{package}.md" for package in PACKAGES} <= set(named)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_offers_is_there_and_described(package):
    module = getattr(poolsieve, package)
    assert module is importlib.import_module(f"poolsieve.{package}")
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        offered = getattr(module, name)
        assert name in dir(module)
        if callable(offered):
            assert offered.__doc__, name


def test_docs_and_examples_import_from_packages_only():
    for page in [ROOT / "README.md", *DOCS.glob("*.md"), *(ROOT / "examples").glob("*.ipynb")]:
        text = page.read_text()
        assert not re.findall(r"from poolsieve\.\w+\.\w+ import", text), page.name


def test_names_that_are_not_offered_are_refused():
    with pytest.raises(AttributeError, match="module 'poolsieve' has no attribute 'Moderatr'"):
        poolsieve.Moderatr  # noqa: B018
    with pytest.raises(ImportError):
        from poolsieve.moderation import nothing  # noqa: F401
