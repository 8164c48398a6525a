//! A public random projection of vectors, the same for all devices of a recipe: `d` numbers become
//! `k`, and the sum of the projections is the projection of the sum.
//!
//! ```text
//! P = S W D / sqrt k
//! ```
//!
//! `D` turns the sign of each number or does not, at random; the vector is filled up with zeros to
//! `p` numbers, the next power of two; `W` is the Walsh-Hadamard transform, whose entries are 1 and
//! -1; `S` keeps `k` of the `p` numbers. A device projects first and clips then: its norm in the `k`
//! numbers is what counts, and it is exactly bounded, whatever the projection is. The noise is
//! added to `k` numbers. The analyst applies the transpose: `P^T`.
//!
//! **The error** of a sum `X` that comes back as `P^T (P X + N)`, `N` noise of the variance `V` in each
//! of the `k` numbers. An entry of `P^T P` is 1 on the diagonal, whatever was drawn. Off it the rows of
//! `W` give products of `+-1`, which add up to 0 over all `p` rows; of `k` rows without replacement
//! their sum has the variance `k (p - k)/(p - 1)`, and the signs make different entries
//! uncorrelated. Each number of `P^T N` is a sum of `k` numbers of `N` with signs, over `sqrt k`. So the
//! number `j` is unbiased, over the choice of the projection, with the variance
//!
//! ```text
//! V + c (|X|^2 - X_j^2),      c = (p - k)/(k (p - 1)).
//! ```
//!
//! The noise is the same as without a projection. What is lost depends on the sum alone, not on the
//! number of devices: in the mean over all numbers `c (d - 1)/d |X|^2`, nearly `|X|^2/k`. (If each
//! device had a projection of its own, noise that is `d/k` times as large would be needed for the
//! same guarantee.) Rounding to fixed point adds at most a twelfth of a unit to `V` for each device.
//!
//! **Always the same.** Signs and rows come from a stream of random words ([`Projection::new`]), and
//! the transform is made of additions and subtractions in a fixed order and one multiplication at
//! its end. So all platforms agree to the last bit.

use rand_core::CryptoRng;

use crate::Error;
use crate::error::in_range;
use crate::math::sqrt;
use crate::uniform::uniform_below;

/// The most numbers of a vector.
const MOST: u32 = 1 << 26;

/// A projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// Of each number that is not padding, one bit: whether its sign is turned.
    signs: Vec<u64>,
    /// The numbers that are kept, in order.
    rows: Vec<u32>,
    length: u32,
    /// How many numbers are transformed.
    padded: u32,
}

impl Projection {
    /// From `length` numbers to `kept` of them, from 1 to `length` and at least two.
    ///
    /// `stream` is a generator with a fixed output that everybody makes of the recipe's seed. Of its
    /// 64-bit words the first `length/64`, rounded up, are the signs: the bit `i % 64`, from the
    /// lowest on, of the word `i/64` is 1 if the number `i` is multiplied by -1. Then the rows are
    /// drawn: from the list `0, 1, ..., p - 1`, for `i = 0, 1, ..., kept - 1`, the entry `i` is
    /// exchanged with the entry `i + u`, `u` uniform below `p - i` ([`uniform_below`]: the upper half
    /// of the product of a word with `p - i`, drawn again if the lower half is below
    /// `2^64 mod (p - i)`). The first `kept` entries are the rows, which are put in order.
    pub fn new(length: u32, kept: u32, stream: &mut dyn CryptoRng) -> Result<Self, Error> {
        let padded = padded(length, kept)?;
        let signs = (0..length.div_ceil(64)).map(|_| stream.next_u64()).collect();
        let mut rows: Vec<u32> = (0..padded).collect();
        for i in 0..kept {
            // Below `padded`, a `u32`.
            let chosen = i + uniform_below(u64::from(padded - i), stream) as u32;
            rows.swap(i as usize, chosen as usize);
        }
        rows.truncate(kept as usize);
        rows.sort_unstable();
        Ok(Self { signs, rows, length, padded })
    }

    /// How many numbers a vector has.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// How many are kept.
    pub fn kept(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The projection of a vector. One of another length, or with a number that is not finite,
    /// counts as the zero vector.
    pub fn project(&self, vector: &[f64]) -> Vec<f64> {
        let is_vector = vector.len() == self.length as usize;
        if !is_vector || vector.iter().any(|number| !number.is_finite()) {
            return vec![0.0; self.rows.len()];
        }
        let mut all = vec![0.0; self.padded as usize];
        all[..vector.len()].copy_from_slice(vector);
        self.turn(&mut all);
        transform(&mut all);
        let scale = self.scale();
        self.rows.iter().map(|row| all[*row as usize] * scale).collect()
    }

    /// The transpose: from the numbers that were kept to the vector. If there are more or fewer than
    /// were kept, the rest counts as zeros.
    pub fn back(&self, numbers: &[f64]) -> Vec<f64> {
        let mut all = vec![0.0; self.padded as usize];
        for (row, number) in self.rows.iter().zip(numbers) {
            all[*row as usize] = *number;
        }
        transform(&mut all);
        all.truncate(self.length as usize);
        self.turn(&mut all);
        let scale = self.scale();
        all.iter_mut().for_each(|number| *number *= scale);
        all
    }

    /// The mean, over all numbers, of their squared errors from the projection of a sum, divided by
    /// the square of its norm: `c (d - 1)/d`. Known before the projection is chosen.
    pub fn squared_error(length: u32, kept: u32) -> Result<f64, Error> {
        let d = f64::from(length);
        Ok(hidden(padded(length, kept)?, kept) * (d - 1.0) / d)
    }

    /// `c`: what the squared error of a number is at most, from the projection, divided by the square
    /// of the norm of the sum.
    pub fn hidden(&self) -> f64 {
        hidden(self.padded, self.kept())
    }

    fn scale(&self) -> f64 {
        1.0 / sqrt(f64::from(self.kept()))
    }

    fn turn(&self, vector: &mut [f64]) {
        for (numbers, signs) in vector.chunks_mut(64).zip(&self.signs) {
            for (bit, number) in numbers.iter_mut().enumerate() {
                if signs >> bit & 1 == 1 {
                    *number = -*number;
                }
            }
        }
    }
}

fn hidden(padded: u32, kept: u32) -> f64 {
    let (p, k) = (f64::from(padded), f64::from(kept));
    (p - k) / (k * (p - 1.0))
}

/// The next power of two.
fn padded(length: u32, kept: u32) -> Result<u32, Error> {
    let holds = (2..=MOST).contains(&length);
    in_range("the length", length.into(), holds, "from 2 to 2^26, where vectors are projected")?;
    let holds = (1..=length).contains(&kept);
    in_range("the numbers that are kept", kept.into(), holds, "from 1 to the length")?;
    Ok(length.next_power_of_two())
}

/// The Walsh-Hadamard transform of a power of two of numbers, in place.
fn transform(numbers: &mut [f64]) {
    let mut half = 1;
    while half < numbers.len() {
        for block in numbers.chunks_exact_mut(2 * half) {
            let (first, second) = block.split_at_mut(half);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
