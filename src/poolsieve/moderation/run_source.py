"""What a run of moderation judges, listed as often as it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from poolsieve.images.counting import count_items
from poolsieve.images.image_files import is_archive
from poolsieve.images.locations import is_remote
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.sources import STANDARD_INPUT, Item, file_item, list_items
from poolsieve.moderation.flagged_images import items_of
from poolsieve.moderation.resuming import check_unchanged
from poolsieve.moderation.run_files import RunFiles
from poolsieve.moderation.verdict_files import VerdictLog


@dataclass(frozen=True)
class RunSource:
    """The sources of one run, without what the run itself writes.

    Attributes:
        names: Sources as they were given.
        column: Column of the paths in tables.
        files: What the run writes.
    """

    names: list[str]
    column: str | None
    files: RunFiles

    @property
    def source(self) -> str | list[str]:
        """As `list_items` takes it: one source that does not exist is an error, one of several is an item."""
        return self.names[0] if len(self.names) == 1 else self.names

    @property
    def is_piped(self) -> bool:
        """Whether names come by standard input, which can be read only once."""
        return STANDARD_INPUT in self.names

    def own_outputs(self) -> OwnOutputs:
        """What tells the results of this run and of earlier ones from images to be judged."""
        return OwnOutputs(self.files.everything)

    def count(self) -> int | None:
        """Number of items; None if they cannot be counted at little cost."""
        return count_items(self.names, column=self.column, outputs=self.own_outputs())

    def check_unchanged(self, log: VerdictLog) -> None:
        """Raise if what was judged before the run was interrupted is not there any more as it was."""
        if self.is_piped:  # the names are compared when they come
            items: Iterator[Item] = (file_item(verdict.path) for verdict in log.verdicts())
        else:
            items = islice(self._items(), log.done)
        check_unchanged(log.verdicts(), items)

    def items_again(self, paths: Mapping[int, str]) -> Iterator[tuple[int, Item]]:
        """The items at some positions: files by their paths, as a folder may have changed meanwhile.

        Members of archives are listed again; what came by standard input cannot be, but has paths.
        """
        members = {}
        for position, path in paths.items():
            stored = is_remote(path) and not any(is_archive(name) for name in self.names)
            if self.is_piped or stored or os.path.lexists(path):
                yield position, file_item(path)
            else:
                members[position] = path
        found = set()
        if members:
            for position, item in items_of(self._items(), members):
                found.add(position)
                yield position, item
        for position in members.keys() - found:
            yield position, file_item(members[position])  # reading it tells that it is gone

    def _items(self) -> Iterator[Item]:
        return list_items(self.source, column=self.column, outputs=self.own_outputs())
