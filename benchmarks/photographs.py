"""Moderating photographs of .05 to 12 megapixels: from bytes to verdict, as ratios, and what is found.

    python benchmarks/photographs.py BUNDLE TASK.csv FOLDER [--part speed] [--images N] [--rounds N]
    python benchmarks/photographs.py BUNDLE TASK.csv FOLDER --part detection [--natural DIR]

TASK.csv has the columns file, label and split; images of the split `test` are enlarged into FOLDER. What was
measured is kept there too (`speed.jsonl`), so that a run may be stopped, go on, or add rounds later; --table
shows what there is and measures nothing. Either way benchmarks/results/photographs-BUNDLE.json holds the
speeds. Parts:

- speed: every scheme, `auto`, decoding alone (Pillow, at the smallest scale that a first stage needs: the
  floor), and what one would write instead (Pillow and ONNX Runtime in a loop of batches of 8), one after the
  other in every round, at a prevalence of .01. Processor time has that of the decoding processes in it.
- detection: scores and verdicts by reduced decoding against full decoding of the same files.
- threads: `auto` at 2 megapixels by threads of reading and of the engine.
- memory: the most that `moderate` takes over photographs of 12 megapixels, with its decoding processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from enlarged_photographs import Photographs, enlarge, natural_photographs, package_photographs
from numpy.typing import NDArray
from PIL import Image
from result_files import write_result
from watched_memory import link_files

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.bundles.config import FRONT_GRAPH, INDIVIDUAL_GRAPH
from poolsieve.engines import open_engine
from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.reading import draft_scale, open_image, read_image
from poolsieve.images.small_views import read_both_views, small_scale
from poolsieve.images.transforms import plain_view
from poolsieve.moderation import Moderator
from poolsieve.planning.choosing import choose_scheme
from poolsieve.schemes.scheme import SCHEMES
from poolsieve.statistics import auc

KINDS = (("jpeg", 0.05), ("jpeg", 0.3), ("jpeg", 2.0), ("png", 2.0), ("webp", 2.0), ("jpeg", 12.0))
PREVALENCE = 0.01
FLOOR, LOOP = "decoding alone", "Pillow + ONNX Runtime"
WARM_UP = 8
MEMORY_LIMIT = 700.0
Work = Callable[[Sequence[str]], float]
"""Judges files and gives the share of multiply-adds."""


@contextmanager
def timed(into: dict[str, Any]) -> Iterator[None]:
    """Wall and processor time, that of the decoding processes included."""
    wall, processor = time.perf_counter(), processor_seconds()
    yield
    into["wall"] = time.perf_counter() - wall
    into["processor"] = processor_seconds() - processor


def processor_seconds() -> float:
    ended = os.times()
    total = ended.user + ended.system + ended.children_user + ended.children_system
    for pid in shared_decoder().process_ids():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def moderating(bundle: Path, scheme: str, **options: Any) -> Work:
    moderator = Moderator.load(bundle, scheme=scheme, seed=1, prevalence=PREVALENCE, **options)

    def work(files: Sequence[str]) -> float:
        for verdict in moderator.moderate(list(files)):
            if verdict.status == "error":
                sys.exit(f"{verdict.path}: {verdict.reason}")
        return moderator.totals.meter.share

    return work


def decoding(bundle: Bundle) -> Work:
    """Only what the first stage needs, with nothing around it."""
    config = bundle.config

    def work(files: Sequence[str]) -> float:
        for file in files:
            with open_image(Path(file).read_bytes(), file) as image:
                scale = small_scale(image, config.input_size, config.resize_mode, config.small_shrink)
                scale = scale or draft_scale(image, config.input_size)
                if scale > 1:
                    image.draft("RGB", (image.width // scale, image.height // scale))
                image.load()
        return 0.0

    return work


def loop(bundle: Bundle) -> Work:
    """As in many a tutorial."""
    import onnxruntime  # type: ignore[import-untyped]

    files = (INDIVIDUAL_GRAPH,) if bundle.config.joined else (FRONT_GRAPH, INDIVIDUAL_GRAPH)
    graphs = [
        onnxruntime.InferenceSession(bundle.read(file), providers=["CPUExecutionProvider"]) for file in files
    ]
    size = (bundle.config.input_size, bundle.config.input_size)

    def work(files: Sequence[str]) -> float:
        for begin in range(0, len(files), 8):
            batch = np.stack(
                [
                    np.asarray(Image.open(file).convert("RGB").resize(size, Image.Resampling.BILINEAR))
                    for file in files[begin : begin + 8]
                ]
            )
            values = batch
            for graph in graphs:
                values = graph.run(None, {graph.get_inputs()[0].name: values})[0]
        return 1.0

    return work


class Samples:
    """What was measured, a line each in a file that outlives the run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def has(self, kind: str, way: str, number: int) -> bool:
        """Whether a way was measured in a round."""
        return any((row["kind"], row["way"], row["round"]) == (kind, way, number) for row in self.rows)

    def add(self, **row: Any) -> None:
        """Keep a measurement."""
        self.rows.append(row)
        with self._file.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def ratio(self, kind: str, way: str, base: str, of: str) -> float:
        """Median over the rounds that have both."""
        found = {(row["way"], row["round"]): row[of] for row in self.rows if row["kind"] == kind}
        ratios = [
            value / found[base, number]
            for (name, number), value in found.items()
            if name == way and (base, number) in found
        ]
        return float(np.median(ratios)) if ratios else float("nan")


def measure_speed(options: argparse.Namespace, samples: Samples) -> None:
    bundle = load_bundle(options.bundle)
    glances = {name for name, stages in SCHEMES.items() if any(stage.name == "glance" for stage in stages)}
    schemes = [name for name in SCHEMES if name not in glances or bundle.config.glance is not None]
    ways: dict[str, Callable[[], Work]] = {
        FLOOR: partial(decoding, bundle),
        LOOP: partial(loop, bundle),
        **{name: partial(moderating, options.bundle, name) for name in ("auto", *schemes)},
    }
    made: dict[str, Work] = {}
    for ending, megapixels in KINDS:
        if options.megapixels and megapixels not in options.megapixels:
            continue
        count = max(10, options.images // 4) if megapixels > 2 or ending != "jpeg" else options.images
        bad = max(1, round(PREVALENCE * count))
        photographs = enlarge(options.task, options.folder, megapixels, ending, bad=bad, clear=count - bad)
        for number in range(options.rounds):
            for way, make in ways.items():
                if samples.has(photographs.name, way, number):
                    continue
                if way not in made:
                    made[way] = make()
                    made[way](photographs.files)  # every graph is compiled by then
                work = made[way]
                work(photographs.files[:WARM_UP])
                row: dict[str, Any] = {"kind": photographs.name, "way": way, "round": number}
                with timed(row):
                    row["cost"] = work(photographs.files)
                samples.add(**row, images=count, kilobytes=photographs.kilobytes, load=os.getloadavg()[0])
        show_speed(samples, photographs.name)


def show_speed(samples: Samples, kind: str) -> None:
    rows = [row for row in samples.rows if row["kind"] == kind]
    print(
        f"\n{kind} megapixels: {rows[0]['images']} files of {rows[0]['kilobytes']:.0f} kB, "
        f"{1 + max(row['round'] for row in rows)} rounds, load {min(row['load'] for row in rows):.1f} to "
        f"{max(row['load'] for row in rows):.1f}; ratios of processor time (of time)"
    )
    print(f"{'':22} {'ms an image':>11} {'cost':>6} {'individual':>15} {'the floor':>15} {'the loop':>15}")
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way]
        spent = np.median([row["processor"] / row["images"] for row in own])
        ratios = [
            [samples.ratio(kind, way, base, of) for of in ("processor", "wall")]
            for base in ("individual", FLOOR, LOOP)
        ]
        cells = [f"{processor:.2f} ({wall:.2f})" for processor, wall in ratios]
        cost = np.median([row["cost"] for row in own])
        print(f"{way:22} {1e3 * spent:>11.2f} {cost:>6.3f} " + " ".join(f"{cell:>15}" for cell in cells))


def keep_speeds(options: argparse.Namespace, samples: Samples) -> None:
    """Ratios of processor time, and images a second by the clock."""
    bundle, rows = load_bundle(options.bundle), []
    for kind, way in dict.fromkeys((row["kind"], row["way"]) for row in samples.rows):
        own = [row for row in samples.rows if (row["kind"], row["way"]) == (kind, way)]
        ratios = {
            f"of_{name}": samples.ratio(kind, way, base, "processor")
            for name, base in (("individual", "individual"), ("floor", FLOOR), ("loop", LOOP))
        }
        rows.append(
            {
                "kind": kind.split("-")[0],
                "megapixels": float(kind.split("-")[1]),
                "way": way,
                "rounds": len(own),
                "images": own[0]["images"],
                "cost": float(np.median([row["cost"] for row in own])),
                "milliseconds": 1e3 * float(np.median([row["processor"] / row["images"] for row in own])),
                "images_per_second": float(np.median([row["images"] / row["wall"] for row in own])),
                **ratios,
            }
        )
    name = bundle.path.name
    command = f"python benchmarks/photographs.py {name} TASK.csv FOLDER --images {options.images}"
    write_result(f"photographs-{name}", command, rows, bundle=name, sha256=bundle.hash, notes=[])


def measure_detection(options: argparse.Namespace) -> None:
    sets = [package_photographs()]
    if options.natural is not None:
        sets.append(natural_photographs(options.natural))
    for megapixels in options.megapixels or (2.0, 12.0):
        count = options.images if megapixels <= 2 else options.images // 3
        few = {"bad": count // 2, "clear": count - count // 2}
        sets.append(enlarge(options.task, options.folder, megapixels, "jpeg", **few))
    bundle = load_bundle(options.bundle)
    engine = open_engine(bundle, "auto")
    print(f"\n{'files':>10} {'number':>7} {'individual: AUC':>18} {'off':>6} {'glance: AUC':>18} {'off':>6}")
    for photographs in sets:
        views = [_views(bundle, file) for file in photographs.files]
        full, whole, small = (np.stack([view[k] for view in views]) for k in range(3))
        cells, pairs = [], [(_individual(engine, full), _individual(engine, whole))]
        if bundle.config.glance is not None:
            pairs.append((_glances(engine, full), _glances(engine, small)))
        bad = np.array(photographs.bad)
        for before, after in pairs:
            areas = [f"{auc(scores, bad):.4f}" if bad.any() else "–" for scores in (after, before)]
            off = float(np.sqrt(np.mean((after - before) ** 2)))
            cells.append(f"{' for '.join(areas):>18} {off:>6.3f}")
        differ = [
            f"{name} {_differing(options.bundle, name, photographs)}" for name in ("individual", "auto")
        ]
        print(
            f"{photographs.name:>10} {len(bad):>7} {' '.join(cells)}  differ: {', '.join(differ)}", flush=True
        )


def _views(bundle: Bundle, file: str) -> tuple[NDArray[np.uint8], ...]:
    """By full decoding, for the networks, and for the glance."""
    config = bundle.config
    full = plain_view(read_image(file), config.input_size, config.resize_mode)
    return full, *read_both_views(file, config.input_size, config.resize_mode, config.small_shrink)


def _individual(engine: Any, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    joined = engine.bundle.config.joined
    parts = [
        engine.individual(part if joined else engine.front(part).features).logits
        for part in np.array_split(pixels, 16)
    ]
    logits = np.concatenate(parts)
    return np.asarray(logits[:, 1] - logits[:, 0])


def _glances(engine: Any, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    if not engine.bundle.config.joined:
        return np.asarray(engine.glance(pixels))
    parts = [engine.glance(engine.front(part).features) for part in np.array_split(pixels, 16)]
    return np.concatenate(parts)


def _differing(bundle: Path, scheme: str, photographs: Photographs) -> int:
    """Verdicts that are others than by full decoding."""
    moderator = Moderator.load(bundle, scheme=scheme, seed=1)
    decoded = (read_image(file) for file in photographs.files)  # one after the other: they are large
    statuses = [
        [verdict.status for verdict in moderator.moderate(source)] for source in (photographs.files, decoded)
    ]
    return sum(one != other for one, other in zip(*statuses, strict=True))


def measure_threads(options: argparse.Namespace) -> None:
    bad = max(1, round(PREVALENCE * options.images))
    photographs = enlarge(options.task, options.folder, 2.0, "jpeg", bad=bad, clear=options.images - bad)
    processors = os.cpu_count() or 1
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    settings = [(r, e) for r in (1, processors, 2 * processors) for e in sorted({1, processors})]
    bundle = load_bundle(options.bundle)
    scheme, prevalence = choose_scheme(bundle, "auto", None, None, {"prevalence": PREVALENCE})
    engines = {threads: open_engine(bundle, "auto", threads=threads) for _, threads in settings}
    moderators = {
        (reading, threads): Moderator(
            bundle, engines[threads], scheme, prevalence=prevalence, seed=1, reading_threads=reading
        )
        for reading, threads in settings
    }
    for number in range(options.rounds + 1):
        for setting, moderator in moderators.items():
            row: dict[str, Any] = {}
            with timed(row):
                list(moderator.moderate(list(photographs.files)))
            if number:
                found.setdefault(setting, []).append(row)
    base = found[processors, processors]
    print(
        f"\nauto, {photographs.name} megapixels, {processors} processors; ratios to as many threads of each"
    )
    print(f"{'reading':>8} {'engine':>7} {'time':>6} {'processor time':>15}")
    for (reading, engine), rows in found.items():
        ratios = [
            np.median([row[of] / other[of] for row, other in zip(rows, base, strict=True)])
            for of in ("wall", "processor")
        ]
        print(f"{reading:>8} {engine:>7} {ratios[0]:>6.2f} {ratios[1]:>15.2f}", flush=True)


def measure_memory(options: argparse.Namespace) -> None:
    photographs = enlarge(options.task, options.folder, 12.0, "jpeg", bad=1, clear=19)
    links = options.folder / f"links-{options.images}"
    if not links.exists():
        link_files(photographs.files, links, options.images)
    command = [sys.executable, "-m", "poolsieve", "moderate", str(links), "--bundle", str(options.bundle)]
    out = options.folder / "verdicts.jsonl"
    most = 0.0
    with subprocess.Popen([*command, "--out", str(out), "--force"], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(_proportional_megabytes(pid) for pid in _family(process.pid)))
            time.sleep(0.1)
    kept = "kept" if most < MEMORY_LIMIT else "BROKEN"
    print(
        f"\n{options.images} photographs of 12 megapixels: at most {most:.0f} MB with the decoding processes "
        f"({MEMORY_LIMIT:.0f} MB {kept}), exit status {process.returncode}"
    )


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [Path(task, "children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    every = {int(child) for found in (children, *threads) for child in found}
    return [pid, *(one for child in every for one in _family(child))]


def _proportional_megabytes(pid: int) -> float:
    """What a process holds, of what it shares with others its part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path, help="folder or name of a bundle")
    parser.add_argument("task", type=Path, help="CSV with the columns file, label and split")
    parser.add_argument("folder", type=Path, help="where photographs and measurements are kept")
    parser.add_argument("--part", choices=("speed", "detection", "threads", "memory"), default="speed")
    parser.add_argument("--images", type=int, default=200, help="files of each kind; fewer of the largest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megapixels", type=float, action="append", help="only these; may be repeated")
    parser.add_argument("--natural", type=Path, help="detection: folder with firearm/ and ordinary/")
    parser.add_argument("--table", action="store_true", help="speed: show what was measured, and no more")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    if options.part == "speed":
        samples = Samples(options.folder / "speed.jsonl")
        if options.table:
            for kind in dict.fromkeys(row["kind"] for row in samples.rows):
                show_speed(samples, kind)
        else:
            measure_speed(options, samples)
        keep_speeds(options, samples)
    else:
        parts = {"detection": measure_detection, "threads": measure_threads, "memory": measure_memory}
        parts[options.part](options)


if __name__ == "__main__":
    main()
