"""What earlier runs have judged, by content."""

from __future__ import annotations

import numpy as np

from poolsieve.distributed.run_folder import RunFolder


class KnownContent:
    """Hashes of what a run and those before it have judged, in 32 bytes each.

    Images that could not be read are not among them, so that they are tried again.

    Args:
        run: The run.
        bundle: Hash of the bundle that judged.

    Raises:
        ValueError: It is no run, not finished, or of another bundle.
    """

    def __init__(self, run: str, bundle: str) -> None:
        found = []
        earlier: str | None = run
        while earlier is not None:
            folder = RunFolder(earlier)
            settings = folder.needed_settings()
            if settings.bundle_hash != bundle:
                raise ValueError(
                    f"{folder} was judged with another bundle, so all images are new to this one; leave out "
                    "--since"
                )
            if not folder.finished:
                raise ValueError(
                    f"{folder} is not finished; go on with it first, by the command that began it"
                )
            judged = (v.sha256 for v in folder.verdicts() if v.sha256 is not None and v.status != "error")
            found.append(np.fromiter((bytes.fromhex(sha256) for sha256 in judged), dtype="S32"))
            earlier = settings.since
        self._hashes = np.unique(np.concatenate(found))

    def __contains__(self, digest: object) -> bool:
        wanted = np.array([digest], dtype="S32")
        place = int(np.searchsorted(self._hashes, wanted)[0])
        return place < len(self._hashes) and bool(self._hashes[place] == wanted[0])
