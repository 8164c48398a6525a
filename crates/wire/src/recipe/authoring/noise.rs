//! The noise of a draft, in TOML.

use super::AuthoringError;
use super::fields::Field;
use super::write::Writer;
use crate::recipe::Noise;

/// The noise in the table `[noise]`.
pub(super) fn read(field: Field) -> Result<Noise, AuthoringError> {
    let mut fields = field.table()?;
    fields.required("kind")?.choice(&[("server_gaussian", ())])?;
    let noise = Noise::ServerGaussian { sigma_micro: fields.required("sigma")?.micro()? };
    fields.finish()?;
    Ok(noise)
}

/// Writes the table `[noise]`.
pub(super) fn write(out: &mut Writer, noise: &Noise) {
    out.group("noise", "What each aggregator adds to every sum before it releases it.");
    let Noise::ServerGaussian { sigma_micro } = *noise;
    out.text("kind", "server_gaussian");
    out.micro("sigma", sigma_micro);
}
