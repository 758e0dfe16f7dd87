"""Saved tallies: what is loaded is what was saved, and no file, however broken or forged, does worse than a clear error."""

import datetime
import json
import math
import os
import stat
import subprocess
import sys
import tracemalloc
import uuid
import zlib
from decimal import Decimal

import numpy as np
import pytest
from compare import assert_same
from forgery import forge, header, in_list, put, refuse, repack, sealed

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.saving import write_whole
from evenscore.tallies import archive
from evenscore.tallies.archive import DIGEST, MAGIC, PREFIX, VERSION

SETTINGS = {
    "plain": {},
    "real outcomes and weights": {"rows": {"real": True, "weights": True}, "weight": "v"},
    "users in several groups": {"rows": {"spanning": True}},
    "logit scale": {"scale": "logit"},
    "rank scale with cuts": {"scale": "rank", "cuts": [0.3]},
    "few cells with cuts": {"cells": 128, "cuts": [0.33, 0.5]},
    "independent rows": {"user": None},
    "nulls dropped": {"nulls": "drop"},
    "unlabelled rows": {"nulls": "unlabelled"},
    "distinct scores": {"score": "g", "group": "few"},
    "intersection": {"group": ["g", "few"]},
}


def make_tally(rows=None, **options):
    columns = as_dict(repeated_users(2_000, **(rows or {})))
    columns["few"] = np.floor(columns["s"] * 2)
    if "nulls" in options:
        columns["y"] = np.where(columns["s"] < 0.1, np.nan, columns["y"])
    return es.tally(columns, **NAMES | options)


def small_tally(labels=("a", "b")):
    user = np.arange(40) // 2
    columns = {"s": user % 5, "y": user % 2, "g": [labels[code % len(labels)] for code in user.tolist()], "u": user}
    return es.tally(columns, **NAMES)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.tally"


def saved(tally, path):
    tally.save(path)
    return path.read_bytes()


# Round trips


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_loaded_is_what_was_saved(name, path):
    tally = make_tally(**SETTINGS[name])
    tally.save(path)
    loaded = es.Tally.load(str(path))
    assert_same(loaded, tally)
    for field in ("columns", "dropped", "frame_kind", "n_spanning", "centre", "independent"):
        assert getattr(loaded, field) == getattr(tally, field)
    assert (loaded.sketch is None) == (tally.sketch is None) and np.array_equal(loaded.sketch, tally.sketch)
    assert loaded.lattice.max_cells == tally.lattice.max_cells and repr(loaded) == repr(tally)
    first, second = (es.parity_test(which, method="l2").to_dict() for which in (loaded, tally))
    assert first == second


LABELS = {
    "text": ["", "a", 'it\'s "quoted"\n', "x" * 10_000, "🦔"],
    "integers": [-1, 0, 2**70],
    "booleans": [False, True],
    "floats": [-0.5, 0.1, math.pi],
    "bytes": [b"", b"\x00\xff"],
    "dates": [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)],
    "moments": [datetime.datetime(2024, 1, 31, 12, 30, 1, 5), datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC)],
    "times": [datetime.time(1, 2), datetime.time(3, 4)],
    "decimals": [Decimal("1.50"), Decimal("2.5")],
    "uuids": [uuid.UUID(int=1), uuid.UUID(int=2)],
    "types mixed": [1, "1", "True", 2.5],
    "tuples": [("a", 1), ("a", True), ("b", 0.5), ("b", ("c", None is None))],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_type(kind, path):
    tally = small_tally(LABELS[kind])
    assert set(tally.groups) == set(LABELS[kind])
    tally.save(path)
    groups = es.Tally.load(path).groups
    assert groups == tally.groups and repr(groups) == repr(tally.groups)


def test_a_label_that_cannot_be_saved_is_refused_before_anything_is_written(path):
    with pytest.raises(
        es.EvenscoreError, match=r"group label 1j is of type complex and cannot be saved; turn the column into text"
    ):
        small_tally([1j, 2j]).save(path)
    with pytest.raises(es.EvenscoreError, match="cannot be saved"):
        small_tally(["\udc80", "a"]).save(path)
    assert not list(path.parent.iterdir())


def test_two_large_groups_take_less_than_20_mb(path):
    rows = repeated_users(400_000, rows_per_user=40, real=True, weights=True)
    tally = es.tally(as_dict(rows), **NAMES, weight="v", scale="score")  # whose cells all have users
    assert tally.lattice.n_cells == 512 and all(group.pairs.index is None for group in tally.group_tallies)
    tally.save(path)
    assert path.stat().st_size < 20e6
    assert_same(es.Tally.load(path), tally)


# Writing


def test_a_file_is_replaced_whole_and_links_stay_links(path):
    path.write_bytes(b"old")
    link = path.with_name("link")
    link.symlink_to(path.name)
    small_tally().save(link)
    assert link.is_symlink() and es.Tally.load(path).groups == ("a", "b")
    assert sorted(file.name for file in path.parent.iterdir()) == ["link", "some.tally"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


@pytest.mark.parametrize("where", ["missing/some.tally", "file/some.tally", "folder"])
def test_a_place_that_cannot_be_written_to_is_left_as_it_was(tmp_path, where):
    (tmp_path / "file").write_bytes(b"a file")
    (tmp_path / "folder").mkdir()
    with pytest.raises(es.FileError, match=f"cannot write .*{where}: "):
        small_tally().save(tmp_path / where)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_permission_is_left_as_it_was(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(es.FileError, match=r"cannot write .*ermission denied"):
        small_tally().save(tmp_path / "some.tally")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(path):
    program = (
        "import resource, sys, pathlib\nfrom evenscore import saving\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: saving.write_whole(pathlib.Path(sys.argv[1]), bytes(100_000))\n"
        "except saving.FileError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"cannot write {path}: ")
    assert not list(path.parent.iterdir())


def test_devices_are_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"hello")
    assert os.read(reader, 100) == b"hello" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


# Broken files


def test_a_file_cut_off_anywhere_is_refused(path):
    content = saved(small_tally(), path)
    for length in range(len(content)):
        refuse(path, content[:length], "is empty|is cut off|is damaged or cut off")


def test_a_flipped_byte_anywhere_is_refused(path):
    content = saved(small_tally(), path)
    for place in [*range(PREFIX.size + 40), *range(PREFIX.size + 40, len(content), 7), len(content) - 1]:
        broken = bytearray(content)
        broken[place] ^= 1 << place % 8
        refuse(path, bytes(broken), "is not a saved tally|is damaged or cut off")


@pytest.mark.parametrize("content", [b"PAR1" * 100, b"score,outcome\n1,0\n", bytes(1_000), b"evenscore, a poem\n" * 9])
def test_a_foreign_file_is_refused(path, content):
    refuse(path, content, "is not a saved tally$")


def test_a_missing_file_and_a_folder_are_refused(path):
    with pytest.raises(es.FileError, match=r"cannot read .*some.tally: No such file"):
        es.Tally.load(path)
    with pytest.raises(es.FileError, match=r"cannot read .*: Is a directory"):
        es.Tally.load(path.parent)


def test_another_version_is_refused(path):
    content = saved(small_tally(), path)
    newer = PREFIX.pack(MAGIC, VERSION + 1, PREFIX.unpack_from(content)[2]) + content[PREFIX.size : -DIGEST]
    refuse(
        path, sealed(newer), f"has format version {VERSION + 1}, this evenscore reads versions up to {VERSION}; update evenscore"
    )


def bomb(header, arrays):
    """Two gigabytes of nothing in a few kilobytes."""
    for entry in header["arrays"]:
        if entry["name"] in ("pairs 0", "pairs 1"):
            entry["shape"] = [2, 4, 1 << 26]
            packer = zlib.compressobj(9)
            arrays[entry["name"]] = b"".join([packer.compress(bytes(1 << 20)) for _ in range(8)]) + packer.flush()
            entry["nbytes"] = len(arrays[entry["name"]])


def deep_label(header, _):
    label = ["str", "a"]
    for _ in range(400):
        label = ["tuple", [label]]
    header["groups"][0]["label"] = label


FORGERIES = {
    "a shape too short": (
        repack("vectors 0", lambda array: array[:, :, :-1]),
        r"array 'vectors 0' is <f8 of shape \(2, 10, 4\) where",
    ),
    "a shape too long": (repack("folds 1", lambda array: np.concatenate([array, array])), "array 'folds 1' is <f8 of shape"),
    "a shape turned": (repack("vectors 0", lambda array: array.T.copy()), "array 'vectors 0' is <f8 of shape"),
    "a shape below zero": (in_list("arrays", 1, shape=[-2, 10, -5]), "is listed wrongly"),
    "another type": (in_list("arrays", 1, dtype="<i8"), "array 'vectors 0' is <i8 of shape"),
    "objects": (in_list("arrays", 1, dtype="|O"), r"array 'vectors 0' is \|O of shape"),
    "negative weights": (repack("vectors 0", put(-1.0, 0, 0, 0)), "negative counts or weights"),
    "negative weights in a fold": (repack("folds 0", put(-1.0, 0, 0, 0, 0)), "negative counts or weights"),
    "negative users": (repack("cell_users 0", put(-1.0, 0)), "negative counts or weights"),
    "not a number": (repack("vectors 1", put(np.nan, 0, 1, 0)), "array 'vectors 1' is not finite"),
    "infinity": (repack("pairs 0", put(np.inf, 0, 0, 0)), "array 'pairs 0' is not finite"),
    "unsorted edges": (repack("edges", lambda array: array[::-1].copy()), "edges are not ascending"),
    "edges in a square": (repack("edges", lambda array: array.reshape(2, 2)), "array 'edges' has shape"),
    "endless edges": (repack("edges", lambda _: np.arange(5_000.0)), "array 'edges' has shape"),
    "unsorted pairs": (repack("pairs index 0", lambda array: array[::-1].copy()), "pair sums"),
    "unknown pairs": (repack("pairs index 0", put(99, -1)), "pair sums of unknown cells"),
    "pairs below the diagonal": (repack("pairs index 0", put(15, -2)), "pair sums out of order"),
    "unsorted sketch": (repack("sketch", lambda array: array[::-1].copy()), "the sketch of users is out of order"),
    "endless sketch": (repack("sketch", lambda _: np.arange(5_000)), "array 'sketch' has shape"),
    "a missing array": (lambda header, arrays: (header["arrays"].pop(1), arrays.pop("vectors 0")), "array 'vectors 0' is missing"),
    "an array named twice": (in_list("arrays", 2, name="vectors 0"), "array 'vectors 0' is listed wrongly"),
    "a wrong length": (in_list("arrays", 1, nbytes=10), "the arrays take"),
    "a negative length": (in_list("arrays", 1, nbytes=-10), "is listed wrongly"),
    "a bomb": (bomb, "its arrays would take 8,589,9.* bytes, which no tally of .* packed bytes needs"),
    "a bomb with a modest label": (
        lambda header, arrays: (
            arrays.update({"vectors 0": zlib.compress(bytes(10**7))})
            or header["arrays"][1].update(nbytes=len(zlib.compress(bytes(10**7))))
        ),
        "array 'vectors 0' does not have its 800 bytes",
    ),
    "something after an array": (
        lambda header, arrays: (
            arrays.update({"vectors 0": arrays["vectors 0"] + b"more"})
            or header["arrays"][1].update(nbytes=len(arrays["vectors 0"]))
        ),
        "array 'vectors 0' does not have its 800 bytes",
    ),
    "negative rows": (in_list("groups", 0, n_rows=-1), "negative counts"),
    "negative spanning users": (header(n_spanning=-1), "negative counts"),
    "negative dropped rows": (header(dropped={"s": -1}), "negative counts"),
    "a group twice": (in_list("groups", 1, label=["str", "a"]), "the groups are too many, not different or out of order"),
    "groups out of order": (in_list("groups", 0, label=["str", "z"]), "the groups are too many, not different or out of order"),
    "a label of no type": (in_list("groups", 0, label=["set", "a"]), "a group label is of no known type"),
    "a label of the wrong type": (in_list("groups", 0, label=["UUID", 5]), "a group label is of no known type"),
    "a label that is none": (in_list("groups", 0, label=["Decimal", "x"]), "does not hold a valid tally"),
    "a label without type": (in_list("groups", 0, label="a"), "does not hold a valid tally"),
    "a label in a label in a label": (deep_label, "does not hold a valid tally"),
    "cross sums of nobody": (in_list("blocks", 2, cross=[[0, 7]]), "cross sums of unknown groups"),
    "cross sums without sums": (in_list("blocks", 2, cross=[[0, 1]]), "array 'pairs 0 1' is missing"),
    "an unknown field": (header(colour="red"), "unknown field `colour`"),
    "a missing field": (lambda header, _: header.pop("centre"), "missing required field `centre`"),
    "a field of the wrong type": (header(binary="yes"), "Expected `bool`, got `str`"),
    "an endless centre": (header(centre=float("1e400")), "does not hold a valid tally"),
    "a lattice without limits": (header(lattice={}), "does not hold a valid tally"),
    "an unknown scale": (lambda header, _: header["lattice"].update(scale="cubic"), "scale='cubic' is not known"),
    "limits the wrong way round": (
        lambda header, _: header["lattice"].update(low=9, discrete=False),
        "limits and edges do not fit",
    ),
    "a value of the wrong order": (lambda header, _: header["lattice"].update(low=1.5), "limits and edges do not fit"),
    "columns of the wrong type": (header(columns={"score": 5}), "does not hold a valid tally"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_is_refused(name, path):
    change, message = FORGERIES[name]
    content = saved(small_tally(), path)
    path.write_bytes(forge(content, lambda *_: None))
    assert_same(es.Tally.load(path), small_tally())  # the forger himself breaks nothing
    refuse(path, forge(content, change), message)


def test_a_forged_file_does_not_get_the_memory_it_asks_for(path):
    change, message = FORGERIES["a bomb"]
    content = forge(saved(small_tally(), path), change)
    assert len(content) < 100_000
    tracemalloc.start()
    try:
        refuse(path, content, message)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_what_packs_too_well_is_written_so_that_it_can_be_read(path, monkeypatch):
    """A user with the same outcome in every cell makes equal pair sums, which pack into next to nothing."""
    monkeypatch.setattr(archive, "FREE_BYTES", 1 << 10)
    data = {"score": np.arange(512) / 512, "outcome": np.ones(512), "group": np.arange(512) % 2, "user": np.zeros(512, dtype=int)}
    tally = es.tally(data, **{name: name for name in data}, lattice=es.Lattice(0, 1))
    tally.save(path)
    assert es.Tally.load(path).n_users == tally.n_users
    assert path.stat().st_size * archive.MOST_PACKED > tally.nbytes


def test_a_file_needs_no_pickle(path):
    content = saved(small_tally([("a", 1), ("b", Decimal("2.5"))]), path)
    length = PREFIX.unpack_from(content)[2]
    arrays = json.loads(content[PREFIX.size : PREFIX.size + length])["arrays"]
    assert {entry["dtype"] for entry in arrays} == {"<f8", "<i8", "<i4"}  # and "objects" above are refused
