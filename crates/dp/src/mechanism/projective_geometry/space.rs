//! The points of a projective geometry over a field of prime order `q`: vectors of `t` coordinates,
//! up to a factor.
//!
//! A point is the vector of its line whose first coordinate other than 0 is 1. Points are numbered
//! so that adding a coordinate at the end is arithmetic: the number plus 1 is 0 for the zero vector,
//! 1 for `(0, .., 0, 1)`, and `2 + (i - 1) q + c` for the vector of `i` followed by `c`.
//!
//! Two points are *incident* if the product of one with the other reversed is 0. This is symmetric,
//! and each point is incident to the same number of points.

/// A projective geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// The order of the field, a prime.
    pub(super) order: u64,
    /// The number of coordinates, 2 or more.
    pub(super) dimension: u32,
}

impl Space {
    /// How many points `m` coordinates have: `(q^m - 1)/(q - 1)`.
    fn points_of(self, m: u32) -> u64 {
        (0..m).fold(0_u64, |points, _| points.saturating_mul(self.order).saturating_add(1))
    }

    /// How many points there are.
    pub(super) fn points(self) -> u64 {
        self.points_of(self.dimension)
    }

    /// How many of them are incident to one point.
    pub(super) fn own(self) -> u64 {
        self.points_of(self.dimension - 1)
    }

    /// How many are incident to both of two points.
    pub(super) fn shared(self) -> u64 {
        self.points_of(self.dimension - 2)
    }

    /// The coordinates of a point, the last one first.
    pub(super) fn reversed(self, point: u64) -> Vec<u64> {
        let mut number = point + 1;
        let mut found = Vec::with_capacity(self.dimension as usize);
        while number >= 2 {
            found.push((number - 2) % self.order);
            number = (number - 2) / self.order + 1;
        }
        found.push(1);
        found.resize(self.dimension as usize, 0);
        found
    }

    /// The point of a vector, which is not zero.
    pub(super) fn point(self, vector: &[u64]) -> u64 {
        let first = vector.iter().copied().find(|c| *c != 0).unwrap_or(1);
        let factor = self.power(first, self.order - 2);
        let number = vector.iter().fold(0, |number, c| match number {
            0 => u64::from(*c != 0),
            _ => 2 + (number - 1) * self.order + c * factor % self.order,
        });
        number.saturating_sub(1)
    }

    fn power(self, mut base: u64, mut exponent: u64) -> u64 {
        let mut found = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                found = found * base % self.order;
            }
            base = base * base % self.order;
            exponent >>= 1;
        }
        found
    }

    /// For each point the sum of `values` over the points that are incident to it.
    ///
    /// With `u` a point and `v` one reversed, `G_j(a, b, z)` is the sum over all `u` that begin with
    /// `a`, of `j` coordinates, and whose others have the product `z` with `b`. So `G_t(u, , 0)` are
    /// the values, `G_0( , v, 0)` the sums, and for each coordinate `c` that is put before `b`
    ///
    /// ```text
    /// G_(j-1)(a, (c, b), z) = sum over x of G_j((a, x), b, z - x c).
    /// ```
    ///
    /// Both `a` and `b` are points or zero: `points q` numbers at each of `t` steps, of which each is
    /// a sum of `q`.
    pub(super) fn incident(self, values: &[f64]) -> Vec<f64> {
        let (q, t) = (self.order as usize, self.dimension);
        let with_zero = |m: u32| self.points_of(m) as usize + 1;
        let mut sums = vec![0.0; q];
        sums.extend(
            values
                .iter()
                .flat_map(|value| std::iter::once(*value).chain(std::iter::repeat_n(0.0, q - 1))),
        );
        for j in (1..=t).rev() {
            let (rows, columns, before) =
                (with_zero(j - 1), with_zero(t - j + 1), with_zero(t - j));
            let mut next = vec![0.0; rows * columns * q];
            for (cell, sum) in next.chunks_exact_mut(q).enumerate() {
                let (a, b) = (cell / columns, cell % columns);
                let (b, c) = if b < 2 { (0, b) } else { ((b - 2) / q + 1, (b - 2) % q) };
                // Zero may be followed by 0 or by the first 1.
                let (child, digits) = if a == 0 { (0, 2) } else { (2 + (a - 1) * q, q) };
                for x in 0..digits {
                    let from = ((child + x) * before + b) * q;
                    add_turned(sum, &sums[from..from + q], x * c % q);
                }
            }
            sums = next;
        }
        // What is left are the numbers of b, each with every z; the first is the zero vector.
        sums.chunks_exact(q).skip(1).map(|sum| sum[0]).collect()
    }
}

/// `to[z] += from[z - by]`, the index modulo the length.
fn add_turned(to: &mut [f64], from: &[f64], by: usize) {
    let (wrapped, straight) = to.split_at_mut(by);
    let split = from.len() - by;
    straight.iter_mut().zip(&from[..split]).for_each(|(to, from)| *to += from);
    wrapped.iter_mut().zip(&from[split..]).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACES: [(u64, u32); 7] = [(2, 2), (2, 4), (3, 3), (5, 2), (5, 3), (7, 3), (3, 5)];

    #[test]
    fn points_are_numbered_once_each() {
        for (order, dimension) in SPACES {
            let space = Space { order, dimension };
            for point in 0..space.points() {
                let mut vector = space.reversed(point);
                assert_eq!(vector.len(), dimension as usize);
                vector.reverse();
                for factor in 1..order {
                    let scaled: Vec<u64> = vector.iter().map(|c| c * factor % order).collect();
                    assert_eq!(space.point(&scaled), point, "{space:?}");
                }
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_definition_and_sizes_those_of_the_formula() {
        for (order, dimension) in SPACES {
            let space = Space { order, dimension };
            let size = space.points();
            let incident = |u: u64, v: u64| {
                let v = space.reversed(v);
                let product: u64 = space.reversed(u).iter().rev().zip(&v).map(|(a, b)| a * b).sum();
                product.is_multiple_of(order)
            };
            let values: Vec<f64> = (0..size).map(|point| (point * point % 17) as f64).collect();
            let found = space.incident(&values);
            assert_eq!(found.len() as u64, size);
            for v in 0..size {
                let all: Vec<u64> = (0..size).filter(|u| incident(*u, v)).collect();
                assert_eq!(all.len() as u64, space.own());
                assert!(all.iter().all(|u| incident(v, *u)), "not symmetric");
                let sum: f64 = all.iter().map(|u| values[*u as usize]).sum();
                assert_eq!(found[v as usize], sum, "{space:?} {v}");
                for w in (0..size).filter(|w| *w != v) {
                    let both = all.iter().filter(|u| incident(**u, w)).count();
                    assert_eq!(both as u64, space.shared());
                }
            }
        }
    }
}
