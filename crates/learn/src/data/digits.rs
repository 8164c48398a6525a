//! The handwritten digits that ship with this crate: `crates/learn/fixtures/digits/README.md` has
//! their origin and licence.

use super::Images;
use crate::Error;

const TEXT: &str = include_str!("../../fixtures/digits/digits.txt");

/// Pixels of a digit.
const SIZE: usize = 64;

/// 1,797 handwritten digits of 8 x 8 pixels, from 0 to 16.
pub fn digits() -> Result<Images, Error> {
    parse(TEXT)
}

/// A line for each digit: 64 pixels as digits of base 17, a space, the label.
fn parse(text: &str) -> Result<Images, Error> {
    let malformed = |reason| Error::Malformed { format: "a list of digits", reason };
    let (mut all, mut labels) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (pixels, label) =
            line.split_once(' ').ok_or(malformed("a line has pixels, a space and a label"))?;
        if pixels.len() != SIZE {
            return Err(malformed("a digit has 64 pixels"));
        }
        for pixel in pixels.chars() {
            // At most 16.
            let value = pixel.to_digit(17).ok_or(malformed("a pixel is from 0 to g"))?;
            all.push(value as u8);
        }
        let label = label.parse().ok().filter(|label| *label < 10);
        labels.push(label.ok_or(malformed("a label is from 0 to 9"))?);
    }
    Images::new(SIZE, all, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_origin() {
        let images = digits().unwrap();
        let mut counts = [0; 10];
        images.iter().for_each(|(_, label)| counts[usize::from(label)] += 1);
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        let total: u32 =
            images.iter().flat_map(|(pixels, _)| pixels).map(|pixel| u32::from(*pixel)).sum();
        assert_eq!((images.len(), total), (1_797, 561_718));
        let (first, label) = images.iter().next().unwrap();
        assert_eq!((&first[..8], label), (&[0, 0, 5, 13, 9, 1, 0, 0][..], 0));
    }

    #[test]
    fn broken_lines_are_refused() {
        let good = format!("{} 3\n", "g".repeat(64));
        assert_eq!(parse(&good).unwrap().len(), 1);
        let pixels = "0".repeat(64);
        for bad in
            ["x", &pixels, &format!("{pixels} 10"), &format!("{pixels} "), &format!("{pixels}0 1")]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("h{} 1", "0".repeat(63))).is_err());
        // As many bytes as pixels, but fewer characters.
        assert!(parse(&format!("\u{e9}{} 1", "0".repeat(62))).is_err());
    }
}
