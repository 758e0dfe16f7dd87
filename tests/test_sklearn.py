import pickle

import numpy as np
import pytest

import evenscore as es

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenscore.sklearn import GroupCalibrator


@pytest.fixture(scope="module")
def data():
    return es.simulate(400, curve={"a": (0, 1), "b": (-0.8, 0.8)}, outcome_correlation=0.5).data(seed=4)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# What scikit-learn itself asks of an estimator; its own data have few rows, which evenscore warns about.
@pytest.mark.filterwarnings("ignore::evenscore.EvenscoreWarning", "ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([GroupCalibrator(), GroupCalibrator("binning")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_gives_what_calibrate_gives(data):
    model = GroupCalibrator(method="isotonic")
    X = data["score"].reshape(-1, 1)
    found = model.fit_transform(X, data["outcome"], sensitive_features=data["group"], groups=data["user"])
    calibrator = es.calibrate(es.tally(data, score="score", outcome="outcome", group="group", user="user"), method="isotonic")
    assert found.shape == (len(X), 1)
    np.testing.assert_array_equal(found[:, 0], calibrator.transform(data["score"], data["group"]))
    np.testing.assert_array_equal(model.predict(X, sensitive_features=data["group"]), found[:, 0])
    assert model.calibrator_.to_dict()["calibrator"]["maps"] == calibrator.to_dict()["calibrator"]["maps"]
    assert model.get_feature_names_out().tolist() == ["calibrated"]


def test_users_matter(data):
    """Whose row it is changes the weights, so the fit is another one."""
    X = data["score"].reshape(-1, 1)
    busy = np.concatenate([np.arange(len(X)), np.repeat(np.flatnonzero(data["user"] < 40), 6)])
    args = (X[busy], data["outcome"][busy], data["group"][busy])
    with_users = GroupCalibrator("platt").fit(*args, groups=data["user"][busy]).predict(X, data["group"])
    without = GroupCalibrator("platt").fit(*args).predict(X, data["group"])
    assert np.abs(with_users - without).max() > 1e-3


def test_frames_pickles_and_clones(data):
    import pandas

    frame = pandas.DataFrame({"age": 40.0, "score": data["score"], "group": data["group"]})
    model = GroupCalibrator(score_column="score", sensitive_column="group")
    fitted = clone(model).fit(frame, data["outcome"], groups=data["user"])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    direct = GroupCalibrator().fit(frame[["score"]], data["outcome"], data["group"], groups=data["user"])
    np.testing.assert_array_equal(direct.predict(frame[["score"]], data["group"]), fitted.predict(frame))


class Scorer(TransformerMixin, BaseEstimator):
    """A classifier's probability as a feature for the next step."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        return self

    def transform(self, X):
        return self.model_.predict_proba(X)[:, 1:]


def test_in_a_pipeline_and_cross_validated_by_user(data, routing):
    """Users stay together in the folds, groups and users reach the calibrator, and calibrating by group pays."""
    X = np.log(data["score"] / (1 - data["score"])).reshape(-1, 1)
    step = GroupCalibrator().set_fit_request(sensitive_features=True, groups=True)
    step.set_transform_request(sensitive_features=True).set_predict_request(sensitive_features=True)
    step.set_score_request(sensitive_features=True, sample_weight=True)
    pipeline = Pipeline([("model", Scorer()), ("calibrate", step)])
    params = {"sensitive_features": data["group"], "groups": data["user"]}
    found = cross_validate(pipeline, X, data["outcome"], cv=GroupKFold(5), params=params)
    users = {"groups": data["user"]}
    alone = cross_validate(LogisticRegression(), X, data["outcome"], cv=GroupKFold(5), params=users, scoring="neg_brier_score")
    assert found["test_score"].mean() > alone["test_score"].mean() + 0.005


def test_groups_in_x_need_no_routing(data):
    X = np.column_stack([data["score"], data["group"] == "b"])
    model = GroupCalibrator(sensitive_column=1)
    found = cross_validate(model, X, data["outcome"], cv=GroupKFold(4), groups=data["user"], params={"groups": data["user"]})
    assert np.isfinite(found["test_score"]).all()


def test_bad_input(data):
    X = data["score"].reshape(-1, 1)
    model = GroupCalibrator().fit(X, data["outcome"], data["group"], groups=data["user"])
    with pytest.raises(es.DataError, match=r"unknown.*'c'"):
        model.predict(X[:2], sensitive_features=["a", "c"])
    with pytest.warns(es.EvenscoreWarning, match="1 row of an unknown"):
        assert model.set_params(on_unknown="keep").predict(X[:2], ["a", "c"])[1] == X[1, 0]
    with pytest.raises(es.DataError, match="same length"):
        model.predict(X[:2], ["a"])
    with pytest.raises(es.OptionError, match="give those of these rows"):
        model.predict(X[:2])
    with pytest.raises(es.OptionError, match="'kernel', 'isotonic'"):
        GroupCalibrator("spline").fit(X, data["outcome"])
    with pytest.raises(es.OptionError, match="it has 1"):
        GroupCalibrator(score_column=3).fit(X, data["outcome"])
    with pytest.raises(es.OptionError, match="no column 's'"):
        GroupCalibrator(score_column="s").fit(X, data["outcome"])
    with pytest.raises(es.OptionError, match="twice"):
        GroupCalibrator(sensitive_column=0).fit(X, data["outcome"], data["group"])
