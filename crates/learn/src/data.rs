//! Data sets: images with labels, prepared for a model and split by user.
//!
//! Who reads or downloads files is not decided here: readers take bytes.

mod digits;
pub mod idx;
pub mod mnist;

use rand_core::CryptoRng;
use sotto_dp::uniform::shuffle;

use crate::Error;
use crate::error::{in_range, length};
use crate::math::norm;
use crate::model::Labelled;

pub use digits::digits;

/// Grey images of one size, each with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    size: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Images {
    /// From all pixels, image after image of `size` pixels each, and the labels.
    pub fn new(size: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Result<Self, Error> {
        in_range("pixels of an image", size as f64, size >= 1, "at least 1")?;
        length("pixels", pixels.len(), labels.len().saturating_mul(size))?;
        Ok(Self { size, pixels, labels })
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many pixels an image has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Each image with its label.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u8)> {
        self.pixels.chunks_exact(self.size).zip(self.labels.iter().copied())
    }

    /// Every `n`-th image for tests, the others for training: (training, test).
    pub fn split_every(&self, n: usize) -> (Self, Self) {
        let part = |for_tests: bool| {
            let mut part = Self { size: self.size, pixels: Vec::new(), labels: Vec::new() };
            for (place, (pixels, label)) in self.iter().enumerate() {
                if (place % n.max(1) == n.max(1) - 1) == for_tests {
                    part.pixels.extend_from_slice(pixels);
                    part.labels.push(label);
                }
            }
            part
        };
        (part(false), part(true))
    }
}

/// How images become features: minus the mean image, of norm 1, and a constant.
///
/// The mean is one of the training data, and is treated as public.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    mean: Vec<f64>,
    constant: Option<f32>,
}

impl Preparation {
    /// With the mean of these images. The constant feature comes last, if there is one.
    pub fn new(images: &Images, constant: Option<f32>) -> Self {
        let mut sums = vec![0_u64; images.size];
        for (pixels, _) in images.iter() {
            for (sum, pixel) in sums.iter_mut().zip(pixels) {
                *sum += u64::from(*pixel);
            }
        }
        let count = images.len().max(1) as f64;
        Self { mean: sums.into_iter().map(|sum| sum as f64 / count).collect(), constant }
    }

    /// How many features an image has.
    pub fn features(&self) -> usize {
        self.mean.len() + usize::from(self.constant.is_some())
    }

    /// The images as examples.
    pub fn apply(&self, images: &Images) -> Result<Vec<Labelled>, Error> {
        length("pixels of an image", images.size, self.mean.len())?;
        Ok(images.iter().map(|(pixels, label)| self.example(pixels, label)).collect())
    }

    fn example(&self, pixels: &[u8], label: u8) -> Labelled {
        let centred = pixels.iter().zip(&self.mean).map(|(pixel, mean)| f64::from(*pixel) - mean);
        let centred: Vec<f64> = centred.collect();
        let norm = norm(&centred);
        // The mean image itself has no direction.
        let factor = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        let features = centred.iter().map(|x| (x * factor) as f32).chain(self.constant);
        Labelled { features: features.collect(), label: usize::from(label) }
    }
}

/// Examples by user.
#[derive(Clone, Debug, PartialEq)]
pub struct Users<E> {
    examples: Vec<E>,
    /// Where the examples of each user end.
    ends: Vec<usize>,
}

impl<E> Users<E> {
    /// From the examples of each user.
    pub fn new(by_user: impl IntoIterator<Item = Vec<E>>) -> Self {
        let mut users = Self { examples: Vec::new(), ends: Vec::new() };
        for examples in by_user {
            users.examples.extend(examples);
            users.ends.push(users.examples.len());
        }
        users
    }

    /// One example for each user.
    pub fn one_each(examples: Vec<E>) -> Self {
        let ends = (1..=examples.len()).collect();
        Self { examples, ends }
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The examples of a user; none for a user that does not exist.
    pub fn of(&self, user: usize) -> &[E] {
        let start = user.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        let end = self.ends.get(user).unwrap_or(start);
        self.examples.get(*start..*end).unwrap_or_default()
    }
}

impl Users<Labelled> {
    /// So many examples for each user, of at most two labels: half of them of one label and half of
    /// one that is drawn independently. As many users as the examples suffice for; the rest of each
    /// label is left out.
    pub fn two_labels(
        examples: Vec<Labelled>,
        per_user: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let range = "an even number, at least 2";
        in_range("per_user", per_user as f64, per_user >= 2 && per_user.is_multiple_of(2), range)?;
        let labels = examples.iter().map(|example| example.label + 1).max().unwrap_or(0);
        in_range("labels", labels as f64, labels <= 1 << 16, "at most 2^16")?;
        let mut by_label: Vec<Vec<Labelled>> = (0..labels).map(|_| Vec::new()).collect();
        for example in examples {
            if let Some(same) = by_label.get_mut(example.label) {
                same.push(example);
            }
        }
        let mut halves: Vec<Vec<Labelled>> = Vec::new();
        for mut same in by_label {
            shuffle(&mut same, rng);
            let mut rest = same.into_iter();
            loop {
                let half: Vec<Labelled> = rest.by_ref().take(per_user / 2).collect();
                if half.len() < per_user / 2 {
                    break;
                }
                halves.push(half);
            }
        }
        shuffle(&mut halves, rng);
        let mut halves = halves.into_iter();
        let pairs = std::iter::from_fn(|| {
            let (mut first, second) = (halves.next()?, halves.next()?);
            first.extend(second);
            Some(first)
        });
        Ok(Self::new(pairs))
    }
}
