//! PINE: sums of vectors of signed integers whose L2 norm is proven to be bounded.

mod fixed_point;
mod parameters;

use std::sync::Arc;

pub use fixed_point::{FixedPointError, to_fixed_point};
pub use parameters::PineField;
pub(crate) use parameters::{Parameters, optimal_chunk_lengths};

use crate::{ConfigError, Vdaf, VdafConfig};

pub(crate) fn build(
    _config: VdafConfig,
    _field: PineField,
    _parameters: Parameters,
) -> Result<Arc<dyn Vdaf>, ConfigError> {
    Err(ConfigError::Refused("PINE is not finished".into()))
}
