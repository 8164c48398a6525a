//! Times of several things, measured by turns.

use std::time::Instant;

use anyhow::Result;

/// The least seconds of each, of so many turns. What else runs on the machine can only add to a time, and by turns it
/// adds to all of them alike.
pub(crate) fn least<const N: usize>(
    times: usize,
    mut things: [&mut dyn FnMut() -> Result<()>; N],
) -> Result<[f64; N]> {
    let mut least = [f64::INFINITY; N];
    for _ in 0..times {
        for (thing, least) in things.iter_mut().zip(&mut least) {
            let start = Instant::now();
            thing()?;
            *least = least.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(least)
}
