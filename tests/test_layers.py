"""The layout holds: a module imports only what stands above it, an engine is imported only in its own file, and nothing heavy by itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evenscore

SOURCE = Path(evenscore.__file__).parent
LAYERS = (
    *("errors", "tables", "coding", "columns", "lattice", "observations", "pairs", "pairing", "tally", "archive", "spanning", "counting"),
    *("engines", "kernels", "bandwidth", "inference", "curves", "multiplicity", "verdict", "gaps", "parity", "report", "cli", "__main__"),
)
