//! Times of several operations, measured in alternation.

use std::time::Instant;

use anyhow::Result;

/// The minimum time of each in seconds, over this many turns. Other load on the machine can only
/// add to a time, and alternation spreads it evenly.
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
