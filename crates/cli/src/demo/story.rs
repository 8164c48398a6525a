//! What a demo tells beside its result.

/// What the result does not say.
#[derive(Debug)]
pub(crate) struct Story {
    /// Who, and what they saw.
    pub(crate) saw: Vec<(&'static str, String)>,
    /// What is not private about it.
    pub(crate) caveats: &'static [&'static str],
}
