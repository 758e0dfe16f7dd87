"""evenscore asks whether a score means the same thing for everyone.

import evenscore as es

tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
es.parity_test(tally)
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from typing import Any

from evenscore import _moved
from evenscore._version import __version__ as __version__

# The stub beside this file is the one list of public names: type checkers read it as it is, and here it says which module to
# load when a name is first used, so that `evenscore --help` need not wait for NumPy.
_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.MULTILINE)}

__all__ = sorted(_HOMES)

_moved.keep_old_paths()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        # With name and obj a traceback ends in "Did you mean: ...?"
        raise AttributeError(f"module 'evenscore' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
