"""Runs a command as if the processor had nothing wider than AVX2, so that one machine shows two.

`python tests/avx2_environment.py COMMAND…`. What OpenVINO and ONNX Runtime compute without oneDNN cannot be
limited so.
"""

import os
import platform
import subprocess
import sys


def avx2_environment():
    """What to set; without numpy's part where this processor or this numpy has nothing wider."""
    settings = {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "NPY_DISABLE_CPU_FEATURES": " ".join(_wider_in_numpy()),
    }
    if platform.machine() in ("x86_64", "AMD64"):
        settings |= {
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "NUMBA_CPU_NAME": "haswell",
            "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+popcnt",
        }
    return {name: value for name, value in settings.items() if value}


def _wider_in_numpy():
    """Only what is there: numpy refuses to be imported if it is told to leave out what it does not have."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [
        name for name in __cpu_dispatch__ if __cpu_features__[name] and name.startswith(("AVX512", "X86_V4"))
    ]


if __name__ == "__main__":
    sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, **avx2_environment()}, check=False).returncode)
