//! How many of many devices take part, without a coin for each.
//!
//! Each device takes part with probability `q = num/den`, on its own. Give it a uniform number below 1,
//! bit by bit; it takes part if the number is below `q`. The first bit in which the two differ
//! decides: if it is 1 in `q`, the device takes part, else it does not. Of all that are undecided so
//! far, how many have a 1 in the next bit is the number of ones among as many fair bits. So the law is
//! exactly the binomial one: there is no floating point here, and no approximation. The expected
//! number of random bits is below two for each device, whatever `q` is, 64 of them in a word.

use rand_core::CryptoRng;
use sotto_wire::recipe::Probability;

/// How many of so many devices take part.
pub(super) fn participants(
    devices: u64,
    probability: Probability,
    rng: &mut (impl CryptoRng + ?Sized),
) -> u64 {
    if probability.is_one() {
        return devices;
    }
    let den = u128::from(probability.den());
    // What is left of `q`, times `den`: twice it has the next bit above the point.
    let (mut rest, mut undecided, mut found) = (u128::from(probability.num()), devices, 0);
    // With no bits left in `q`, all numbers that began like it are at least as large.
    while undecided > 0 && rest > 0 {
        rest *= 2;
        let ones = ones_among(undecided, rng);
        if rest >= den {
            rest -= den;
            found += undecided - ones;
            undecided = ones;
        } else {
            undecided -= ones;
        }
    }
    found
}

/// How many of so many fair bits are 1.
fn ones_among(bits: u64, rng: &mut (impl CryptoRng + ?Sized)) -> u64 {
    let words = (0..bits / 64).map(|_| u64::from(rng.next_u64().count_ones())).sum::<u64>();
    match bits % 64 {
        0 => words,
        rest => words + u64::from((rng.next_u64() >> (64 - rest)).count_ones()),
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;
    use sotto_dp::uniform::uniform_below;

    use super::*;

    const RUNS: u64 = 40_000;

    /// Where a chi-square with so many degrees is with probability 1e-6 (Wilson and Hilferty, whose
    /// error is far smaller than what a wrong law makes here).
    fn unlikely(degrees: f64) -> f64 {
        let part = 2.0 / (9.0 * degrees);
        degrees * (1.0 - part + 4.753 * part.sqrt()).powi(3)
    }

    /// How often each number was drawn, up to `devices`.
    fn counts(devices: u64, mut draw: impl FnMut() -> u64) -> Vec<f64> {
        let mut found = vec![0.0; devices as usize + 1];
        (0..RUNS).for_each(|_| found[draw() as usize] += 1.0);
        found
    }

    /// Two samples of the same law: the chi-square of their difference is below a bound, but for one
    /// in a million of seeds. There are eight pairs, and the seeds are fixed.
    #[test]
    fn it_is_the_law_of_tossing_each_coin() {
        let mut rng = ChaCha8Rng::seed_from_u64(21);
        for (devices, num, den) in [
            (1, 1, 3),
            (7, 1, 2),
            (30, 3, 7),
            (64, 1, 64),
            (100, 99, 100),
            (129, 51, 250),
            (200, 1, 1_000_000_007),
            (1_000, 1, 100),
        ] {
            let rate = Probability::new(num, den).unwrap();
            let thinned = counts(devices, || participants(devices, rate, &mut rng));
            let tossed = counts(devices, || {
                (0..devices).filter(|_| uniform_below(den, &mut rng) < num).count() as u64
            });
            // Cells with few draws are put together.
            let (mut chi_square, mut degrees, mut cell) = (0.0, -1.0_f64, (0.0, 0.0));
            for (one, other) in thinned.into_iter().zip(tossed) {
                cell = (cell.0 + one, cell.1 + other);
                if cell.0 + cell.1 >= 20.0 {
                    chi_square += (cell.0 - cell.1).powi(2) / (cell.0 + cell.1);
                    degrees += 1.0;
                    cell = (0.0, 0.0);
                }
            }
            let bound = unlikely(degrees.max(1.0));
            assert!(chi_square < bound, "{devices} at {num}/{den}: {chi_square} of {bound}");
        }
    }

    /// Every path through the bits of the smallest cases: the law is the formula, to the last bit.
    #[test]
    fn small_cases_are_exact() {
        // With a denominator that is a power of two, the bits end.
        for (devices, num, den) in [(1, 1, 4), (2, 3, 4), (3, 3, 8), (4, 1, 2)] {
            let law = law(devices, num, den);
            for (found, ways) in law.iter().enumerate() {
                let choose = (0..found as u64).fold(1, |c, i| c * (devices - i) / (i + 1));
                let wanted =
                    choose * num.pow(found as u32) * (den - num).pow(devices as u32 - found as u32);
                // In units of `den^-devices`.
                assert_eq!(*ways, wanted as f64, "{devices} {num}/{den}: {found}");
            }
        }
    }

    /// The probability of each number, times `den^devices`, over all random words.
    fn law(devices: u64, num: u64, den: u64) -> Vec<f64> {
        let mut found = vec![0.0; devices as usize + 1];
        let mut open = vec![(Vec::new(), den.pow(devices as u32) as f64)];
        while let Some((words, mass)) = open.pop() {
            let mut tape = Tape { words: words.iter(), ended: false };
            let count = participants(devices, Probability::new(num, den).unwrap(), &mut tape);
            if tape.ended {
                // One word more: for the few bits that are looked at, all that they can be.
                for top in 0..16_u64 {
                    open.push(([&words[..], &[top << 60]].concat(), mass / 16.0));
                }
            } else {
                found[count as usize] += mass;
            }
        }
        found
    }

    /// Words from a list, and zeros after its end.
    struct Tape<'a> {
        words: std::slice::Iter<'a, u64>,
        ended: bool,
    }

    impl rand_core::TryRng for Tape<'_> {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            self.try_next_u64().map(|word| word as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            let word = self.words.next().copied();
            self.ended |= word.is_none();
            Ok(word.unwrap_or_default())
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(0);
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Tape<'_> {}

    #[test]
    fn everybody_or_nobody() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(participants(1 << 40, Probability::ONE, &mut rng), 1 << 40);
        assert_eq!(participants(1 << 40, Probability::ZERO, &mut rng), 0);
        assert_eq!(participants(0, Probability::new(1, 2).unwrap(), &mut rng), 0);
    }
}
