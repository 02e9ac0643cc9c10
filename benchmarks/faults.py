"""Faults at any size: what strangers send, kills, altered bundles, chosen pool-mates.

    python benchmarks/faults.py --files 100000 --kills 1000 --state faults.jsonl
    python benchmarks/faults.py --campaign archives --archives 5000 --seed 7
    python benchmarks/faults.py --campaign files --seed 7 --only 1234

Campaigns: `files` (mutated and hostile images of every format among sound ones), `archives`, `lists`, `kills`
(a run that SIGKILL ends anywhere, and that is resumed), `bundles` (altered ones) and `pool-mates` (bursts and
many bad images in a chunk; `pool_mates.py` is the full measurement).

A case survives if nothing ends in a traceback or an unexpected error, what cannot be read has a record with
its reason, all others have the verdicts that they have without the fault, and limits of time are kept. Every
case is made from the seed and its number alone. Ctrl-C ends a campaign, and with --state the same command
goes on with it later. The exit status is 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # drawn firearms

from fault_campaigns.archives import Archives
from fault_campaigns.bundles import AlteredBundles
from fault_campaigns.campaign import Broken, Campaign, Findings
from fault_campaigns.image_files import MutatedFiles
from fault_campaigns.kills import Kills
from fault_campaigns.lists import Lists
from fault_campaigns.pool_mates import PoolMates
from small_bundle import small_bundle

CAMPAIGNS: dict[str, Callable[[int, Path], Campaign]] = {
    "files": MutatedFiles,
    "archives": Archives,
    "lists": Lists,
    "kills": Kills,
    "bundles": AlteredBundles,
    "pool-mates": PoolMates,
}
SIZES = {"files": 2000, "archives": 500, "lists": 500, "kills": 40, "bundles": 60, "pool-mates": 15}
SHOWN = 5
"""Broken cases of a campaign that are told one by one."""
_TELL_EVERY = 10.0


class State:
    """What was found so far, in a file with a line for each part, so that a campaign can go on.

    Args:
        file: The file; None to remember nothing.
        seed: Parts of campaigns with another seed do not count.
    """

    def __init__(self, file: Path | None, seed: int) -> None:
        self._file, self._seed = file, seed
        self._parts = []
        if file is not None and file.exists():
            parts = [json.loads(line) for line in file.read_text().splitlines()]
            self._parts = [part for part in parts if part["seed"] == seed]

    def findings(self, campaign: str) -> tuple[Findings, int]:
        """What was found, and the number of the next case."""
        findings, following = Findings(), 0
        for part in self._parts:
            if part["campaign"] == campaign:
                findings.tried += part["tried"]
                findings.broken += [Broken(**broken) for broken in part["broken"]]
                findings.noted.update(part["noted"])
                following = max(following, part["end"])
        return findings, following

    def add(self, campaign: str, end: int, findings: Findings) -> None:
        """Note the findings of cases up to a number."""
        if self._file is not None:
            part = {
                "campaign": campaign,
                "seed": self._seed,
                "end": end,
                "tried": findings.tried,
                "broken": [asdict(broken) for broken in findings.broken],
                "noted": findings.noted,
            }
            with self._file.open("a") as stream:
                stream.write(json.dumps(part) + "\n")


def run_campaign(campaign: Campaign, size: int, state: State) -> Findings:
    """Run what is missing of a campaign; Ctrl-C ends it early.

    Args:
        campaign: What to run.
        size: Number of cases in all.
        state: What was run before, and where the findings go.
    """
    findings, start = state.findings(campaign.name)
    begin = told = time.monotonic()
    try:
        for first in range(start, size, campaign.together):
            numbers = range(first, min(first + campaign.together, size))
            found = campaign.run(numbers)
            state.add(campaign.name, numbers.stop, found)
            findings.add(found)
            if time.monotonic() - told > _TELL_EVERY or numbers.stop == size:
                told = time.monotonic()
                print(
                    f"{campaign.name}: {numbers.stop:,} of {size:,}, {len(findings.broken)} broken, "
                    f"{told - begin:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    except KeyboardInterrupt:
        print(f"{campaign.name}: stopped", file=sys.stderr)
    return findings


def table(found: dict[str, Findings], seed: int) -> Iterator[str]:
    """The table, and how to make the first broken cases again."""
    yield "| campaign | tried | survived | broken | of these |"
    yield "|---|---|---|---|---|"
    for name, findings in found.items():
        broken = len({case.number for case in findings.broken})
        noted = ", ".join(f"{what} {count:,}" for what, count in sorted(findings.noted.items()))
        yield f"| {name} | {findings.tried:,} | {findings.tried - broken:,} | {broken:,} | {noted} |"
    for name, findings in found.items():
        for case in findings.broken[:SHOWN]:
            yield f"\n{name} {case.number}: {case.words}"
            yield f"  again: python benchmarks/faults.py --campaign {name} --seed {seed} --only {case.number}"
        if len(findings.broken) > SHOWN:
            yield f"\n{name}: and {len(findings.broken) - SHOWN:,} more"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns and print the table; gives the exit status."""
    given = _arguments(arguments)
    found: dict[str, Findings] = {}
    with _bundle(given.bundle) as bundle:
        for name in given.campaign or CAMPAIGNS:
            size = getattr(given, name.replace("-", "_"))
            if size == 0:
                continue
            campaign = CAMPAIGNS[name](given.seed, bundle)
            if given.only is None:
                found[name] = run_campaign(campaign, size, State(given.state, given.seed))
            else:
                found[name] = campaign.run(range(given.only, given.only + 1))
    print("\n".join(table(found, given.seed)))
    return int(any(findings.broken for findings in found.values()))


@contextmanager
def _bundle(folder: Path | None) -> Iterator[Path]:
    """The bundle that judges; a small one is made in a few seconds."""
    if folder is not None and folder.exists():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="poolsieve-faults-") as temporary:
        yield small_bundle(folder or Path(temporary) / "small").path


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaign", action="append", choices=CAMPAIGNS, help="may be given several times")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N", help=f"{name} to try ({size})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one case, by its number")
    parser.add_argument("--state", type=Path, help="a .jsonl from which a run that was stopped goes on")
    parser.add_argument(
        "--bundle", type=Path, help="a bundle that judges; a small one is made there if there is none"
    )
    given = parser.parse_args(arguments)
    if given.only is not None and len(given.campaign or ()) != 1:
        parser.error("--only is the number of a case; name its campaign with --campaign")
    return given


if __name__ == "__main__":
    sys.exit(main())
