"""Answers one question per line of standard input, and says how long that took.

A question is a JSON object with a `task` and its parameters; an answer is one with `value`, `cpu_s` and `wall_s`.
Imports are done before the first question. Everything runs on one thread (the caller sets OMP_NUM_THREADS and the
like to 1), and nothing is kept from one question to the next.
"""

import importlib.metadata
import json
import math
import platform
import sys
import time

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp
from scipy import optimize, special, stats

ACCOUNTANTS = {"rdp": rdp.RdpAccountant, "pld": pld.PLDAccountant}


def rounds(rate, sigma, steps):
    """So many rounds of a sum with Gaussian noise, of sensitivity 1, over a Poisson sample."""
    gaussian = dp_accounting.GaussianDpEvent(sigma)
    return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(rate, gaussian), steps)


def epsilon(accountant, rate, sigma, steps, delta):
    """The default orders (RDP), the default discretization of 1e-4 (PLD)."""
    return ACCOUNTANTS[accountant]().compose(rounds(rate, sigma, steps)).get_epsilon(delta)


def sigma(accountant, rate, steps, epsilon, delta, tolerance=None):
    """The default bracket; without a tolerance, the default one of 1e-6."""
    return dp_accounting.calibrate_dp_mechanism(
        ACCOUNTANTS[accountant], lambda s: rounds(rate, s, steps), epsilon, delta, tol=tolerance
    )


def shuffle(epsilon0, n, delta):
    """The divergence of Feldman, McMillan and Talwar (2023), summed over the number of clones, and its root.

    Given c clones, the reports that look like the one input are x of c + 1. Under the first input their probability
    is (r x + (1 - r)(c + 1 - x)) times a factor that both inputs share, r = e^epsilon0/(e^epsilon0 + 1); under the
    other, r and 1 - r change places. So the ratio grows with x, and the set where it exceeds e^epsilon begins at one
    x for each c.
    """
    clone = 2.0 / (math.exp(epsilon0) + 1.0)
    keep = 1.0 / (1.0 + math.exp(-epsilon0))
    mean, width = (n - 1) * clone, 12 * math.sqrt((n - 1) * clone * (1 - clone))
    low, high = max(math.floor(mean - width), 0), min(math.ceil(mean + width), n - 1)
    outside = stats.binom.cdf(low - 1, n - 1, clone) + stats.binom.sf(high, n - 1, clone)
    c = np.arange(low, high + 1, dtype=float)
    weight = stats.binom.pmf(c, n - 1, clone)

    def excess(epsilon):
        ratio = math.exp(epsilon)
        # r x + (1 - r)(m - x) > ratio ((1 - r) x + r (m - x)) for m = c + 1
        edge = (c + 1) * (ratio * keep - (1 - keep)) / ((2 * keep - 1) * (1 + ratio))
        x = np.floor(edge) + 1
        # At least x: of c fair coins, x - 1 with the own report and x without.
        with_own, without = tail(c, x - 1), tail(c, x)
        first = keep * with_own + (1 - keep) * without
        other = (1 - keep) * with_own + keep * without
        return float(np.sum(weight * (first - ratio * other))) + outside - delta

    return optimize.brentq(excess, 0.0, epsilon0, xtol=1e-13)


def tail(c, x):
    """The probability that at least x of c fair coins show heads."""
    inside = np.clip(x, 1, np.maximum(c, 1))
    some = special.betainc(inside, c - inside + 1, 0.5)
    return np.where(x <= 0, 1.0, np.where(x > c, 0.0, some))


TASKS = {"epsilon": epsilon, "sigma": sigma, "shuffle": shuffle}


def answer(question):
    task = TASKS[question.pop("task")]
    wall, cpu = time.perf_counter(), time.process_time()
    value = task(**question)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"value": float(value), "cpu_s": cpu, "wall_s": wall}


def main():
    versions = {name: importlib.metadata.version(name) for name in ("dp-accounting", "numpy", "scipy")}
    print(json.dumps({"python": platform.python_version(), **versions}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
