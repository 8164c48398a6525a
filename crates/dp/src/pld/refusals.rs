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
pub(super) const SHUFFLE: Error =
    unsupported("this shuffle", "use adjacency replace, and pure_dp or randomized_response inside");
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
    "Poisson sampling under replacement",
    "use adjacency add-remove (a replacement is two of its steps), or sampled_without_replacement",
);
pub(super) const SAMPLED: Error = unsupported(
    "Poisson sampling of this event",
    "sample gaussian, discrete_gaussian, laplace, pure_dp or approximate_dp",
);
pub(super) const COUNT_SEEN: Error = unsupported(
    "the count seen under this adjacency",
    "use adjacency add-remove (or zero-out without dummies)",
);
pub(super) const MANY_LEAVES: Error = unsupported(
    "the loss distribution of more than 2,048 different events",
    "use the accountant rdp, or best",
);
pub(super) const MANY_COUNTS: Error =
    unsupported("so many different counts", "give a smaller population");
pub(super) const TRUNCATED: Error =
    unsupported("a truncated Poisson batch unless under add-remove", "use adjacency add-remove");
