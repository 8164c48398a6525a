//! The randomizer of a draft, in TOML.

use super::AuthoringError;
use super::fields::Field;
use super::write::Writer;
use crate::recipe::Randomizer;

/// The randomizer in the table `[randomizer]`.
pub(super) fn read(field: Field) -> Result<Randomizer, AuthoringError> {
    let mut fields = field.table()?;
    // The parameters are read below; only the kind matters here.
    let kinds = [
        Randomizer::None,
        Randomizer::RandomizedResponse { epsilon_micro: 0 },
        Randomizer::Rappor { epsilon_micro: 0 },
        Randomizer::ProjectiveGeometry { epsilon_micro: 0 },
        Randomizer::Gaussian { sigma_micro: 0 },
    ]
    .map(|randomizer| (randomizer.kind(), randomizer));
    let mut randomizer = fields.required("kind")?.choice(&kinds)?;
    match &mut randomizer {
        Randomizer::None => {}
        Randomizer::RandomizedResponse { epsilon_micro }
        | Randomizer::Rappor { epsilon_micro }
        | Randomizer::ProjectiveGeometry { epsilon_micro } => {
            *epsilon_micro = fields.required("epsilon")?.micro()?;
        }
        Randomizer::Gaussian { sigma_micro } => *sigma_micro = fields.required("sigma")?.micro()?,
    }
    fields.finish()?;
    Ok(randomizer)
}

/// Writes the table `[randomizer]`.
pub(super) fn write(out: &mut Writer, randomizer: &Randomizer) {
    out.group("randomizer", "What the device does to its measurement before sending it.");
    out.text("kind", randomizer.kind());
    match *randomizer {
        Randomizer::None => {}
        Randomizer::RandomizedResponse { epsilon_micro }
        | Randomizer::Rappor { epsilon_micro }
        | Randomizer::ProjectiveGeometry { epsilon_micro } => out.micro("epsilon", epsilon_micro),
        Randomizer::Gaussian { sigma_micro } => out.micro("sigma", sigma_micro),
    }
}
