import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_python_example_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text()
    example = re.search(r"## Only the mathematics.*?```python\n(.*?)```", text, re.S).group(1)
    exec(example, {})
    assert capsys.readouterr().out == "(array([0]), array([17]))\n"
