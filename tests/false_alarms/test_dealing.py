"""Dealing groups out anew, against the rows themselves: who stays together, what is kept, and that chance alone decides."""

import collections
import itertools

import numpy as np
import pytest
from scipy import stats

import evenscore as es
from evenscore.data.observations import observe
from evenscore.data.spec import TallySpec
from evenscore.false_alarms.dealing import find_patterns, keep_most, score_strata

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
RARE = 1e-6  # the chance that a test of randomness fails by accident


def rows_of(users, groups, score=None):
    rng = np.random.default_rng(0)
    score = rng.random(len(users)) if score is None else score
    return observe({"s": score, "y": rng.integers(0, 2, len(users)), "g": np.array(groups), "u": users}, TallySpec(**NAMES))


def dealt(users, groups, seed=0, within=None, score=None):
    observations = keep_most(rows_of(users, groups, score))[0]
    codes = find_patterns(observations, within).deal(np.random.default_rng(seed))
    return [observations.groups[code] for code in codes]


def parts_of(users, groups):
    """Which rows share a group, by user, from the rows alone."""
    parts = collections.defaultdict(lambda: collections.defaultdict(set))
    for row, (user, group) in enumerate(zip(users, groups, strict=True)):
        parts[user][group].add(row)
    return {user: sorted(map(sorted, rows.values())) for user, rows in parts.items()}


def sets_of(users, groups):
    """How many users have each set of groups."""
    found = collections.defaultdict(set)
    for user, group in zip(users, groups, strict=True):
        found[user].add(group)
    return collections.Counter(map(frozenset, found.values()))


def people_in(n_groups, seed):
    """Users with several rows each, shuffled, in so many of three groups."""
    rng = np.random.default_rng(seed)
    users, groups = [], []
    for user in range(60):
        own = rng.choice(list("abc"), size=n_groups, replace=False)
        rows = [*own, *rng.choice(own, rng.integers(0, 4))]
        users += [user * 1_000_003] * len(rows)
        groups += rows
    order = rng.permutation(len(users))
    return np.array(users)[order], np.array(groups)[order]


@pytest.mark.parametrize("n_groups", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_share_a_group_stay_together_and_every_set_of_groups_is_kept(n_groups, seed):
    users, groups = people_in(n_groups, seed)
    again = dealt(users, groups, seed)
    assert parts_of(users, again) == parts_of(users, groups)
    assert sets_of(users, again) == sets_of(users, groups) and len(sets_of(users, groups)) == (1 if n_groups == 3 else 3)
    assert list(groups) != again
    assert again == dealt(users, groups, seed) and again != dealt(users, groups, seed + 1)


def test_users_in_other_numbers_of_groups_than_most_are_left_out():
    users = np.array([9, 9, 5, 5, 5, 7, 7, 3])
    groups = list("ab") + list("aba") + list("bb") + list("b")
    kept, left_out = keep_most(rows_of(users, [*groups[:5], "b", "a", "b"]))
    assert left_out == 1 and kept.n_rows == 7 and kept.users.span == 3
    assert kept.users.codes.tolist() == [2, 2, 0, 0, 0, 1, 1]
    everybody = rows_of(users, groups)
    assert (kept.users.hashes(np.arange(3)) == everybody.users.hashes(np.array([5, 7, 9]))).all()
    two, left_out = keep_most(everybody)  # as many are in one group as in two: those in one stay
    assert (left_out, two.users.span, two.group.tolist()) == (2, 2, [1, 1, 1])


def test_groups_keep_their_numbers_of_users_whatever_the_rows():
    users = np.repeat(np.arange(40), np.arange(40) % 5 + 1)
    groups = np.where(users < 10, "a", "b")
    for seed in range(20):
        again = np.array(dealt(users, groups, seed))
        assert len(np.unique(users[again == "a"])) == 10 and len(np.unique(users[again == "b"])) == 30


def test_every_way_to_deal_is_equally_likely():
    users, groups = np.arange(5), list("aabbc")
    patterns = find_patterns(keep_most(rows_of(users, groups))[0], None)
    rng = np.random.default_rng(1)
    ways = set(itertools.permutations(groups))
    seen = collections.Counter(tuple("abc"[code] for code in patterns.deal(rng)) for _ in range(6_000))
    assert set(seen) == ways and stats.chisquare([seen[way] for way in ways]).pvalue > RARE


def test_users_in_several_groups_give_them_to_their_parts_in_random_order():
    users = np.array([0, 0, 1, 1, 2, 2])
    groups = list("ab") + list("ab") + list("bc")
    patterns = find_patterns(keep_most(rows_of(users, groups))[0], None)
    rng = np.random.default_rng(2)
    seen = collections.Counter("".join("abc"[code] for code in patterns.deal(rng)) for _ in range(9_600))
    ways = {
        "".join(way)
        for order in itertools.permutations(["ab", "ab", "bc"])
        for way in itertools.product(*({pair, pair[::-1]} for pair in order))
    }
    assert len(ways) == 24 and set(seen) == ways
    assert stats.chisquare([seen[way] for way in sorted(ways)]).pvalue > RARE


def test_the_rejections_of_an_exact_test_are_as_many_as_the_distribution_says():
    """Dealt out among users with one row each, the 2 x 2 table is hypergeometric, so the size of Fisher's test is known."""
    outcome = np.arange(40) % 4 == 0
    groups = np.where(np.arange(40) < 12, "a", "b")
    data = {"s": np.linspace(0, 1, 40), "y": outcome.astype(int), "g": groups, "u": np.arange(40)}
    patterns = find_patterns(keep_most(observe(data, TallySpec(**NAMES)))[0], None)

    def p_value(events):
        return stats.fisher_exact([[events, 12 - events], [10 - events, 18 + events]]).pvalue

    p_values = np.array([p_value(events) for events in range(11)])
    size = stats.hypergeom(40, 10, 12).pmf(np.arange(11))[p_values <= 0.2].sum()
    rng = np.random.default_rng(3)
    rejected = sum(p_values[int(outcome[patterns.deal(rng) == 0].sum())] <= 0.2 for _ in range(4_000))
    assert stats.binomtest(int(rejected), 4_000, size).pvalue > RARE and 0.05 < size < 0.2


# Among users with nearby scores


def skewed_people(n_users=1_000, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(n_users) < 0.3, "b", "a")
    return rng.beta(np.where(groups == "b", 5, 2), np.where(groups == "b", 2, 5)), groups


def test_strata_keep_their_groups_and_so_each_group_its_scores():
    score, groups = skewed_people()
    stratum = score_strata(score, (groups == "b").astype(np.uint8))
    assert len(np.unique(stratum)) == (groups == "b").sum() // 25
    order = np.argsort(score)
    assert (np.diff(stratum[order]) >= 0).all()
    share = [np.bincount(stratum, groups == g, minlength=stratum.max() + 1) / (groups == g).sum() for g in "ab"]
    assert np.mean(share, axis=0) == pytest.approx(1 / (stratum.max() + 1), abs=0.01)
    again = np.array(dealt(np.arange(len(score)), groups, within="score", score=score))
    assert (again != groups).mean() > 0.1
    for g in "ab":
        assert (np.bincount(stratum[again == g]) == np.bincount(stratum[groups == g])).all()
        assert stats.ks_2samp(score[again == g], score[groups == g]).statistic < 0.06
    anyone = np.array(dealt(np.arange(len(score)), groups, score=score))
    assert stats.ks_2samp(score[anyone == "b"], score[groups == "b"]).statistic > 0.2


def test_equal_scores_are_in_one_stratum():
    score, groups = skewed_people()
    score = np.round(score, 1)
    stratum = score_strata(score, (groups == "b").astype(np.uint8))
    assert all(len(np.unique(stratum[score == value])) == 1 for value in np.unique(score))


def test_people_without_anybody_of_another_group_near_them_are_counted():
    score = np.concatenate([np.linspace(0, 0.4, 300), np.linspace(0.6, 1, 600)])
    groups = np.array(["a"] * 300 + ["a", "b"] * 300)
    patterns = find_patterns(keep_most(rows_of(np.arange(900), groups, score))[0], "score")
    alone = patterns.fixed
    assert patterns.n_strata == 12 and alone[:290].all() and not alone[310:].any()


# Refused in words


@pytest.mark.parametrize(
    ("users", "groups", "score", "within", "words"),
    [
        (
            np.repeat(np.arange(9), 3),
            "aaabbbaaa" + "aabbba" + "aababb" + "abcbca",
            None,
            None,
            "too mixed: 3 users in 1, 4 users in 2, 2",
        ),
        ([1, 1, 2, 3], "aabb", None, "score", "needs one row a user, and these are 4 rows of 3 users"),
        (range(90), "a" * 50 + "b" * 40, None, "score", "needs at least 50 users in each of two groups"),
        (range(4), "aaaa", None, None, "all users are in the same group"),
        (range(100), "a" * 50 + "b" * 50, np.arange(100) // 50, "score", "the groups have no scores in common"),
    ],
)
def test_what_cannot_be_dealt_is_refused(users, groups, score, within, words):
    with pytest.raises(es.DataError, match=words):
        dealt(np.array(users), list(groups), within=within, score=score)
