//! The devices of an experiment: kinds of them, and how many there are of each.

use std::path::Path;

use anyhow::Result;
use sotto_protocol::expression::Attributes;

use super::data::shared;
use crate::demo::Question;

/// Of how many devices the values are made up, if nobody gives them.
const MADE_UP: u32 = 10_000;

/// Devices by what they know about themselves.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    /// What devices of each kind know, and how many there are.
    pub(super) kinds: Vec<(Attributes, u64)>,
    /// The names of the numbers in the result.
    pub(super) labels: Vec<String>,
}

impl Devices {
    /// Those of a recipe: of a file, or made up. As many as `population` says, in proportion; if it
    /// does not, those of the file, or as many as the recipe says.
    pub(super) fn of_recipe(
        recipe: &Path,
        data: Option<&Path>,
        population: Option<u64>,
        seed: u64,
    ) -> Result<(Self, Question)> {
        let question = Question::own(recipe, data, MADE_UP, seed)?;
        let (kinds, counts): (Vec<_>, Vec<_>) =
            question.of_each_kind().map(|(kind, count)| (kind.clone(), count)).unzip();
        let own = data.is_none().then_some(question.draft.who.population);
        let counts = match population.or(own) {
            Some(population) => shared(&counts, population),
            None => counts,
        };
        let kinds = kinds.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
        Ok((Self { kinds, labels: question.labels.clone() }, question))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }

    /// The same as a question to each single device.
    pub(super) fn asked(&self, draft: &sotto_wire::RecipeDraft) -> Result<Question> {
        let each = self.kinds.iter().zip(0..).flat_map(|((_, count), kind)| {
            std::iter::repeat_n(kind, usize::try_from(*count).unwrap_or(usize::MAX))
        });
        let kinds = self.kinds.iter().map(|(kind, _)| kind.clone()).collect();
        Question::new(draft.clone(), kinds, each.collect())
    }
}
