"""Which images are judged together, and when: the queue of the service, without threads or a clock.

Every policy has a line of images. A line whose scheme does not pool is dispatched whenever the judge is idle.
One with pools waits until its *knee* is reached, the smallest chunk that costs hardly more than a full one,
or until the earliest deadline less the predicted run time. What is missing to a full chunk is taken from bulk
jobs.

Keys share a chunk evenly, and which of a key's images go into it is drawn at random, so that whoever sends
many images can choose neither who waits nor who shares pools with whom. What cannot be judged in time, or has
no room, is refused before it is read.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from poolsieve.serving.run_times import RunTimes

Image = TypeVar("Image")
Reason = Literal["idle", "knee", "deadline", "bulk", "draining"]
SLACK = 0.05
"""Seconds between a verdict and its deadline, for storing and answering."""
LONGEST_WAIT = 0.9
"""Share of the time to its deadline that an image waits for company at the most."""
PATIENCE = 0.1
"""A chunk at the knee waits for images that are being read for this share of a full chunk's run time at the
most: what is left over would have to wait for its deadline."""
SHARE_OF_FREE_ROOM = 2
"""A key may hold this many times the room that is still free: two thirds of it if it is alone. There is
always room for another key (dynamic thresholds, Choudhury and Hahne 1998)."""
STALE_SECONDS = 10.0
"""Predictions older than this refuse nobody while the judge is idle: the next chunk shows what is true."""


@dataclass(frozen=True, eq=False)
class Waiting(Generic[Image]):
    """An image that waits for its chunk.

    Attributes:
        image: What is judged.
        key: Whose it is.
        deadline: When the answer is due; infinite for images of bulk jobs.
        since: When it came.
    """

    image: Image
    key: str
    deadline: float
    since: float


@dataclass(frozen=True)
class Refusal:
    """Why images are not taken.

    Attributes:
        reason: No room is left, or the deadline cannot be met.
        retry_after: Seconds after which it is worth another try.
    """

    reason: Literal["full", "deadline"]
    retry_after: int


@dataclass(frozen=True)
class Dispatch(Generic[Image]):
    """A chunk that is to be judged now.

    Attributes:
        policy: By whose scheme.
        images: The chunk; may be empty if all that waited had become too late.
        reason: What set it off.
        expired: Images whose deadline has passed; they are not judged.
    """

    policy: str
    images: tuple[Waiting[Image], ...]
    reason: Reason
    expired: tuple[Waiting[Image], ...] = ()


@dataclass
class Pile(Generic[Image]):
    """Images by key, of which a fair and random choice is drawn."""

    by_key: dict[str, list[Waiting[Image]]] = field(default_factory=dict)
    size: int = 0

    def add(self, waiting: Waiting[Image]) -> None:
        """Add one image."""
        self.by_key.setdefault(waiting.key, []).append(waiting)
        self.size += 1

    def __iter__(self) -> Iterator[Waiting[Image]]:
        return (one for images in self.by_key.values() for one in images)

    def remove(self, unwanted: Callable[[Waiting[Image]], bool]) -> list[Waiting[Image]]:
        """Take out all images of a kind."""
        gone = [one for one in self if unwanted(one)]
        if gone:
            kept = {key: [one for one in images if not unwanted(one)] for key, images in self.by_key.items()}
            self.by_key = {key: images for key, images in kept.items() if images}
            self.size -= len(gone)
        return gone

    def draw(self, count: int, urgent: float, rng: random.Random) -> list[Waiting[Image]]:
        """Take out so many images: as evenly from all keys as they have them, and at random within a key.

        Args:
            count: How many; fewer if there are no more.
            urgent: Of one key, images with deadlines up to this are drawn first, earliest first.
            rng: Draws.
        """
        drawn: list[Waiting[Image]] = []
        for key, share in fair_shares({k: len(v) for k, v in self.by_key.items()}, count, rng).items():
            images = self.by_key[key]
            rng.shuffle(images)
            images.sort(key=lambda one: one.deadline if one.deadline <= urgent else math.inf)
            drawn += images[:share]
            del images[:share]
            if not images:
                del self.by_key[key]
        self.size -= len(drawn)
        return drawn


def fair_shares(held: Mapping[str, int], count: int, rng: random.Random) -> dict[str, int]:
    """Split a number over keys so that none gets more than it holds, and the least gets as much as can be."""
    shares: dict[str, int] = {}
    keys = sorted(held, key=lambda key: (held[key], rng.random()))
    for place, key in enumerate(keys):
        even, over = divmod(count, len(keys) - place)
        # What does not divide evenly goes to those who are last, which are those with most, in random order.
        shares[key] = min(held[key], even + (over > 0 and rng.random() < over / (len(keys) - place)))
        count -= shares[key]
    return {key: share for key, share in shares.items() if share}


@dataclass
class Line(Generic[Image]):
    """What waits for one policy.

    Attributes:
        full: Images of a full chunk.
        knee: Images from which on a chunk costs hardly more than a full one; 1 without pools.
        times: Predicts how long chunks take.
        waiting: Images with deadlines.
        bulk: Images of jobs.
        hurry: Whether bulk images need not wait for others, as no more come.
        knee_at: When the knee was reached; None if it is not.
    """

    full: int
    knee: int
    times: RunTimes
    waiting: Pile[Image] = field(default_factory=Pile)
    bulk: Pile[Image] = field(default_factory=Pile)
    hurry: bool = False
    knee_at: float | None = None

    def due(self) -> float:
        """When the images that wait must be dispatched at the latest."""
        run = self.times.seconds(min(self.waiting.size, self.full)) + SLACK
        return min(
            (
                min(one.deadline - run, one.since + LONGEST_WAIT * (one.deadline - one.since))
                for one in self.waiting
            ),
            default=math.inf,
        )

    def patient_until(self) -> float:
        """Until when a chunk at the knee waits for images that are being read."""
        if self.knee_at is None:
            return math.inf
        return min(self.knee_at + PATIENCE * self.times.seconds(self.full), self.due())

    def seconds(self, images: int, *, sure: bool = True) -> float:
        """Seconds to judge so many images in full chunks and a rest, with a margin to be sure."""
        whole, rest = divmod(images, self.full)
        mean = whole * self.times.mean(self.full) + self.times.mean(rest)
        return mean + self.times.margin(math.ceil(images / self.full)) if sure else mean


class Batcher(Generic[Image]):
    """All lines of one judge.

    It is not for several threads at once, and all times are given.

    Args:
        lines: By policy.
        room: Images that may be held for requests, waiting or still being read.
        rng: Draws whose images go into which chunk; a secret one in earnest.

    Attributes:
        lines: By policy.
        held: Images of requests that were admitted and not answered yet, by key.
        coming: Those of them whose bytes are not there yet: they take room, and delay nobody.
        busy_until: When the judge is expected to have finished its present chunk.
        being_read: Images that are about to wait.
        draining: Whether nothing new is taken, and nothing waits for company.
    """

    def __init__(self, lines: Mapping[str, Line[Image]], room: int, rng: random.Random) -> None:
        self.lines, self.room, self._rng = dict(lines), room, rng
        self.held: Counter[str] = Counter()
        self.coming: Counter[str] = Counter()
        self.busy_until = -math.inf
        self.being_read = 0
        self._judged: tuple[str, Counter[str]] = ("", Counter())  # what is being judged, by key
        self.draining = False

    @property
    def total(self) -> int:
        """Images of requests that were admitted and not answered yet."""
        return self.held.total()

    def refusal(
        self, key: str, images: int, deadline: float, now: float, reading: float = 0.0
    ) -> Refusal | None:
        """Why images that a request brings would not be taken; None if there is room and time.

        Args:
            key: Whose they are.
            images: How many, as far as is known.
            deadline: When the answer is due.
            now: The time.
            reading: Seconds until all that came before is read and decoded.
        """
        free = self.room - self.total
        if images > free or self.held[key] + images > max(SHARE_OF_FREE_ROOM * free, images):
            return Refusal("full", self._retry_after(now))
        idle = self.total == self.coming.total() and now >= self.busy_until
        stale = all(now - line.times.known_at > STALE_SECONDS for line in self.lines.values())
        # Whoever is alone delays nobody: no margin is kept for others, and an old prediction is tried again.
        finish = now + reading + self._seconds_ahead(key, images, now, sure=not idle) + SLACK
        if finish > deadline and not (stale and idle):
            return Refusal("deadline", self._retry_after(now))
        return None

    def admit(self, key: str, images: int, *, coming: bool = False) -> None:
        """Hold room for images that `refusal` did not refuse, until `release`."""
        self.held[key] += images
        if coming:
            self.coming[key] += images

    def release(self, key: str, images: int, *, coming: bool = False) -> None:
        """Give room back, when images are answered or, `coming`, are there or will not come."""
        for counter in (self.held, self.coming) if coming else (self.held,):
            counter[key] -= images
            if counter[key] <= 0:
                del counter[key]

    def _seconds_ahead(self, key: str, images: int, now: float, *, sure: bool) -> float:
        """Until images that come now are judged, if no others come; keys take turns."""
        seconds, there = max(0.0, self.busy_until - now), self.held - self.coming
        for policy, line in self.lines.items():
            held = there - self._judged[1] if policy == self._judged[0] else there
            mine = held[key] + images
            ahead = sum(min(count, mine) for other, count in held.items() if other != key) + mine
            seconds += line.seconds(ahead, sure=sure)
        return seconds

    def _retry_after(self, now: float) -> int:
        work = sum(line.seconds(self.total) for line in self.lines.values())
        return max(1, math.ceil(max(0.0, self.busy_until - now) + work))

    def put(self, policy: str, waiting: Waiting[Image]) -> None:
        """An admitted image has been read, and waits for its chunk."""
        self.lines[policy].waiting.add(waiting)

    def put_bulk(self, policy: str, waiting: Waiting[Image]) -> None:
        """An image of a job waits for room in a chunk."""
        self.lines[policy].bulk.add(waiting)

    def discard(self, unwanted: Callable[[Waiting[Image]], bool]) -> list[Waiting[Image]]:
        """Take out images that nobody waits for any more."""
        piles = [pile for line in self.lines.values() for pile in (line.waiting, line.bulk)]
        return [one for pile in piles for one in pile.remove(unwanted)]

    def next_chunk(self, now: float) -> Dispatch[Image] | None:
        """The chunk that an idle judge is to take now; None to wait, at the longest until `look_again`."""
        found = [
            (line.due(), policy, reason)
            for policy, line in self.lines.items()
            if (reason := self._ready(line, now))
        ]
        if not found:
            return None
        _, policy, reason = min(found)
        line = self.lines[policy]
        expired = tuple(line.waiting.remove(lambda one: one.deadline <= now))
        line.knee_at = None
        images = line.waiting.draw(line.full, now + 2 * line.times.seconds(line.full), self._rng)
        earliest = min([one.deadline for one in images] + [other.due() for other in self.lines.values()])
        # Bulk images must make nobody late.
        room = (
            line.times.most_images(earliest - SLACK - now, line.full)
            if math.isfinite(earliest)
            else line.full
        )
        images += line.bulk.draw(max(0, room - len(images)), -math.inf, self._rng)
        self._rng.shuffle(images)
        return Dispatch(policy, tuple(images), reason, expired)

    def begin(self, dispatch: Dispatch[Image], now: float) -> None:
        """The judge begins with a chunk."""
        self.busy_until = now + self.lines[dispatch.policy].times.seconds(len(dispatch.images))
        keys = (one.key for one in dispatch.images if math.isfinite(one.deadline))
        self._judged = (dispatch.policy, Counter(keys))

    def finish(self) -> None:
        """The judge is done with its chunk."""
        self.busy_until, self._judged = -math.inf, ("", Counter())

    def _ready(self, line: Line[Image], now: float) -> Reason | None:
        count = line.waiting.size
        if count and self.draining:
            return "draining"
        if count and line.knee == 1:
            return "idle"
        if count < line.knee:
            line.knee_at = None
        elif line.knee_at is None:
            line.knee_at = now
        if count >= line.full or (
            count >= line.knee and (not self.being_read or now >= line.patient_until())
        ):
            return "knee"
        if count and now >= line.due():
            return "deadline"
        bulk = line.bulk.size
        if bulk and (count + bulk >= line.knee or line.hurry or self.draining):
            first = min(other.due() for other in self.lines.values())
            if not math.isfinite(first) or line.times.most_images(first - now, line.full) > count:
                return "bulk"
        return None

    def look_again(self) -> float:
        """When `next_chunk` may have something although nothing came."""
        times = [min(line.due(), line.patient_until()) for line in self.lines.values()]
        return min(times, default=math.inf)
