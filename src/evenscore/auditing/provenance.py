"""Where a result comes from: data and its hash, versions, seed, time and configuration."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from evenscore._version import __version__
from evenscore.tables import json_ready, values_of

MOST_HASHED = 1 << 30  # bytes of files that are hashed; the fingerprint of the sums covers any size


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or data in memory. sha256 is empty for data in memory, and for files when together they are above 1 GiB."""

    name: str
    size: int | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is needed to make a result again. configuration: every option, defaults too."""

    created: str
    seed: int
    sources: tuple[Source, ...]
    versions: Mapping[str, str]
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values."""
        sources = [{"name": source.name, "bytes": source.size, "sha256": source.sha256 or None} for source in self.sources]
        return json_ready(values_of(self) | {"sources": sources})


def record(sources: Sequence[Source], seed: int, configuration: Mapping[str, Any]) -> Provenance:
    """The provenance of a result that is made now; SOURCE_DATE_EPOCH sets the time, for reports that are built again."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return Provenance(now.isoformat(timespec="seconds"), seed, tuple(sources), versions(), configuration)


def versions() -> dict[str, str]:
    """Versions of what computes the numbers."""
    by_name = {"evenscore": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for name in ("scipy", "duckdb"):
        if name in sys.modules:
            by_name[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return by_name


def file_sources(paths: Sequence[str]) -> list[Source]:
    """Files with their size, and their hash unless they are very large."""
    sizes = [Path(path).stat().st_size for path in paths]
    hashed = sum(sizes) <= MOST_HASHED
    return [Source(path, size, _hash(Path(path)) if hashed else "") for path, size in zip(paths, sizes, strict=True)]


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
