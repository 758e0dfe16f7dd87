"""Viewers who see jobs: fair data in which a job does well or badly for all who see it, and what each key says of it.

    python examples/shared_items.py [FIGURE.png]

With a path it draws the picture of docs/two-way.md.
"""

from __future__ import annotations

import sys

import numpy as np

import evenscore as es


def viewings(seed: int, n_viewers: int = 500, n_jobs: int = 80, each: int = 16, job_effect: float = 0.8) -> dict[str, np.ndarray]:
    """Each viewer sees some jobs; whether they apply depends on the score, and on the job. Half of the jobs are in care."""
    rng = np.random.default_rng(seed)
    viewer = np.repeat(np.arange(n_viewers), each)
    job = rng.integers(0, n_jobs, len(viewer))
    score = rng.uniform(0.02, 0.98, len(viewer))
    logit = np.log(score / (1 - score)) + job_effect * rng.normal(size=n_jobs)[job]
    applied = rng.uniform(size=len(viewer)) < 1 / (1 + np.exp(-logit))
    return {"score": score, "applied": applied, "field": np.array(["tech", "care"])[job % 2], "viewer": viewer, "job": job}


def dates(seed: int, n_people: int = 200, each: int = 10, charm: float = 0.8) -> dict[str, np.ndarray]:
    """Each person meets some partners, who say yes or no; a partner who is easily pleased is so with all."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), each)
    partner = np.concatenate([rng.choice(n_people, each, replace=False) for _ in range(n_people)])
    score = rng.uniform(0.1, 0.9, len(person))
    logit = np.log(score / (1 - score)) + charm * (rng.normal(size=n_people)[person] + rng.normal(size=n_people)[partner])
    yes = rng.uniform(size=len(person)) < 1 / (1 + np.exp(-logit))
    return {"score": score, "yes": yes, "height": np.array(["tall", "short"])[person % 2], "person": person, "partner": partner}


def verdicts() -> dict[str, es.ParityTest]:
    """What viewers alone, and viewers and jobs say about the two fields."""
    columns = {"score": "score", "outcome": "applied", "group": "field", "user": "viewer"}
    data = viewings(seed=8)
    return {
        "viewers alone": es.parity_test(data, **columns, both=False),
        "viewers and jobs": es.parity_test(data, **columns, item="job", both=False),
    }


def draw(path: str) -> None:
    """The gap between the fields with a band by viewers alone, and by viewers and jobs."""
    import matplotlib.pyplot as plt

    tests = verdicts()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for ax, (title, test) in zip(axes, tests.items(), strict=True):
        pair = test.pairs[0]
        ax.fill_between(pair.score, pair.band_low, pair.band_high, color="#4477aa", alpha=0.25, linewidth=0)
        ax.plot(pair.score, pair.gap, color="#4477aa")
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set(title=f"{title}: {test.verdict}", xlabel="score")
    axes[0].set_ylabel("share that applies, care minus tech")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    for title, test in verdicts().items():
        print(f"{title}: {test.verdict}, p = {test.p_value:.2g}")
    if len(sys.argv) > 1:
        draw(sys.argv[1])
