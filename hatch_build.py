"""Builds of wheels: with compiled CPU kernels for one platform, or without, for any.

    HORNBEAM_WHEEL=platform python -m build --wheel     py3-none-<platform>, kernels inside, Numba not required
    python -m build --wheel                             py3-none-any, Numba required

`pip install .` and editable installs make the second kind. docs/dev/kernels.md says more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from unittest import mock
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

WITH_KERNELS = os.environ.get("HORNBEAM_WHEEL") == "platform"

NEEDED = ["numpy>=1.26", "narwhals>=1.20", "rich>=13"]
COMPILER = "numba>=0.60"
"""What compiles the kernels at first use: required where they are not inside, else the extra `jit`."""

TO_BUILD = ["numba==0.68.*", "zopfli>=0.2.3", *NEEDED]
"""Exporting kernels takes more of Numba than its public face: a build has one version of it."""

OLDEST_GLIBC = (2, 17)


class Dependencies(MetadataHookInterface):
    """What an installation requires."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write it into the metadata."""
        metadata["dependencies"] = NEEDED if WITH_KERNELS else [*NEEDED, COMPILER]


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the library of compiled kernels into a wheel."""

    def dependencies(self) -> list[str]:
        """Return what the build needs."""
        if not WITH_KERNELS:
            return []
        has_compiler = sys.platform != "win32" and any(map(shutil.which, ("cc", "gcc", "clang")))
        return TO_BUILD if has_compiler or "CC" in os.environ else [*TO_BUILD, "ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library, and name the wheel by its platform."""
        if self.target_name != "wheel" or version == "editable" or not WITH_KERNELS:
            return
        folder = Path(self.directory) / "kernels"
        root = Path(self.root)
        subprocess.run([sys.executable, str(root / "kernels" / "build.py"), "--output", str(folder)], check=True)
        for path in folder.iterdir():
            build_data["force_include"][str(path)] = f"hornbeam/backends/cpu/library/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(folder)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing but the wheel, as small as it can be."""
        shutil.rmtree(Path(self.directory) / "kernels", ignore_errors=True)
        if WITH_KERNELS and artifact_path.endswith(".whl"):
            compress(Path(artifact_path))


class Zopfli:
    """Compresses as zlib's compressobj does, but with more patience: what it writes is read by any zlib."""

    def __init__(self, *_: object) -> None:
        self._parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        """Keep the data for the end."""
        self._parts.append(data)
        return b""

    def flush(self) -> bytes:
        """Return all of it, without zlib's head and checksum, which a ZIP file has not."""
        from zopfli.zlib import compress

        whole: bytes = compress(b"".join(self._parts), numiterations=1)
        return whole[2:-4]


def compress(wheel: Path) -> None:
    """Compress the files of a wheel as far as its format allows, in their order: some 70 KB less."""
    before = wheel.with_suffix(".before")
    wheel.rename(before)
    patient = mock.patch("zipfile._get_compressor", Zopfli)  # which is not zipfile's public face
    with ZipFile(before) as source, ZipFile(wheel, "w", ZIP_DEFLATED) as target, patient:
        for entry in source.infolist():
            target.writestr(entry, source.read(entry), ZIP_DEFLATED)
    before.unlink()


def platform_tag(folder: Path) -> str:
    """Return the tag of the platforms on which the libraries in a folder run.

    They are linked with the C library alone, so the tag of a wheel for Linux says how old that may be: the newest
    version that a symbol asks for.
    """
    if sys.platform == "darwin":
        return f"macosx_11_0_{os.uname().machine}"
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    tool = shutil.which("objdump")
    if not sys.platform.startswith("linux") or tool is None:
        return tag
    versions = [OLDEST_GLIBC]
    for path in folder.glob("*.so"):
        symbols = subprocess.run([tool, "-T", str(path)], check=True, capture_output=True, text=True).stdout
        if re.search(r"\*UND\*", symbols) and "GLIBC_" not in symbols:
            return tag  # another C library than that of manylinux
        versions += [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    return tag.replace("linux_", "manylinux_{}_{}_".format(*max(versions)), 1)
