"""The scikit-learn face of ``es.calibrate`` (an extra)."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenscore.calibration import calibrate
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.matching import ON_UNKNOWN
from evenscore.engines import tally
from evenscore.errors import DataError, EvenscoreError, OptionError, listing, require_option, shortened, warn
from evenscore.types import Array, Floats

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise EvenscoreError("evenscore.sklearn needs scikit-learn 1.6 or newer: install evenscore[sklearn]") from None


EVERYBODY = "everybody"
MOST_WORDS = 2000  # of a message that quotes the data


class GroupCalibrator(TransformerMixin, BaseEstimator):
    """Calibrates a score group by group, every user counting the same.

    ``X`` holds the score, in the column ``score_column``, and may hold the group too, in ``sensitive_column``; otherwise the
    groups come as ``sensitive_features``. ``groups`` are users, as in scikit-learn's ``GroupKFold``; without them rows are taken as
    independent. ``transform`` gives a column, ``predict`` the same as one dimension.

    Parameters
    ----------
    method, degree, bandwidth, bins, monotone, reference, weighting
        As for ``es.calibrate``.
    score_column, sensitive_column
        Positions in ``X``, or names when it is a frame; ``sensitive_column=None`` when the group is not in ``X``.
    on_unknown
        For groups not seen in ``fit``: "error", "pooled" or "keep".

    Attributes
    ----------
    calibrator_
        The fitted ``es.Calibrator``, to be saved, exported or verified.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.sklearn import GroupCalibrator
    >>> data = es.simulate(200, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> score, outcome = data["score"].reshape(-1, 1), data["outcome"]
    >>> model = GroupCalibrator(method="platt").fit(score, outcome, sensitive_features=data["group"], groups=data["user"])
    >>> model.predict([[0.5], [0.5]], sensitive_features=["a", "b"]).round(2)
    array([0.48, 0.39])
    """

    def __init__(
        self,
        method: str = "kernel",
        *,
        degree: int = 1,
        bandwidth: float | str = "risk",
        bins: int = 15,
        monotone: bool = False,
        reference: Any = None,
        weighting: str = "user",
        score_column: int | str = 0,
        sensitive_column: int | str | None = None,
        on_unknown: str = "error",
    ) -> None:
        self.method = method
        self.degree = degree
        self.bandwidth = bandwidth
        self.bins = bins
        self.monotone = monotone
        self.reference = reference
        self.weighting = weighting
        self.score_column = score_column
        self.sensitive_column = sensitive_column
        self.on_unknown = on_unknown

    def fit(self, X: Any, y: ArrayLike, sensitive_features: Any = None, groups: Any = None) -> GroupCalibrator:
        """Fit a map for each group of ``sensitive_features``; ``groups`` says whose row it is."""
        require_option("on_unknown", self.on_unknown, ON_UNKNOWN)
        score, labels = self._columns(X, sensitive_features, y, reset=True)
        with _in_our_words():
            outcome = column_or_1d(y, warn=True)
        sums = tally(None, score=score, outcome=outcome, group=labels, user=_given(groups))
        self.calibrator_: Calibrator = calibrate(
            sums,
            method=self.method,
            degree=self.degree,
            bandwidth=self.bandwidth,
            bins=self.bins,
            monotone=self.monotone,
            reference=self.reference,
            weighting=self.weighting,
        )
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None, sensitive_features: Any = None, groups: Any = None) -> Floats:
        """Fit, then transform the same rows."""
        if y is None:
            raise OptionError("GroupCalibrator is fitted to outcomes: requires y to be passed, but the target y is None")
        return self.fit(X, y, sensitive_features, groups).transform(X, sensitive_features)

    def transform(self, X: Any, sensitive_features: Any = None) -> Floats:
        """Calibrated scores, (n_rows, 1)."""
        return self.predict(X, sensitive_features).reshape(-1, 1)

    def predict(self, X: Any, sensitive_features: Any = None) -> Floats:
        """Calibrated scores, (n_rows,)."""
        check_is_fitted(self)
        score, labels = self._columns(X, sensitive_features, None, reset=False)
        applied = self.calibrator_.apply(score, labels, on_unknown=self.on_unknown)
        if applied.notable:
            warn("; ".join(applied.notes()))
        return applied.scores

    def score(self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """The negative mean squared error: higher is better."""
        predicted = self.predict(X, sensitive_features)
        with _in_our_words():
            outcome = np.asarray(column_or_1d(y), dtype=np.float64)
            check_consistent_length(predicted, outcome)
            return -float(np.average((predicted - outcome) ** 2, weights=sample_weight))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """One column, called calibrated."""
        check_is_fitted(self)
        return np.array(["calibrated"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string = self.sensitive_column is not None
        return tags

    def _columns(self, X: Any, sensitive_features: Any, y: Any, reset: bool) -> tuple[Floats, Any]:
        """Scores and group labels, checked as scikit-learn checks them."""
        if self.sensitive_column is None:
            with _in_our_words():
                if reset:
                    table, _ = validate_data(self, X, y, dtype=np.float64)
                else:
                    table = validate_data(self, X, reset=False, dtype=np.float64)
            score = table[:, self._place(self.score_column)]
            labels = np.full(len(score), EVERYBODY, dtype=object) if sensitive_features is None else _given(sensitive_features)
            if sensitive_features is None and not reset and self.calibrator_.groups != (EVERYBODY,):
                raise OptionError(
                    f"fitted with sensitive_features ({listing(map(repr, self.calibrator_.groups))}): give those of these rows too"
                )
        else:
            if sensitive_features is not None:
                raise OptionError("sensitive_features are given twice: sensitive_column names a column of X")
            with _in_our_words():
                table = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
                score = np.asarray(table[:, self._place(self.score_column)], dtype=np.float64)
            labels = table[:, self._place(self.sensitive_column)]
        return np.ascontiguousarray(score), labels

    def _place(self, column: int | str) -> int:
        """The position of a column."""
        names = list(getattr(self, "feature_names_in_", []))
        if isinstance(column, str):
            if column not in names:
                raise OptionError(f"no column {shortened(column)} in X; it has: {', '.join(map(str, names)) or 'no column names'}")
            return names.index(column)
        if not isinstance(column, numbers.Integral) or not -self.n_features_in_ <= column < self.n_features_in_:
            raise OptionError(f"no column {shortened(column)} in X; it has {self.n_features_in_}")
        return int(column)


class _WrongTypeError(DataError, TypeError):
    """What scikit-learn wants to be a TypeError."""


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    """What scikit-learn and NumPy refuse, as an error of evenscore, which is a ValueError too."""
    try:
        yield
    except EvenscoreError:
        raise
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise DataError(str(error)[:MOST_WORDS]) from error
    except TypeError as error:
        raise _WrongTypeError(str(error)[:MOST_WORDS]) from error


def _given(values: Any) -> Any:
    """Labels as an array or column; lists become arrays of objects."""
    if isinstance(values, list | tuple):
        values_array = np.empty(len(values), dtype=object)
        values_array[:] = values
        return values_array
    return values
