//! The Renyi accountant (Mironov, "Renyi differential privacy", 2017).
//!
//! [`of_event`] gives the Renyi divergence of an event at one order, [`epsilon`] the best epsilon
//! over all orders. Renyi divergences of one order add up under composition, even if each event is
//! chosen after seeing the results of the earlier ones.
//!
//! Black boxes known only by an `(epsilon, delta)` enter as *approximate* Renyi DP. Any pair of
//! `(epsilon, delta)`-close laws is `P = (1-delta) P' + delta P''`, `Q = (1-delta) Q' + delta Q''`
//! with `P'`, `Q'` `epsilon`-close without a delta (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan
//! 2016). So the divergence of the pure part composes as usual and the deltas add up separately
//! ([`Loss::delta`]); in the end `delta = (that of the conversion) + (the sum of the parts)`.

mod curve;
mod log_sum;
pub(crate) mod rounding;
mod sampled_gaussian;
mod search;
mod without_replacement;

pub use curve::of_event;
pub use sampled_gaussian::sampled_gaussian;
pub use search::{RdpAnswer, epsilon};

/// What an event costs at one order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// An upper bound on the Renyi divergence; infinite if there is none.
    pub rdp: f64,
    /// The sum of the deltas of the black boxes in it.
    pub delta: f64,
}
