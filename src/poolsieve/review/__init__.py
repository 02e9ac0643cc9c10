"""Pages for moderators: a queue of flagged images to decide on, the audit, and how well the plan does.

`review_app(store)` is an application that `poolsieve serve` mounts and `poolsieve review` runs alone.
"""

try:
    import argon2  # noqa: F401
    import fastapi  # noqa: F401
except ImportError:
    raise ImportError("the review page needs FastAPI and argon2: pip install 'poolsieve[serve]'") from None

from poolsieve.review.pictures import thumbnail_jpeg
from poolsieve.review.review_application import review_app

__all__ = ["review_app", "thumbnail_jpeg"]
