"""Rows that tests of the store, the service and the review page put into a store."""

from poolsieve.store import ChunkRecord, VerdictRecord


def verdict_record(number=0, status="flagged", **changes):
    """A verdict on image `number`, with a picture of its own."""
    values = {
        "name": f"photo-{number}.jpg",
        "sha256": f"{number:064x}",
        "status": status,
        "score": {"flagged": 0.9, "clear": 0.1}.get(status),
        "decided_by": "individual",
        "grounds": {"prior": 0.63, "threshold": 0.5, "pools": [], "pool_score": None, "note": None},
        "thumbnail": lambda: b"jpeg %d" % number,
        "original": lambda: b"bytes %d" % number,
    }
    return VerdictRecord(**{**values, **changes})


def chunk_record(verdicts, policy="firearms", **changes):
    values = {"bundle": "ab" * 32, "scheme": "individual", "seed": 7, "cost": 1.0, "seconds": 0.5}
    return ChunkRecord(**{"policy": policy, **values, "verdicts": verdicts, **changes})
