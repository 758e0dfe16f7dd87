"""The command line: parse, call, print, exit code. Results go to stdout, everything else to stderr.

Exit codes: 0 no disparity shown, 1 disparity, 2 bad usage or bad data, 3 not shown either way where it must be, 70 a crash, 130
interrupted, 143 ended by SIGTERM, 141 nobody reads the output. The commands are in ``commands/``.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import io
import os
import shutil
import signal
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import click

from evenscore._version import __version__
from evenscore.commands import BAD, CRASH, INTERRUPTED, UNREAD
from evenscore.commands.apply_command import apply
from evenscore.commands.audit_command import audit
from evenscore.commands.calibrate_command import calibrate
from evenscore.commands.common import use_option_names
from evenscore.commands.compare_command import compare
from evenscore.commands.decisions_command import decisions
from evenscore.commands.init_command import init
from evenscore.commands.merge_command import merge
from evenscore.commands.reproduce_command import reproduce
from evenscore.commands.simulate_command import simulate
from evenscore.commands.tally_command import tally
from evenscore.commands.thresholds_command import thresholds
from evenscore.errors import visible
from evenscore.saving import remove_unfinished

REQUESTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Seconds in which an interrupted command may unwind; DuckDB 2.0 may wait for ever in a cancelled query (its pull request 25564).
GRACE = 10.0


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenscore")
def cli() -> None:
    """Does a score mean the same thing for everyone?"""


for command in (apply, audit, calibrate, compare, decisions, init, merge, reproduce, simulate, tally, thresholds):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that says what happened."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Before NumPy is loaded: more threads take a tenth off an audit's time and add two thirds to its CPU, more on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without emoji is no reason to fail
    interrupts: list[int] = []
    with record_interrupts(interrupts):
        try:
            code = _run(words, interrupts)
            sys.stdout.flush()
        except click.ClickException as error:
            words_of_click = io.StringIO()
            error.show(words_of_click)
            _end_line(words_of_click.getvalue())
            code = BAD
        except BrokenPipeError:
            _forget_stdout()
            code = UNREAD
        except (Exception, KeyboardInterrupt) as error:
            # A library that is interrupted may raise anything.
            by_hand = interrupts or isinstance(error, KeyboardInterrupt | click.Abort)
            code = INTERRUPTED if by_hand else _report_failure(error, "--debug" in words)
    if code == INTERRUPTED:
        _end_line("interrupted\n")
        if interrupts:
            remove_unfinished()
            os._exit(128 + interrupts[0])  # else Python may end itself by the signal once more
    sys.exit(code)


@contextlib.contextmanager
def record_interrupts(interrupts: list[int]) -> Iterator[None]:
    """Keep a record of Ctrl-C and of other requests to end, and let them all unwind the work, so that nothing is left by half."""

    unwound = False

    def handle(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) == 1:
            _thread.start_new_thread(insist, (number,))  # threading's own way takes locks, which this frame may hold
        signal.default_int_handler(number, frame)

    def insist(number: int) -> None:
        """A library that does not hear of an interrupt must not keep the command: clean up in its place, and end."""
        time.sleep(GRACE)
        if not unwound:
            remove_unfinished()
            _end_line("interrupted\n")
            os._exit(128 + number)

    def complain(found: Any) -> None:
        """Where Python cannot raise, as in a destructor, the record is enough: the next step looks at it."""
        if not issubclass(found.exc_type, KeyboardInterrupt):
            hook(found)

    usual = {number: signal.getsignal(number) for number in REQUESTS}
    heard = [number for number, does in usual.items() if does in (signal.SIG_DFL, signal.default_int_handler)]
    if threading.current_thread() is not threading.main_thread():
        heard = []
    hook = sys.unraisablehook
    for number in heard:
        signal.signal(number, handle)
    sys.unraisablehook = complain
    try:
        yield
    finally:
        unwound = True
        for number in heard:
            signal.signal(number, usual[number])
        sys.unraisablehook = hook


def _run(words: list[str], interrupts: list[int]) -> int:
    """Not click's own main, which ends with 1 when nobody reads the output."""
    if "_EVENSCORE_COMPLETE" in os.environ:
        cli.main(words, prog_name="evenscore")
    if not words:
        click.echo(cli.get_help(click.Context(cli, info_name="evenscore")), err=True)
        return BAD
    try:
        with cli.make_context("evenscore", words, obj=interrupts) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as finished:
        code = finished.exit_code
    return code if isinstance(code, int) else 0


def _report_failure(error: BaseException, debug: bool) -> int:
    from evenscore.errors import EvenscoreError, shortened

    if debug:
        traceback.print_exc()
    if isinstance(error, EvenscoreError):
        _end_line(f"Error: {use_option_names(str(error))}\n")
        return BAD
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        _end_line(f"Error: {shortened(error.filename)} cannot be the name of a file: it is too long\n")
        return BAD
    if isinstance(error, OSError | MemoryError):
        _forget_stdout()
        _end_line(f"evenscore could not finish: {error or 'out of memory'}\n")
    else:
        _end_line(f"evenscore crashed: {type(error).__name__}: {error}\nThis is a bug; --debug shows where.\n")
    return CRASH


def _forget_stdout() -> None:
    """Keep the interpreter from complaining once more, while it ends, that it cannot write."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_line(message: str) -> None:
    """A last message on stderr, in place of the progress."""
    clear, text = "", visible(message)
    if sys.stderr.isatty():  # no line ends within a word; what is piped keeps one line a message
        clear, width = "\r\x1b[K", shutil.get_terminal_size().columns
        fill = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False, subsequent_indent="    ").fill
        text = "\n".join(map(fill, text.split("\n")))
    click.echo(clear + text, err=True, nl=False)
