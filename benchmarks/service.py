"""The service beside the library, and under load: ratios of one run on one machine.

    python benchmarks/service.py TABLE [--bundle firearms] [--parts throughput,load,…]

TABLE has the columns `file`, `label` and `split`; its test images are sent as they are, 1% of them bad. The
service runs as a process of its own on a free port of this machine, with SQLite in a temporary folder;
clients share the processors with it. A part takes less than eight minutes and can be run alone: its figures
take the place of its former ones in benchmarks/results/service.json, unless others kept the processors busy.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import hashlib
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from result_files import RESULTS, read_result, write_result

import poolsieve
from poolsieve.moderation import Moderator

RESULT = "service"
CROWDS = (64, 128, 256)
"""Clients that never let the service wait, of whom the best served show what it can do."""
KILLS = 20
JOB_ROUNDS = 4
"""A job has every image so many times, so that it does not end before the kills do."""
WARM_UP = 5.0
MOST_TAKEN = 0.1
"""Share of the processors that others may have taken for a ratio to be kept."""
PAUSE = 2.0
"""Seconds between measurements, in which what is left of the one before is done."""


@dataclass
class Answers:
    """What clients saw.

    Attributes:
        statuses: By status of HTTP.
        seconds: Of requests that were answered with verdicts.
        worst: Longest time of any request less its deadline.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    worst: float = -1e9

    def add(self, status: int, seconds: float, deadline: float) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        self.worst = max(self.worst, seconds - deadline)
        if status == 200:
            self.seconds.append(seconds)

    def quantile(self, share: float) -> float:
        """Time within which a share of all requests got verdicts; infinite if so many got none."""
        ordered = sorted(self.seconds) + [math.inf] * (self.statuses.total() - len(self.seconds))
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def within(self, deadline: float) -> float:
        """Share of all requests that got verdicts in time."""
        return sum(one <= deadline for one in self.seconds) / max(1, self.statuses.total())

    def merge(self, other: Answers) -> None:
        """Count those of another round too."""
        self.statuses += other.statuses
        self.seconds += other.seconds
        self.worst = max(self.worst, other.worst)

    def counts(self) -> dict[str, int]:
        """Requests by how they were answered."""
        known = {f"answers_{status}": self.statuses[status] for status in (200, 429, 503)}
        return {**known, "answers_other": self.statuses.total() - sum(known.values())}


class Process:
    """`poolsieve serve` as a process."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, port: int = 0) -> None:
        command = [sys.executable, "-m", "poolsieve", "serve", "--port", str(port), "--data", str(folder)]
        command += ["--bundle", arguments.bundle, "--scheme", arguments.scheme]
        command += ["--prefix", str(arguments.folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", first)
        assert found, f"the service did not start: {first}"
        self.port = int(found[1])
        key = folder / "benchmark-key"
        if not key.exists():
            for line in self._process.stdout:
                if "API key" in line:
                    key.write_text(line.rpartition(" ")[2].strip())
                    break
        self.key = key.read_text()

    @property
    def megabytes(self) -> float:
        """Memory of the process, and what those that decode for it have for themselves."""
        own = _kilobytes(self._process.pid, "Rss")
        tasks = Path(f"/proc/{self._process.pid}/task")
        for place in tasks.glob("*/children"):
            own += sum(_kilobytes(pid, "Private_Clean", "Private_Dirty") for pid in _read(place).split())
        return own / 1024

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request; the body of its answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
        head += "Content-Type: application/json\r\n"
        return asyncio.run(ask(self.port, head.encode(), body))[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end; the exit status."""
        self._process.send_signal(number)
        status = self._process.wait(120)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status


def _read(place: str | Path) -> str:
    """What the system tells of a process; nothing if it has ended."""
    try:
        return Path(place).read_text()
    except OSError:
        return ""


def _kilobytes(pid: int | str, *names: str) -> int:
    """Sum of some lines of what the system tells of a process's memory."""
    lines = [line.split() for line in _read(f"/proc/{pid}/smaps_rollup").splitlines()]
    return sum(int(line[1]) for line in lines if line[0].rstrip(":") in names)


@contextmanager
def service(folder: Path, arguments: argparse.Namespace) -> Iterator[Process]:
    running = Process(folder, arguments)
    try:
        yield running
    finally:
        status = running.stop()
        if status != 0:
            print(f"  the service ended with status {status}")


async def ask(port: int, head: bytes, body: bytes) -> tuple[int, bytes]:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(head + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await reader.read(-1)
    finally:
        writer.close()
    status, _, content = answer.partition(b"\r\n\r\n")
    return int(status.split(b" ", 2)[1]) if status else 0, content


class Clients:
    """Clients of one service.

    Args:
        running: The service.
        images: Bytes of images.
        deadline: Seconds that they allow.

    Attributes:
        behind: Seconds by which they were late themselves to send a request, at the worst: they share the
            processors with the service.
    """

    def __init__(self, running: Process, images: list[bytes], deadline: float) -> None:
        self._port, self._images, self.deadline = running.port, images, deadline
        self.behind = 0.0
        self.head = (
            f"POST /v1/moderate?deadline_ms={1000 * deadline:g} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {running.key}\r\n"
        ).encode()

    async def one(self, number: int, answers: Answers, count: int = 1) -> None:
        """One request of one or several images."""
        some = [self._images[(number * count + k) % len(self._images)] for k in range(count)]
        head, body = self.head, some[0]
        if count > 1:
            parts = [
                b'--mark\r\nContent-Disposition: form-data; name="image"; filename="x.jpg"\r\n\r\n'
                + one
                + b"\r\n"
                for one in some
            ]
            head, body = (
                head + b"Content-Type: multipart/form-data; boundary=mark\r\n",
                b"".join(parts) + b"--mark--\r\n",
            )
        begin = time.perf_counter()
        try:
            status, _ = await ask(self._port, head, body)
        except OSError:
            status = -1
        answers.add(status, time.perf_counter() - begin, self.deadline)

    async def closed_loop(self, clients: int, seconds: float, count: int) -> Answers:
        """So many clients that each send the next request when they are answered.

        What counts is answered within so many seconds after a warm-up, amid a crowd that stays as it is; at
        the end all wait for their answers, so that nothing of them is left in the service.
        """
        counted, numbers = Answers(), itertools.count()
        loop = asyncio.get_running_loop()
        begin = loop.time() + WARM_UP

        async def work() -> None:
            while loop.time() < begin + seconds:
                answers = Answers()
                await self.one(next(numbers), answers, count)
                if begin <= loop.time() < begin + seconds:
                    counted.merge(answers)

        await asyncio.gather(*(work() for _ in range(clients)))
        return counted

    async def open_loop(self, rate: float, seconds: float, seed: int = 0) -> Answers:
        """Requests of one image that come at random, whatever becomes of those before."""
        answers, rng = Answers(), random.Random(seed)
        loop, tasks = asyncio.get_running_loop(), set()
        at = begin = loop.time()
        number = 0
        while at < begin + seconds:
            at += rng.expovariate(rate)
            await asyncio.sleep(max(0.0, at - loop.time()))
            self.behind = max(self.behind, loop.time() - at)
            tasks.add(asyncio.create_task(self.one(number, answers)))
            number += 1
        await asyncio.gather(*tasks)
        return answers


def metric(running: Process, name: str) -> float:
    """The sum of a metric over its labels."""
    told = running.ask("GET", "/metrics").decode().splitlines()
    lines = [line for line in told if line.startswith((name + "{", name + " "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def read_images(table: Path, most: int) -> list[Path]:
    with table.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row.get("split", "test") == "test"]
    bad = [row for row in rows if row["label"] == "1"]
    good = [row for row in rows if row["label"] != "1"]
    random.Random(0).shuffle(good)
    kept = [*bad[: max(1, most // 100)], *good[: most - max(1, most // 100)]]
    random.Random(1).shuffle(kept)
    return [(table.parent / row["file"]).resolve() for row in kept]


def throughput(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Images in a second of library and service, and their cost; the library before the service and after."""
    moderator = Moderator.load(arguments.bundle, scheme=arguments.scheme)
    list(moderator.moderate(images[:200]))

    def library() -> float:
        begin = time.perf_counter()
        list(moderator.moderate(images))
        return len(images) / (time.perf_counter() - begin)

    speeds = [library()]
    share = moderator.totals.meter.share
    with service(folder / "throughput", arguments) as running:
        clients = Clients(running, images, 60.0)
        answers = asyncio.run(clients.closed_loop(32, 30.0, 8))
        served = 8 * answers.statuses[200] / 30.0
        tests = metric(running, "poolsieve_individual_tests_total")
        judged = metric(running, "poolsieve_images_judged_total")
    speeds.append(library())
    return {
        **answers.counts(),
        "library_images_per_second": statistics.mean(speeds),
        "service_images_per_second": served,
        "library_cost_share": share,
        "service_cost_share": tests / judged,
        "throughput_ratio": served / statistics.mean(speeds),
        "cost_ratio": tests / judged / share,
    }


def capacity(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> float:
    """Requests of one image in a second that a service answers which clients never let wait.

    It is one of its own: what it leaves behind in memory would hide what normal load takes.
    """
    found = []
    with service(folder / "capacity", arguments) as running:
        clients = Clients(running, images, 30.0)
        for crowd in CROWDS:
            found.append(asyncio.run(clients.closed_loop(crowd, 12.0, 1)).statuses[200] / 12.0)
    print("  capacity by clients:", dict(zip(CROWDS, found, strict=True)), flush=True)
    return max(found)


def load(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Deadlines at 70% of what the service can do."""
    most = capacity(images, arguments, folder)
    with service(folder / "load", arguments) as running:
        answers = asyncio.run(Clients(running, images, arguments.deadline).open_loop(0.7 * most, 50.0))
    return {
        "capacity": most,
        **answers.counts(),
        "share_in_time": answers.within(arguments.deadline),
        "median_seconds": statistics.median(answers.seconds),
        "p99_seconds": answers.quantile(0.99),
    }


async def watched(running: Process, asked: Coroutine[Any, Any, Answers]) -> tuple[Answers, float]:
    """Answers, and the most memory meanwhile."""
    task, peak = asyncio.create_task(asked), 0.0
    while not task.done():
        peak = max(peak, running.megabytes)
        await asyncio.sleep(0.25)
    return await task, peak


def overload(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Three times what it can do, and afterwards; memory is compared by its peaks over the same time."""
    most = capacity(images, arguments, folder)
    with service(folder / "overload", arguments) as running:
        clients = Clients(running, images, arguments.deadline)
        _, normal = asyncio.run(watched(running, clients.open_loop(0.7 * most, 30.0)))
        answers, peak = asyncio.run(watched(running, clients.open_loop(3 * most, 30.0)))
        behind = clients.behind
        time.sleep(PAUSE)
        after = asyncio.run(clients.open_loop(0.5 * most, 15.0))
    return {
        "capacity": most,
        **answers.counts(),
        "share_of_capacity_answered": answers.statuses[200] / 30 / most,
        "latest_seconds_after_deadline": answers.worst,
        "clients_behind_seconds": behind,
        "normal_megabytes": normal,
        "overload_megabytes": peak,
        "memory_ratio": peak / normal,
        "share_in_time_afterwards": after.within(arguments.deadline),
    }


class SlowClients:
    """Clients that are silent or send a byte now and then, and come again when they are dropped.

    Attributes:
        dropped: Seconds after which each was dropped.
    """

    def __init__(self, port: int, head: bytes) -> None:
        self._port, self.dropped = port, list[float]()
        self._openings = [b"", b"POST /v1/mod", b"POST /v1/moderate HTTP/1.1\r\nHost: x\r\n"]
        self._openings.append(head + b"Content-Length: 100000\r\n\r\nabc")

    async def one(self, number: int) -> None:
        """One of them, until it is cancelled."""
        while True:
            with suppress(OSError):
                await self._connect(number)
            await asyncio.sleep(1.0)

    async def _connect(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        begin = time.perf_counter()
        try:
            writer.write(self._openings[number % 4])
            while True:
                with suppress(TimeoutError):
                    if await asyncio.wait_for(reader.read(1 << 16), 0.5) == b"":
                        return
                if number % 4:
                    writer.write(b"x")
        finally:
            if reader.at_eof() or reader.exception():
                self.dropped.append(time.perf_counter() - begin)
            writer.close()


def slow(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """p99 of others while 500 clients are slow or silent, beside what it is before and afterwards.

    One scheme without pools: with pools most of the time is waiting for others, which would flatter.
    """
    most = capacity(images, arguments, folder)
    with service(folder / "slow", arguments) as running:
        clients = Clients(running, images, arguments.deadline)
        crowd = SlowClients(running.port, clients.head)

        async def run(slow_ones: int, seed: int) -> Answers:
            tasks = [asyncio.create_task(crowd.one(number)) for number in range(slow_ones)]
            await asyncio.sleep(PAUSE)
            answers = await clients.open_loop(0.3 * most, 40.0, seed)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return answers

        asyncio.run(clients.open_loop(0.3 * most, 5.0))
        rounds = [asyncio.run(run(slow_ones, seed)) for seed, slow_ones in enumerate((0, 500, 0, 500, 0))]
    alone, beside = Answers(), Answers()
    for number, answers in enumerate(rounds):
        (beside if number % 2 else alone).merge(answers)
    return {
        "capacity": most,
        **beside.counts(),
        "p99_seconds_alone": alone.quantile(0.99),
        "p99_seconds_beside": beside.quantile(0.99),
        "p99_ratio": beside.quantile(0.99) / alone.quantile(0.99),
        "dropped": len(crowd.dropped),
        "last_dropped_after_seconds": max(crowd.dropped, default=0.0),
    }


def kills(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A job whose process is killed at random points, again and again."""
    files = [str(file) for file in arguments.files] * JOB_ROUNDS
    rng, home, total, port, job = random.Random(0), folder / "kills", len(files), 0, ""
    killed_at = []
    for number in range(KILLS + 1):
        running = Process(home, arguments, port=port)
        port = running.port  # whoever comes back at the same address goes on at once
        try:
            if not job:
                body = json.dumps({"paths": files}).encode()
                job = json.loads(running.ask("POST", "/v1/jobs", body))["id"]

            def state(running: Process = running, job: str = job) -> dict[str, Any]:
                return dict(json.loads(running.ask("GET", f"/v1/jobs/{job}")))

            if number == KILLS:
                while state()["state"] == "running":
                    time.sleep(0.1)
                last, found = state(), job_positions(running, job)
                break
            done = state()["done"]
            wanted = min(total, done + rng.randrange((total - done) // (KILLS - number) + 1))
            while state()["done"] < wanted:
                time.sleep(0.01)
            time.sleep(rng.random())  # of about the time that a chunk takes
            killed_at.append(state()["done"])
        finally:
            running.stop(signal.SIGKILL)
    return {
        "kills": KILLS,
        "kills_before_the_end": sum(done < total for done in killed_at),
        "state": last["state"],
        "verdicts": len(found),
        "lost": total - len(set(found)),
        "twice": len(found) - len(set(found)),
    }


def job_positions(running: Process, job: str) -> list[int]:
    """Positions of all verdicts of a job, page by page."""
    found: list[int] = []
    while True:
        after = found[-1] if found else -1
        lines = running.ask("GET", f"/v1/jobs/{job}/verdicts?after={after}").decode().splitlines()
        if not lines:
            return found
        found += [json.loads(line)["position"] for line in lines]


PARTS = {
    "throughput": (throughput, "adaptive"),
    "load": (load, "adaptive"),
    "overload": (overload, "adaptive"),
    "slow": (slow, "individual"),
    "kills": (kills, "adaptive"),
}
"""Each part with the scheme that it is measured with."""


def keep(part: str, arguments: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Put the figures of a part in the place of its former ones."""
    known = read_result(RESULT)["rows"] if (RESULTS / f"{RESULT}.json").exists() else []
    row = {
        "part": part,
        "scheme": arguments.scheme,
        "code": arguments.code,
        "deadline_seconds": arguments.deadline,
        "images": arguments.images,
        "processors": os.cpu_count(),
        **{name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()},
    }
    rows = {old["part"]: old for old in known} | {part: row}
    command = f"python benchmarks/service.py TABLE --bundle {arguments.bundle}"
    write_result(RESULT, command, [rows[name] for name in PARTS if name in rows], bundle=arguments.bundle)


class Processors:
    """How busy others keep the processors meanwhile: figures from a machine that is shared say little.

    A virtual machine may also stand still as a whole, which a thread that sleeps finds out.

    Attributes:
        stood_still: Seconds of the longest halt.
    """

    def __init__(self) -> None:
        self._begin, self._busy, self._own = time.monotonic(), self._all(), self._ours()
        self.stood_still, self._watching = 0.0, True
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        before = time.monotonic()
        while self._watching:
            time.sleep(0.02)
            now = time.monotonic()
            self.stood_still, before = max(self.stood_still, now - before - 0.02), now

    def stop(self) -> None:
        """Look no longer."""
        self._watching = False

    @staticmethod
    def _all() -> float:
        user, nice, system, _, _, irq, softirq = map(int, _read("/proc/stat").split(maxsplit=8)[1:8])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _ours() -> float:
        return sum(os.times()[:4])  # those of services that have ended too

    def taken_by_others(self) -> float:
        """Share of all processors since it was made."""
        seconds = (self._all() - self._busy) - (self._ours() - self._own)
        return seconds / (time.monotonic() - self._begin) / (os.cpu_count() or 1)


def code_hash() -> str:
    """Of all that is measured: figures of one file are of one state of the code."""
    digest = hashlib.sha256()
    package = Path(poolsieve.__file__).parent
    for file in sorted([*package.rglob("*.py"), Path(__file__)]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--bundle", default="firearms")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--deadline", type=float, default=2.0)
    arguments = parser.parse_args()
    arguments.files = read_images(arguments.table, arguments.images)
    arguments.folder = Path(os.path.commonpath(arguments.files))
    images = [file.read_bytes() for file in arguments.files]
    arguments.code = code_hash()
    for part in arguments.parts.split(","):
        measure, arguments.scheme = PARTS[part]
        print(f"{part}: {len(images)} images, {os.cpu_count()} processors, {arguments.scheme}", flush=True)
        with tempfile.TemporaryDirectory(prefix="poolsieve-service-") as folder:
            processors = Processors()
            figures = measure(images, arguments, Path(folder))
            processors.stop()
            taken = figures["processors_taken_by_others"] = processors.taken_by_others()
            figures["longest_halt_seconds"] = processors.stood_still
            print(json.dumps(figures, indent=1), flush=True)
            if part != "kills" and taken > MOST_TAKEN:  # lost images are lost on a busy machine too
                print(f"not kept: others took {taken:.0%} of the processors; repeat it on a quiet machine")
            else:
                keep(part, arguments, figures)


if __name__ == "__main__":
    main()
