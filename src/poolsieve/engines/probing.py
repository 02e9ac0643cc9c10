"""Whether this processor survives an engine's half precision or int8: tried once, in a process of its own.

What a processor announces is no proof: in some virtual machines AMX instructions are announced and permitted,
and still end the process that uses them. So a small network, or the graphs of an int8 bundle, are run in a
child first, and if the child dies, again with fewer kinds of instructions. oneDNN, which computes inside
OpenVINO and torch, reads once what it may use, when it is first used: a limit can be set only while the
engine's package has not been imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from poolsieve.bundles import Bundle
from poolsieve.files import write_atomically

LIMIT = "ONEDNN_MAX_CPU_ISA"
"""The environment variable that says which instructions oneDNN may use at most."""
REFUSED = 3
"""Exit status of a child whose engine said in words, on its last line, why it cannot."""
_PACKAGES = ("openvino", "torch")
_LIMITS = ("AVX512_CORE_FP16", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2")
"""Limits that are tried in turn; AMX lies above all of them."""
_OTHER_SETTINGS = ("DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
"""Further variables that decide about instructions: an old name of the limit, and torch's own."""
_PATIENCE = 120.0
"""Seconds after which a child counts as dead; it takes one to five."""
_read_before: dict[str, str | None] = {}
"""The limit that packages go by which were imported before another one was set here."""


@dataclass(frozen=True)
class ProbeResult:
    """What is known of a precision on this processor.

    Attributes:
        usable: Whether a small network ran.
        limit: What instructions had to be limited to for it; None if that was not needed.
        words: What happened where it did not run, or not without the limit.
    """

    usable: bool
    limit: str | None
    words: str


@dataclass(frozen=True)
class _Attempt:
    """How one child ended; "unsure" if it might end otherwise next time."""

    end: Literal["ran", "refused", "died", "unsure"]
    words: str = ""


def ensure_precision(package: str, precision: str, bundle: Bundle | None = None) -> None:
    """Make sure that this process would survive a precision, before an engine is asked for it.

    Where that takes a limit on instructions, it is set for the rest of the process.

    Args:
        package: What computes, such as "openvino"; the engines have these names too.
        precision: Name of the precision.
        bundle: Run this bundle and not a small network, as its graphs are in this precision.

    Raises:
        ValueError: The engine cannot compute so here, or not without ending the process.
    """
    outcome = probe(package, precision, bundle)
    if not outcome.usable and bundle is not None:
        raise ValueError(
            f"{package} cannot compute in {precision} here, as {bundle.path} does: {outcome.words}; use the "
            "bundle that it was made of, in precision='fp32'"
        )
    if not outcome.usable:
        raise ValueError(
            f"{package} cannot compute with precision={precision!r} here: {outcome.words}; "
            "use precision='fp32'"
        )
    if outcome.limit is None:
        return
    if package in sys.modules:
        raise ValueError(
            f"{package} computes with precision={precision!r} here only under {LIMIT}={outcome.limit} "
            f"({outcome.words}), and it is too late to set that in a process that has imported it; set "
            "it in the environment before the program starts, or use precision='fp32'"
        )
    for other in _PACKAGES:
        if other in sys.modules:
            _read_before.setdefault(other, os.environ.get(LIMIT))
    os.environ[LIMIT] = outcome.limit


def probe(package: str, precision: str, bundle: Bundle | None = None) -> ProbeResult:
    """Run a small network in child processes until one survives, or look up how that ended before."""
    given = _read_before.get(package, os.environ.get(LIMIT))
    file = _record_file(package, precision, given, bundle)
    known = None if file is None else _recorded(file)
    if known is not None:
        return known
    what = [package, precision, *([] if bundle is None else [os.fspath(bundle.path)])]
    outcome, sure = _try_limits(what, given)
    if file is not None and sure:
        with contextlib.suppress(ValueError, OSError):  # where nothing can be written, it is tried again
            write_atomically(file, json.dumps(asdict(outcome), indent=1).encode())
    return outcome


def _try_limits(what: list[str], given: str | None) -> tuple[ProbeResult, bool]:
    """What was found, and whether it would be found again."""
    first = _attempt(what, given)
    if first.end in ("ran", "refused"):
        return ProbeResult(first.end == "ran", None, first.words), True
    attempts = [first]
    # A limit that somebody has set is only ever lowered.
    lower = _LIMITS if given is None else _LIMITS[_LIMITS.index(given) + 1 :] if given in _LIMITS else ()
    for limit in lower:
        attempts.append(_attempt(what, limit))
        if attempts[-1].end == "ran":
            break
    sure = all(attempt.end != "unsure" for attempt in attempts)
    if attempts[-1].end == "ran":
        return ProbeResult(True, lower[len(attempts) - 2], f"without it, {first.words}"), sure
    tried = f", and with {LIMIT} from {lower[0]} down to {lower[-1]} too" if lower else ""
    return ProbeResult(False, None, first.words + tried), sure


def _attempt(what: list[str], limit: str | None) -> _Attempt:
    environment = {name: value for name, value in os.environ.items() if name != LIMIT}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # finds what this process would
    if limit is not None:
        environment[LIMIT] = limit
    python = sys.executable or ""  # there is none where Python is embedded, which is then an OSError
    command = [python, "-P", "-m", "poolsieve.engines.small_network", *what]
    try:
        child = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _Attempt("unsure", f"a small network did not end within {_PATIENCE:.0f} s")
    except OSError as error:
        return _Attempt("unsure", f"no process could be started to try a small network ({error})")
    if child.returncode == 0:
        return _Attempt("ran")
    if child.returncode == REFUSED:
        return _Attempt("refused", _last_line(child.stdout))
    how = f"ended with exit status {child.returncode}: {_last_line(child.stderr)}"
    if child.returncode < 0:
        how = f"was ended by signal {-child.returncode} ({signal.strsignal(-child.returncode)})"
    # SIGKILL comes from outside, as where memory is short.
    unsure = child.returncode == -9
    return _Attempt("unsure" if unsure else "died", f"a small network {how}")


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else "no words"


def _record_file(
    package: str, precision: str, given: str | None, bundle: Bundle | None = None
) -> Path | None:
    """Where the outcome for this processor, package and settings is kept; None if that cannot be told."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
        version = metadata.version(package)
    except (RuntimeError, metadata.PackageNotFoundError):  # no home; a build without metadata
        return None
    others = [os.environ.get(name) for name in _OTHER_SETTINGS]
    key: list[object] = [_processor(), package, version, precision, given, *others]
    if bundle is not None:
        key.append([bundle.config.files[graph].sha256 for graph in bundle.config.graphs])
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    return Path(home) / "poolsieve" / "precisions" / f"{package}-{precision}-{digest[:16]}.json"


def _processor() -> list[str]:
    """What tells processors apart."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
        if found:
            return sorted(found)
    return [platform.machine(), platform.processor()]


def _recorded(file: Path) -> ProbeResult | None:
    try:
        values = json.loads(file.read_bytes())
        outcome = ProbeResult(**values)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    whole = isinstance(outcome.words, str) and outcome.limit in (None, *_LIMITS)
    return outcome if whole and isinstance(outcome.usable, bool) else None
