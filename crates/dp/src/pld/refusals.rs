//! Events without accounting here, and what to do instead.

use crate::Error;

pub(super) const NO_PAIR: Error = Error::Unsupported {
    what: "the loss distribution of this event",
    hint: "use the accountant rdp, or best",
};
pub(super) const NESTED: Error = Error::Unsupported {
    what: "a composition inside of another event",
    hint: "put composed and repeated on the outside",
};
pub(super) const RESPONSE: Error = Error::Unsupported {
    what: "randomized response unless under replacement",
    hint: "use adjacency replace: a report is always sent",
};
pub(super) const SHUFFLE: Error = Error::Unsupported {
    what: "this shuffle",
    hint: "use adjacency replace, and pure_dp or randomized_response inside",
};
pub(super) const ALLOCATION: Error = Error::Unsupported {
    what: "this random allocation",
    hint: "use adjacency add-remove or zero-out, and gaussian inside",
};
pub(super) const WITHOUT_REPLACEMENT: Error = Error::Unsupported {
    what: "this sampling without replacement",
    hint: "use adjacency replace, and gaussian, laplace, pure_dp or shuffled inside",
};
pub(super) const POISSON_REPLACE: Error = Error::Unsupported {
    what: "Poisson sampling under replacement",
    hint: "use adjacency add-remove (a replacement is two of its steps), or sampled_without_replacement",
};
pub(super) const SAMPLED: Error = Error::Unsupported {
    what: "Poisson sampling of this event",
    hint: "sample gaussian, discrete_gaussian, laplace, pure_dp or approximate_dp",
};
pub(super) const COUNT_SEEN: Error = Error::Unsupported {
    what: "the count seen under this adjacency",
    hint: "use adjacency add-remove (or zero-out without dummies)",
};
pub(super) const MANY_LEAVES: Error = Error::Unsupported {
    what: "the loss distribution of more than 2,048 different events",
    hint: "use the accountant rdp, or best",
};
pub(super) const MANY_COUNTS: Error =
    Error::Unsupported { what: "so many different counts", hint: "give a smaller population" };
pub(super) const TRUNCATED: Error = Error::Unsupported {
    what: "a truncated Poisson batch unless under add-remove",
    hint: "use adjacency add-remove",
};
