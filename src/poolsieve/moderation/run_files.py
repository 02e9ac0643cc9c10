"""The files that a run of moderation writes: never over those of another run, and never judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poolsieve.files import check_writable, remove_temporary_files
from poolsieve.images.own_outputs import note_outputs
from poolsieve.moderation.flagged_copies import check_copy_folder
from poolsieve.moderation.verdict_files import VerdictLog, check_output, lock_path
from poolsieve.pages import templates


@dataclass(frozen=True)
class RunFiles:
    """What a run writes.

    Attributes:
        out: The table of verdicts.
        report: The page about the run.
        sheet: The contact sheet.
        copies: Folder with copies of flagged images.
    """

    out: Path
    report: Path | None = None
    sheet: Path | None = None
    copies: Path | None = None

    @property
    def results(self) -> list[Path]:
        """The files, without the folder."""
        return [path for path in (self.out, self.report, self.sheet) if path is not None]

    @property
    def everything(self) -> list[Path]:
        """All files and folders that are there while the run lasts or after it."""
        passing = [VerdictLog.path_for(self.out), lock_path(self.out)]
        return [*self.results, *passing, *([] if self.copies is None else [self.copies])]

    @property
    def finished(self) -> bool:
        """Whether the run has ended and nothing is left to do."""
        return self.out.exists() and not VerdictLog.path_for(self.out).exists()

    def check(self, sources: Sequence[str]) -> None:
        """Raise at once, before long work, if they cannot be written.

        Args:
            sources: What will be judged.
        """
        check_output(self.out)
        self.check_beside(sources)

    def check_beside(self, sources: Sequence[str]) -> None:
        """As `check`, for what is written beside the verdicts."""
        if self.sheet is not None and check_writable(self.sheet).suffix != ".png":
            raise ValueError(f"{self.sheet}: a contact sheet ends in .png")
        if self.report is not None:
            if check_writable(self.report).suffix != ".html":
                raise ValueError(f"{self.report}: a report ends in .html")
            templates()  # raises if what pages need is missing
        if self.copies is not None:
            check_copy_folder(self.copies, sources)

    def check_absent(self) -> None:
        """Raise if a result of another run would be overwritten."""
        for path in self.results:
            if path.exists():
                raise ValueError(f"{path} exists already; give another name, or --force to replace it")

    def remove_temporary(self) -> None:
        """Remove what killed runs left of writing the same files; call it under the lock."""
        for path in self.results:
            remove_temporary_files(path)

    def note_within(self, sources: Sequence[str]) -> None:
        """Note results that lie below a source, so that later runs over it leave them out."""
        folders = [Path(source).resolve() for source in sources if Path(source).is_dir()]
        names = defaultdict(list)
        for path in self.results:
            place = path.resolve()
            if any(folder in place.parents for folder in folders):
                names[place.parent].append(place.name)
        for folder, found in names.items():
            note_outputs(folder, results=found)
