//! Events without accounting here, and what to do instead.

use crate::Error;
use crate::error::unsupported;

pub(super) const NO_PAIR: Error =
    unsupported("the loss distribution of this event", "use the accountant rdp, or best");
pub(super) const NESTED: Error = unsupported(
    "a composition inside of another event",
    "put composed and repeated on the outside",
);
pub(super) const RESPONSE: Error = unsupported(
    "randomized response unless under replacement",
    "use adjacency replace: a report is always sent",
);
pub(super) const SHUFFLE: Error = unsupported(
    "this shuffle",
    "use adjacency replace, and pure_dp or a local randomizer inside, sampled or not",
);
pub(super) const SUMMED: Error = unsupported(
    "this sum of reports",
    "use rappor inside; sample it on the outside, and the sums of others by shuffled",
);
pub(super) const ALLOCATION: Error = unsupported(
    "this random allocation",
    "use adjacency add-remove or zero-out and noise inside (or claims, under add-remove), or \
     adjacency replace and shuffled inside",
);
pub(super) const SEVERAL: Error = unsupported(
    "several of the slots together with donation, the counts seen or a coin for all of them",
    "select one slot",
);
pub(super) const SLOT_COUNTS: Error = unsupported(
    "random allocation with the counts seen",
    "use adjacency add-remove, gaussian or laplace inside, and poisson_sampled around it: if every \
     device takes part, the total shows whether this one is there",
);
pub(super) const SLOT_NOISE: Error = unsupported(
    "random allocation with the counts seen and so many slots, or so little or so much noise",
    "use up to 2^30 slots, and noise of 0.1 to 10,000 times the replacement distance",
);
pub(super) const WITHOUT_REPLACEMENT: Error = unsupported(
    "this sampling without replacement",
    "use adjacency replace, and gaussian, laplace, pure_dp or shuffled inside",
);
pub(super) const POISSON_REPLACE: Error = unsupported(
    "the loss distribution of this Poisson sample under replacement",
    "sample gaussian, discrete_gaussian, laplace or shuffled, or use the accountant rdp",
);
pub(super) const SAMPLED: Error = unsupported(
    "Poisson sampling of this event",
    "sample gaussian, discrete_gaussian, laplace, pure_dp or approximate_dp",
);
pub(super) const MANY_LEAVES: Error = unsupported(
    "the loss distribution of so many different events",
    "use the accountant rdp, or best",
);
pub(super) const MANY_OUTCOMES: Error = unsupported(
    "the loss distribution of so many discrete events with so many outcomes",
    "use the accountant rdp, or best",
);
pub(super) const MANY_GROUPS: Error = unsupported(
    "so many different events with the count seen",
    "give the same parameters to more of them, or count them in parts",
);
pub(super) const TRUNCATED: Error =
    unsupported("a truncated Poisson batch unless under add-remove", "use adjacency add-remove");
