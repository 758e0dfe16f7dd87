"""Saved files cut off at every length, with flipped bytes, and forged with a right checksum: used or refused in words."""

import contextlib
import copy
import json
import random
import warnings
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.calibration.calibrator_file import checksum
from evenscore.calibration.storage import FILE as SINGLE_FILE
from evenscore.multiobjective.storage import FILE as JOINT_FILE
from evenscore.tallies.blocks import HIGHER, VECTORS
from hostile import FORGED, THOROUGH, places, survives

FLIPS = 4000 if THOROUGH else 150
TALLY = es.tally(as_dict(repeated_users(600, 1)), **NAMES, cells=8, cuts=(0.5,))
WITH_ITEMS = es.tally(as_dict(repeated_users(600, 1)), **NAMES, item=np.arange(600) % 40, cells=4)
OBJECTIVES = es.simulate_objectives(60)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Each kind of file: its path, its bytes and what reads it."""
    folder = tmp_path_factory.mktemp("saved")
    fine = es.tally(as_dict(repeated_users(600, 1)), **NAMES, cells=64, cuts=(0.5,))
    things = {
        "tally": TALLY,
        "tally with items": WITH_ITEMS,
        "calibrator": es.calibrate(TALLY, method="binning", bins=3),
        "joint": es.calibrate_jointly(OBJECTIVES.data(1), **OBJECTIVES.columns, method="logistic"),
        "trial": es.ThresholdTrial(fine, threshold=0.5, max_step=0.05),
    }
    found = {}
    for name, thing in things.items():
        thing.save(folder / name)
        found[name] = folder / name, (folder / name).read_bytes(), type(thing).load
    return found


KINDS = ("tally", "tally with items", "calibrator", "joint", "trial")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_off_anywhere_is_refused(saved, kind):
    path, content, load = saved[kind]
    step = 1 if THOROUGH or len(content) < 1500 else len(content) // 300
    whole = len(content.rstrip())
    for length in range(0, whole, step):
        path.write_bytes(content[:length])
        with pytest.raises(es.FileError):
            load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bytes_never_crash(saved, kind):
    path, content, load = saved[kind]
    rng = random.Random(kind)
    for _ in range(FLIPS):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 4])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        survives(load, path)


def forged(document, place, value, file):
    """The document with one value replaced, and a checksum that fits if there can be one."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    if file is not None and place[0] != "checksum":
        with contextlib.suppress(msgspec.MsgspecError, TypeError, KeyError):
            changed["checksum"] = checksum(msgspec.convert(changed["calibrator"], file.codec.stored))
    return changed


def used(load, path):
    """Load and use: a forged file may be valid, then what it holds must work."""
    thing = load(path)
    if isinstance(thing, es.Calibrator):
        thing.transform([0.1, 0.5, 0.9], [thing.groups[0]] * 3)
        thing.lookup()
        thing.to_sql()
    elif isinstance(thing, es.JointCalibrator):
        thing.transform({score: [0.1, 0.9] for score in thing.scores}, [thing.groups[0]] * 2)
    elif isinstance(thing, es.ThresholdTrial):
        thing.propose()
    return thing


@pytest.mark.parametrize(("kind", "file"), [("calibrator", SINGLE_FILE), ("joint", JOINT_FILE), ("trial", None)])
def test_forged_fields_are_used_or_refused(saved, kind, file):
    path, content, load = saved[kind]
    document = json.loads(content)
    rng = random.Random(kind)
    reached = 0
    for place in places(document):
        for value in FORGED if THOROUGH else rng.sample(FORGED, 3):
            path.write_text(json.dumps(forged(document, place, value, file)))
            reached += survives(used, load, path)
    assert reached > 0, "no forged file got past the checksum, so nothing behind it was tried"


def test_a_trial_with_bytes_that_are_no_text_is_refused(saved):
    path, content, load = saved["trial"]
    path.write_bytes(content.replace(b"rate", b"\xba\xff\xfe\x00"))
    with pytest.raises(es.FileError, match="not a saved threshold trial"):
        load(path)


WEIGHTS = [VECTORS.names.index(name) for name in ("W", "U", "A", "V0")]
FLOW = (
    es.parity_test,
    es.curves,
    es.ordering_test,
    es.calibrate,
    es.calibration_error,
    partial(es.marginal_test, threshold=0.5),
    partial(es.fair_thresholds, threshold=0.5),
    partial(es.classification_impact, threshold=0.5),
    partial(es.decision_metrics, threshold=0.5),
    partial(es.audit, threshold=0.5),
)


def altered(array, rng):
    """Half of the numbers changed beyond recognition."""
    array = array.copy()
    places = rng.integers(0, array.size, array.size // 2)
    array.flat[places] = array.flat[places] * rng.choice([0, -1, 1e6, -1e6, 1e40], len(places)) + rng.choice(
        [0, 5, -5], len(places)
    )
    return array


def positive(array, places):
    """Weights that are not negative, else the file is refused."""
    array[:, places] = np.abs(array[:, places])


@pytest.mark.parametrize("seed", range(40 if THOROUGH else 3))
def test_sums_that_contradict_each_other_mean_nothing_and_crash_nothing(seed, tmp_path):
    """What somebody forges with a right checksum is read like data that somebody forges."""
    rng = np.random.default_rng(seed)
    groups = []
    for group in TALLY.group_tallies:
        values = {name: altered(sums.values, rng) for name, sums in group.blocks.items()}
        positive(values["vectors"], WEIGHTS)
        positive(values["folds"], [0])
        positive(values["higher"], [HIGHER.names.index(name) for name in ("T0", "Q0")])
        blocks = {name: replace(sums, values=values[name]) for name, sums in group.blocks.items()}
        groups.append(replace(group, blocks=blocks, cell_users=np.abs(altered(group.cell_users, rng))))
    replace(TALLY, group_tallies=tuple(groups)).save(tmp_path / "forged")
    forged_tally = es.Tally.load(tmp_path / "forged")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for call in FLOW:
            survives(call, forged_tally)
