"""``es.CurvesDisplay``: the curves as scikit-learn's displays are made, from predictions or from an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenscore.engines import tally
from evenscore.errors import DataError, OptionError, shortened
from evenscore.estimation.fitted_curves import Curves, curves
from evenscore.report.plots import plot

EVERYONE = "everyone"


class CurvesDisplay:
    """What a score stands for in each group, drawn: the expected outcome along the score, with simultaneous bands.

    Made by ``from_predictions`` or ``from_estimator``, as the displays of scikit-learn are. ``curves_`` has the numbers,
    ``ax_`` and ``figure_`` the picture; ``es.curves(tally).plot()`` draws the same.

    Parameters
    ----------
    curves
        What ``es.curves`` gave.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300).data(seed=1)
    >>> display = es.CurvesDisplay.from_predictions(
    ...     people["outcome"], people["score"], group=people["group"], user=people["user"]
    ... )
    >>> display.ax_.get_xlabel(), len(display.curves_.curves)
    ('score', 2)
    """

    def __init__(self, curves: Curves) -> None:
        if not isinstance(curves, Curves):
            raise OptionError(f"curves must be what es.curves gave, not {type(curves).__name__}")
        self.curves_ = curves
        self.ax_: Any = None
        self.figure_: Any = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        user: ArrayLike | None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> CurvesDisplay:
        """Draw the curves of predictions.

        Parameters
        ----------
        y_true, y_score
            What came true, and the score.
        user
            Whose row it is; ``user=None``, written out, says that rows are independent.
        group
            The group of each row; without it there is one curve, of everyone.
        sample_weight
            A weight of each row.
        pos_label
            The value of ``y_true`` that counts as 1; by default outcomes are numbers already.
        ax
            Axes to draw on; new ones by default.
        options
            Keywords of ``es.curves``, such as ``weighting="row"``.

        Returns
        -------
        CurvesDisplay
            With ``ax_``, ``figure_`` and ``curves_``.
        """
        rows: dict[str, Any] = {"score": y_score, "outcome": y_true if pos_label is None else _is_label(y_true, pos_label)}
        rows["group"] = [EVERYONE] * len(_listed("y_score", y_score)) if group is None else group
        asked = {"weight": sample_weight, "user": user}
        rows |= {name: values for name, values in asked.items() if values is not None}
        columns: dict[str, Any] = {name: name for name in ("score", "outcome", "group")}
        columns |= {name: None if values is None else name for name, values in asked.items()}
        return cls(curves(tally(rows, **columns), **options)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, user: ArrayLike | None, group: ArrayLike | None = None, **options: Any
    ) -> CurvesDisplay:
        """Draw the curves of a fitted estimator: its probability of the second class, or what it predicts when it has none.

        Parameters
        ----------
        estimator
            Fitted, with ``predict_proba`` for two classes or ``predict`` for numbers.
        X, y
            Features and outcomes of people it was not fitted on.
        user, group
            As in ``from_predictions``.
        options
            More of ``from_predictions``.

        Returns
        -------
        CurvesDisplay
            With ``ax_``, ``figure_`` and ``curves_``.
        """
        if not hasattr(estimator, "predict"):
            raise OptionError(f"estimator has no predict, so it is none: {type(estimator).__name__}")
        if not hasattr(estimator, "predict_proba"):
            return cls.from_predictions(y, estimator.predict(X), user=user, group=group, **options)
        chances = np.asarray(estimator.predict_proba(X))
        if chances.ndim != 2 or chances.shape[1] != 2:
            raise OptionError("estimator: curves are of two classes; give one class at a time to from_predictions")
        options.setdefault("pos_label", estimator.classes_[1])
        return cls.from_predictions(y, chances[:, 1], user=user, group=group, **options)

    def plot(self, ax: Any = None) -> CurvesDisplay:
        """Draw once more, on the axes given or on new ones.

        Parameters
        ----------
        ax
            Axes of matplotlib.

        Returns
        -------
        CurvesDisplay
            This one.
        """
        drawn = plot(self.curves_, ax)
        self.ax_, self.figure_ = drawn.ax_, drawn.figure_
        return self

    def __repr__(self) -> str:
        return f"<CurvesDisplay of {len(self.curves_.curves)} group{'s' * (len(self.curves_.curves) != 1)}>"


def _listed(name: str, values: Any) -> list[Any]:
    """An array as a list."""
    try:
        return list(values)
    except TypeError:
        raise DataError(f"{name} must be an array, not {shortened(values)} ({type(values).__name__})") from None


def _is_label(y_true: Any, pos_label: Any) -> list[int]:
    """1 where the outcome is the label that counts, else 0."""
    try:
        counts = [int(bool(value == pos_label)) for value in _listed("y_true", y_true)]
    except ValueError:  # an array in place of a label
        counts = []
    if not any(counts):
        raise OptionError(f"pos_label={shortened(pos_label)} is not among the values of y_true")
    return counts
