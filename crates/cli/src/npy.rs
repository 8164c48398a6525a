//! Vectors in NumPy's format NPY: a head that says what follows, and the numbers.
//!
//! Written is version 1.0 with 64-bit floats, read are versions 1 to 3 with one axis and floats of 32
//! or 64 bits, little-endian (NumPy Enhancement Proposal 1).

use anyhow::{Context, Result, bail, ensure};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The numbers begin at a multiple of this.
const ALIGNED: usize = 64;

/// The file with these numbers.
pub(crate) fn encoded(numbers: &[f64]) -> Vec<u8> {
    let length = numbers.len();
    let mut head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({length},), }}");
    // Magic, version and the length of the head come first, a newline ends it.
    let before = MAGIC.len() + 4;
    let padded = (before + head.len() + 1).next_multiple_of(ALIGNED);
    head.push_str(&" ".repeat(padded - before - head.len() - 1));
    head.push('\n');
    let mut file = Vec::with_capacity(padded + 8 * length);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    // Far below 2^16.
    file.extend_from_slice(&(head.len() as u16).to_le_bytes());
    file.extend_from_slice(head.as_bytes());
    numbers.iter().for_each(|number| file.extend_from_slice(&number.to_le_bytes()));
    file
}

/// Whether the file begins like one.
pub(crate) fn is_npy(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// The numbers in the file.
pub(crate) fn decoded(file: &[u8]) -> Result<Vec<f64>> {
    let rest = file.strip_prefix(MAGIC).context("it does not begin like an .npy file")?;
    let (version, rest) = rest.split_at_checked(2).context("it ends early")?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().context("it ends early")?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().context("it ends early")?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        version => bail!("it has the version {version} of the format, of which 1 to 3 are known"),
    };
    let (head, numbers) = rest.split_at_checked(length).context("it ends early")?;
    let head = std::str::from_utf8(head).context("its head is not text")?;
    let field = |name: &str| {
        let (_, value) = head.split_once(&format!("'{name}':"))?;
        Some(value.trim_start())
    };
    let shape = field("shape").and_then(|shape| shape.strip_prefix('('));
    let shape = shape.and_then(|shape| shape.split_once(')')).context("it has no shape")?.0;
    let mut axes = shape.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let (Some(count), None) = (axes.next(), axes.next()) else {
        bail!("its shape is ({shape}): it must have one axis");
    };
    let count: usize = count.parse().context("its shape is not a number")?;
    let kind = field("descr").unwrap_or_default();
    let wide = match kind.get(..5) {
        Some("'<f8'") => 8,
        Some("'<f4'") => 4,
        _ => bail!("its numbers must be float64 or float32, little-endian"),
    };
    ensure!(
        Some(numbers.len()) == count.checked_mul(wide),
        "it has {} bytes of numbers, and its head says {count} numbers of {wide} bytes",
        numbers.len()
    );
    let number = |bytes: &[u8]| match <[u8; 8]>::try_from(bytes) {
        Ok(bytes) => f64::from_le_bytes(bytes),
        Err(_) => {
            <[u8; 4]>::try_from(bytes).map_or(f64::NAN, |it| f64::from(f32::from_le_bytes(it)))
        }
    };
    Ok(numbers.chunks_exact(wide).map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        for numbers in [vec![], vec![0.5], vec![1.0, -2.5, f64::MAX, -0.0, 1e-300]] {
            let file = encoded(&numbers);
            assert!(is_npy(&file) && (file.len() - 8 * numbers.len()).is_multiple_of(64));
            assert_eq!(decoded(&file).unwrap(), numbers);
        }
    }

    /// By the description of the format, byte by byte: the head is padded so that 128 bytes come before
    /// the numbers.
    #[test]
    fn files_are_laid_out_as_described() {
        let head = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
        let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        file.extend(format!("{head:<117}\n").into_bytes());
        file.extend([1.0_f64.to_le_bytes(), (-2.5_f64).to_le_bytes()].concat());
        assert_eq!(decoded(&file).unwrap(), [1.0, -2.5]);
        assert_eq!(encoded(&[1.0, -2.5]), file);
        let mut small = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        small.extend(format!("{:<117}\n", head.replace("<f8", "<f4")).into_bytes());
        small.extend([1.5_f32.to_le_bytes(), (-0.25_f32).to_le_bytes()].concat());
        assert_eq!(decoded(&small).unwrap(), [1.5, -0.25]);
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        let good = encoded(&[1.0, 2.0]);
        let with = |from: &str, to: &str| {
            let at = good.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
            [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
        };
        for bad in [
            Vec::new(),
            b"\x93NUMPY".to_vec(),
            good[..good.len() - 1].to_vec(),
            good[..40].to_vec(),
            with("(2,)", "(3,)"),
            with("(2,), ", "(1,2),"),
            with("(2,)", "(),_"),
            with("'<f8'", "'>f8'"),
            with("'<f8'", "'<i8'"),
            with("shape", "shap_"),
            with("\u{1}\0", "\u{9}\0"),
        ] {
            assert!(decoded(&bad).is_err(), "{bad:?}");
        }
        let mut huge = with("(2,)", "(9,)");
        huge.truncate(30);
        assert!(decoded(&huge).is_err());
    }
}
