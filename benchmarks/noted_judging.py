"""Runs in parts whose workers note every chunk that they begin to judge, to see what is judged again."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolsieve.distributed import BundleOpening

if TYPE_CHECKING:
    from poolsieve.moderation import Moderator

_FILE = "POOLSIEVE_BENCHMARK_NOTES"


class NotedOpening(BundleOpening):
    """Opens a bundle so that process and number of each chunk are written down before it is judged."""

    def open(self, seed: int, threads: int | None) -> Moderator:
        """A moderator whose engine computes on so many threads."""
        moderator = super().open(seed, threads)
        judge = moderator.judge_chunk

        def noted(prepared: Any, run: Any) -> Any:
            with Path(os.environ[_FILE]).open("a") as stream:
                stream.write(f"{os.getpid()} {run.chunk}\n")
            return judge(prepared, run)

        moderator.judge_chunk = noted  # type: ignore[method-assign,assignment]
        return moderator


@dataclass(frozen=True)
class Noted:
    """What was noted, in a file."""

    file: Path

    def environment(self) -> dict[str, str]:
        """Variables for drivers, which workers inherit."""
        return {_FILE: str(self.file), "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}

    def _judges(self) -> dict[int, list[int]]:
        """Processes that judged each chunk, in order; that of the last is the one that counts."""
        found = defaultdict(list)
        for line in self.file.read_text().splitlines():
            process, chunk = map(int, line.split())
            found[chunk].append(process)
        return found

    def again(self) -> int:
        """Times that a chunk was judged again."""
        return sum(len(judges) - 1 for judges in self._judges().values())

    def most_lost_by_a_worker(self) -> int:
        """Chunks of one worker that another had to judge again, at most."""
        lost = Counter(process for judges in self._judges().values() for process in judges[:-1])
        return max(lost.values(), default=0)


def noting(command: Sequence[str]) -> list[str]:
    """A command of `python -m poolsieve` with workers that note."""
    at = command.index("poolsieve")
    return [command[0], "-c", "import noted_judging; noted_judging.main()", *command[at + 1 :]]


def main() -> None:
    """The command."""
    import noted_judging  # by its name, as workers import it

    from poolsieve import distributed
    from poolsieve.cli.main import main as command

    distributed.BundleOpening = noted_judging.NotedOpening  # type: ignore[misc]
    command()
