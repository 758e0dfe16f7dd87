import os
import sys
from pathlib import Path

# Several test processes share two cores; a thread pool in each would only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
