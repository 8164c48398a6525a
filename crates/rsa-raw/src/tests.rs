use std::thread;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};

use super::*;

fn pkcs8(size: KeySize) -> Vec<u8> {
    KeyPair::generate(size).unwrap().as_der().unwrap().as_ref().to_vec()
}

fn key() -> PrivateKey {
    PrivateKey::from_pkcs8(&pkcs8(KeySize::Rsa2048)).unwrap()
}

/// A number below every modulus of 2048 bits, different for each seed.
fn number(seed: u8) -> [u8; MODULUS_LEN] {
    std::array::from_fn(|i| if i == 0 { 0x7f } else { seed.wrapping_mul(31).wrapping_add(i as u8) })
}

#[test]
fn the_two_operations_are_inverse() {
    let key = key();
    for seed in 0..4 {
        let signed = key.private_operation(&number(seed)).unwrap();
        assert_ne!(signed, number(seed));
        assert_eq!(key.public_operation(&signed).unwrap(), number(seed));
        // Blinding is random; the result is not.
        assert_eq!(key.private_operation(&number(seed)).unwrap(), signed);
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let key = key();
    let n = *key.modulus();
    let mut above = n;
    above[MODULUS_LEN / 2..].fill(0xff);
    let mut minus_one = n;
    minus_one[MODULUS_LEN - 1] -= 1;
    let mut one = [0; MODULUS_LEN];
    one[MODULUS_LEN - 1] = 1;
    for input in [n, above, minus_one, one, [0; MODULUS_LEN], [0xff; MODULUS_LEN]] {
        assert_eq!(key.private_operation(&input), Err(RsaError::OutOfRange));
    }
    assert_eq!(key.public_operation(&n), Err(RsaError::OutOfRange));
    // The key stays usable after a rejection.
    assert!(key.private_operation(&number(1)).is_ok());
}

#[test]
fn a_faulty_result_is_not_given_out() {
    let key = key();
    let input = number(7);
    for place in [0, 1, 100, MODULUS_LEN - 1] {
        let flipped = key.checked(&input, |rsa, output| {
            let done = rsa.sign_raw(&input, output);
            output[place] ^= 0x10;
            done
        });
        assert_eq!(flipped, Err(RsaError::Fault));
    }
    let of_another = key.checked(&input, |rsa, output| rsa.sign_raw(&number(8), output));
    assert_eq!(of_another, Err(RsaError::Fault));
    let nothing = key.checked(&input, |_, _| true);
    assert_eq!(nothing, Err(RsaError::Fault));
    let failed = key.checked(&input, |_, _| false);
    assert_eq!(failed, Err(RsaError::Fault));
    assert!(key.checked(&input, |rsa, output| rsa.sign_raw(&input, output)).is_ok());
}

#[test]
fn damaged_keys_are_refused() {
    let der = pkcs8(KeySize::Rsa2048);
    assert!(PrivateKey::from_pkcs8(&der).is_ok());
    // The last bytes are those of qinv, preceded by dq and dp: a key with a wrong one would sign
    // wrongly.
    for from_the_end in [1, 60, 140, 200, 270, 330] {
        let mut damaged = der.clone();
        let place = damaged.len() - from_the_end;
        damaged[place] ^= 1;
        assert_eq!(PrivateKey::from_pkcs8(&damaged).err(), Some(RsaError::InvalidKey));
    }
    let mut longer = der.clone();
    longer.push(0);
    assert_eq!(PrivateKey::from_pkcs8(&longer).err(), Some(RsaError::InvalidKey));
    for len in (0..der.len()).step_by(37) {
        assert_eq!(PrivateKey::from_pkcs8(&der[..len]).err(), Some(RsaError::InvalidKey));
    }
    assert_eq!(PrivateKey::from_pkcs8(&pkcs8(KeySize::Rsa3072)).err(), Some(RsaError::InvalidKey));
}

#[test]
fn threads_share_a_key() {
    let key = key();
    let expected = key.private_operation(&number(3)).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..8 {
                    assert_eq!(key.private_operation(&number(3)).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn debug_shows_nothing() {
    assert_eq!(format!("{:?}", key()), "PrivateKey([redacted])");
}

/// Another user of AWS-LC on this thread would take an entry in the queue for its own.
#[test]
fn keys_of_other_kinds_leave_no_errors_behind() {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
    let curve = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let curve = curve.to_pkcs8v1().unwrap();
    let mut longer = pkcs8(KeySize::Rsa2048);
    longer.push(0);
    for der in [curve.as_ref(), &pkcs8(KeySize::Rsa3072), &longer, b"no key"] {
        assert!(PrivateKey::from_pkcs8(der).is_err());
        // SAFETY: takes no arguments, and reads only the calling thread's queue.
        assert_eq!(unsafe { aws_lc_sys::ERR_peek_error() }, 0);
    }
}
