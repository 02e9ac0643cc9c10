"""What the service takes: sizes, times and counts, each with its default."""

from __future__ import annotations

from dataclasses import dataclass

MAX_IMAGES = 64
"""Images in one request."""


@dataclass(frozen=True)
class Limits:
    """Limits of one process.

    Attributes:
        deadline: Seconds to the answer unless the request says otherwise.
        least_deadline: A request may ask for no less.
        most_deadline: Nor for more.
        image_bytes: Bytes of one image.
        body_bytes: Bytes of one request's body.
        archive_bytes: Bytes of a job's body, which is kept on disk.
        unread_bytes: Bytes of bodies that are being read at the same time.
        job_images: Images of one job.
        connections: Connections at the same time.
        unread_requests: Of these, requests that are not there as a whole; the slowest are dropped first.
        receive_seconds: A request must be there after so many seconds, and one more for each
            `receive_rate` bytes.
        receive_rate: Bytes in a second, below which a client is too slow.
        longest_receive: No request may take longer to come.
        room: Images of requests that may be held; None for four full chunks of the largest policy, at least
            256.
        threads: Threads that read and decode images.
    """

    deadline: float = 1.0
    least_deadline: float = 0.01
    most_deadline: float = 60.0
    image_bytes: int = 20_000_000
    body_bytes: int = 64_000_000
    archive_bytes: int = 2_000_000_000
    unread_bytes: int = 256_000_000
    job_images: int = 1_000_000
    connections: int = 1000
    unread_requests: int = 200
    receive_seconds: float = 10.0
    receive_rate: int = 16_384
    longest_receive: float = 120.0
    room: int | None = None
    threads: int = 2
