"""Bulk jobs: their images fill up chunks, and a job goes on where it was when the process was killed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve.images.reading import UnreadableImage
from poolsieve.images.sources import Item
from poolsieve.moderation import PreparedImage
from poolsieve.serving.judging import Judge, Pending, PolicyOutcome
from poolsieve.serving.manifests import archive_items
from poolsieve.serving.places import Prefixes, ServedFile
from poolsieve.store import Job, JobItem, Store

if TYPE_CHECKING:
    from poolsieve.serving.service import Options

_LOG = logging.getLogger(__name__)
LEASE_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_PAGE = 500
_FULL_CHUNKS_AHEAD = 2


class _Feed:
    """The images of one job that are on their way."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.ended = False
        self.under_way = 0
        self.recorded = 0
        self.problem: str | None = None

    def finish(self, image: Pending, policy: str, outcome: PolicyOutcome) -> None:
        with self.changed:
            self.under_way -= 1
            if outcome.retry:
                self.problem = outcome.reason
            else:
                self.recorded += 1
            self.changed.notify_all()


class JobRunner:
    """Feeds jobs to the judge, a few at a time.

    Args:
        judge: Judges and records.
        store: Knows the jobs.
        options: Where uploads are, and how many jobs run at once.
        prefixes: Where files of manifests may be.
        holder: Name of this process.
    """

    def __init__(
        self, judge: Judge, store: Store, options: Options, prefixes: Prefixes, *, holder: str
    ) -> None:
        self._judge, self._store, self._prefixes, self._holder = judge, store, prefixes, holder
        self._max_bytes = options.limits.image_bytes
        self._stopping = threading.Event()
        self._wake = threading.Condition()
        self._readers = ThreadPoolExecutor(max(1, options.limits.threads), thread_name_prefix="job-reading")
        self._slots = [
            threading.Thread(target=self._work, args=(f"{holder}/{slot}",), name=f"job-{slot}", daemon=True)
            for slot in range(options.job_slots)
        ]

    def start(self) -> None:
        """Start to look for jobs."""
        for slot in self._slots:
            slot.start()

    def wake(self) -> None:
        """There is a new job."""
        with self._wake:
            self._wake.notify_all()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        self.wake()

    def join(self) -> None:
        """Wait until all have stopped; jobs stay this process's, and the next one goes on with them."""
        for slot in self._slots:
            if slot.is_alive():
                slot.join()
        self._readers.shutdown()

    def _work(self, holder: str) -> None:
        while not self._stopping.is_set():
            try:
                job = self._store.jobs.claim(holder, LEASE_SECONDS)
                if job is not None:
                    self._run(job, holder)
                    continue
            except Exception:
                _LOG.exception("a job could not be worked on")
            with self._wake:
                if not self._stopping.is_set():
                    self._wake.wait(1.0)

    def _run(self, job: Job, holder: str) -> None:
        feed = _Feed()
        renewed = time.monotonic()

        def still_mine() -> bool:
            nonlocal renewed
            if self._stopping.is_set():
                return False
            if time.monotonic() - renewed > LEASE_SECONDS / 6:
                renewed = time.monotonic()
                return self._store.jobs.renew(job.id, holder, LEASE_SECONDS)
            return True

        try:
            policies = [policy for policy in job.policies if policy in self._judge.policies]
            if len(policies) < len(job.policies):
                missing = sorted(set(job.policies) - set(policies))
                self._store.jobs.fail(job.id, f"policy {missing[0]} is not served any more")
                return
            room = _FULL_CHUNKS_AHEAD * sum(self._judge.policies[name].line.full for name in policies)
            for item, source in self._pending(job):
                while feed.under_way >= room and still_mine():
                    with feed.changed:
                        feed.changed.wait(_LOOK_SECONDS)
                if not still_mine():
                    return
                self._feed(feed, job, item, source)
            while feed.under_way and still_mine():
                self._judge.hurry(policies)
                with feed.changed:
                    feed.changed.wait(_LOOK_SECONDS)
            if not still_mine():
                return
            if feed.problem is not None and not feed.recorded:
                self._store.jobs.fail(job.id, feed.problem)
            elif feed.problem is not None:
                time.sleep(_LOOK_SECONDS)  # the store may be away; the job is claimed and tried again
        except (OSError, ValueError) as error:
            _LOG.exception("job %s cannot go on", job.id)
            self._store.jobs.fail(job.id, f"it cannot go on: {type(error).__name__}")
        finally:
            feed.ended = True
            self._judge.forget(feed)
            self._tidy(job)

    def _pending(self, job: Job) -> Iterator[tuple[JobItem, Item]]:
        """Images that are not decided yet, with where they are."""
        archive = (job.source or {}).get("archive")
        members = enumerate(archive_items(Path(archive))) if archive else None
        after = -1
        while page := self._store.jobs.pending(job.id, after=after, limit=_PAGE):
            for item in page:
                if members is None:
                    yield item, ServedFile(item.name, item.source["path"], self._prefixes)
                    continue
                for number, member in members:
                    if number == item.source["member"]:
                        yield item, member
                        break
                else:
                    raise ValueError("the archive has fewer members than before")
            after = page[-1].position

    def _feed(self, feed: _Feed, job: Job, item: JobItem, source: Item) -> None:
        image = Pending(feed, item.name, item.missing, job.key_id or "", job.id, item.position)
        with feed.changed:
            feed.under_way += len(item.missing)
        if source.sequential:  # it must be read before the next one is asked for
            self._prepare(image, _load(source, self._max_bytes))
        else:
            self._readers.submit(lambda: self._prepare(image, _load(source, self._max_bytes)))

    def _prepare(self, image: Pending, data: bytes | str) -> None:
        try:
            if isinstance(data, bytes):
                self._judge.prepare(image, data)
                image.data = data if self._judge.keep_originals else None
            else:
                unreadable = PreparedImage(image.name, None, None, data)
                image.prepared = dict.fromkeys(image.policies, unreadable)
            self._judge.put_bulk(image)
        except Exception:
            _LOG.exception("an image of a job could not be prepared")
            for policy in image.policies:
                image.owner.finish(
                    image, policy, PolicyOutcome("error", reason="it could not be prepared", retry=True)
                )

    def _tidy(self, job: Job) -> None:
        """Remove the upload of a job that has ended."""
        archive = (job.source or {}).get("archive")
        now = self._store.jobs.get(job.id)
        if archive and now is not None and now.finished_at is not None:
            with suppress(OSError):
                Path(archive).unlink()


def _load(source: Item, most: int) -> bytes | str:
    """The bytes of an image, or why there are none."""
    try:
        data = source.load()
    except UnreadableImage as error:
        return error.reason
    except FileNotFoundError:
        return "the file does not exist (any more)"
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}"
    if not isinstance(data, bytes):
        return "not a file"
    return data if len(data) <= most else f"{len(data):,} bytes are more than the limit of {most:,}"
