//! What a demo prints beside its result.

/// What the result does not say.
#[derive(Debug)]
pub(crate) struct Story {
    /// Each party, and what it saw.
    pub(crate) saw: Vec<(&'static str, String)>,
    /// Where the demo is not private.
    pub(crate) caveats: &'static [&'static str],
}
