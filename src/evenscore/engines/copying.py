"""Files that DuckDB writes: hidden until they are whole, and a full disk is blamed on the folder that is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenscore.engines.duck import complaints
from evenscore.errors import FileError
from evenscore.saving import named, written_whole

AS_IT_IS = "USE_TMP_FILE false"  # DuckDB's own temporary files are not hidden
REASONS = [os.strerror(number) for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)]


@contextmanager
def copied_whole(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A hidden file for COPY that takes the place of the path when all went well; complaints about it are about the path."""
    with written_whole(path, path.suffix, overwrite=overwrite) as temporary:
        try:
            yield temporary
        except complaints() as error:
            complaint = str(error)
            if temporary.name not in complaint:
                raise
            reason = next((words for words in REASONS if words in complaint), complaint.replace(str(temporary), str(path)))
            raise FileError(f"cannot write {named(path)}: {reason}") from None
