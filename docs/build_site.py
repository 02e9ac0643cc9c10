"""`make docs`: the site, with the pages beside docs/ and a reference made of docstrings.

The pages are written for GitHub, where their links lead to files of the repository, and where a list or table
may follow a line of text. Copies in which both fit the site go to build/pages; mkdocs.yml makes the site of
these. A link or an anchor that leads nowhere is an error.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build/pages"
BESIDE = (
    *("experiments/*.md", "recipes/*.md", "examples/*.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)
"""Pages that are no part of docs/."""
_IMPORTS = "Import what you need from `poolsieve` or from one of its packages; modules below them may move."
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.S | re.M)
_TEXT_BEFORE_LIST_OR_TABLE = re.compile(r"^(?![-*|#]|\d+\.|\s|$)(.+)\n(?=[-*] |\d+\. |\|)", re.M)


def main() -> int:
    """Write the pages and build the site."""
    shutil.rmtree(PAGES, ignore_errors=True)
    write_pages(PAGES)
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False
    ).returncode


def write_pages(folder: Path) -> None:
    """Write all that the site is made of."""
    shutil.copytree(DOCS / "figures", folder / "figures")
    files = [*DOCS.glob("*.md"), *(page for pattern in BESIDE for page in ROOT.glob(pattern))]
    for file in files:
        target = folder / place_of(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page_text(file, {*files, *(DOCS / "figures").iterdir()}), encoding="utf-8")
    write_reference(folder / "api")


def write_reference(folder: Path) -> None:
    """Write one page for each package, and a list of them; zensical fills in the docstrings."""
    folder.mkdir()
    lines = []
    for package, about in packages().items():
        text = f"# poolsieve.{package}\n\n::: poolsieve.{package}\n"
        (folder / f"{package}.md").write_text(text, encoding="utf-8")
        lines.append(f"| [poolsieve.{package}]({package}.md) | {about.splitlines()[0]} |\n")
    index = f"# API reference\n\n{_IMPORTS}\n\n| package | what is in it |\n|---|---|\n{''.join(lines)}"
    (folder / "index.md").write_text(index, encoding="utf-8")


def place_of(file: Path) -> Path:
    """Where a file of the repository lies in the site: docs/ is its root."""
    return file.relative_to(DOCS if file.is_relative_to(DOCS) else ROOT)


def page_text(file: Path, known: set[Path]) -> str:
    """A page with links to where its neighbours lie in the site; links to sources become text."""
    place = place_of(file)

    def linked(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups(default="")
        there = (file.parent / target).resolve()
        if there in known:
            way = "../" * (len(place.parts) - 1) + place_of(there).as_posix()
            return f"{mark}[{text}]({way}{anchor})"
        return text if there.exists() else found.group()

    def written(text: str) -> str:
        return _TEXT_BEFORE_LIST_OR_TABLE.sub(r"\1\n\n", _LINK.sub(linked, text))

    parts = _FENCED.split(file.read_text(encoding="utf-8"))  # every second one is code
    return "".join(part if number % 2 else written(part) for number, part in enumerate(parts))


def packages() -> dict[str, str]:
    """Packages that say in `__all__` what they offer, and what they are for."""
    found = {}
    for file in sorted((ROOT / "src/poolsieve").glob("*/__init__.py")):
        text = file.read_text(encoding="utf-8")
        if file.parent.name != "cli" and "__all__" in text:
            found[file.parent.name] = ast.get_docstring(ast.parse(text)) or ""
    return found


if __name__ == "__main__":
    sys.exit(main())
