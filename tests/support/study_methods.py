"""Methods for studies that other processes can import."""

import math
import os
import time

import numpy as np
from scipy import stats

import evenscore as es


def by_user(data):
    """Mean outcome of each user and the group it is in."""
    n_rows = np.bincount(data["user"])
    first = np.concatenate([[0], np.cumsum(n_rows)[:-1]])
    return np.bincount(data["user"], data["outcome"]) / n_rows, data["group"][first]


def t_test(data, seed):
    mean, group = by_user(data)
    return stats.ttest_ind(mean[group == "a"], mean[group == "b"]).pvalue


def interval(data, seed):
    """The difference of the groups' mean outcomes with 95 % limits."""
    mean, group = by_user(data)
    a, b = mean[group == "a"], mean[group == "b"]
    estimate, half = a.mean() - b.mean(), 1.96 * math.sqrt(a.var() / len(a) + b.var() / len(b))
    return {"estimate": estimate, "low": estimate - half, "high": estimate + half}


def coin(data, seed):
    return np.random.default_rng(seed).random()


def slow(data, seed):
    time.sleep(0.2)
    return 0.5


def dies(data, seed):
    os._exit(3)


def family(data, seed):
    """Several tests from one tally."""
    tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
    return {method: es.parity_test(tally, method=method, seed=seed).p_value for method in ("sup", "l2")}
